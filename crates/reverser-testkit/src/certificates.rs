//! A certificate authority for servers on the loopback: API servers, webhooks, Git servers.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

/// An authority that exists for one test or one control plane.
#[derive(Debug)]
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate with its private key.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The certificate.
    pub certificate_pem: String,
    /// Its private key, in PKCS #8.
    pub key_pem: String,
}

impl Authority {
    /// A new authority with a new key.
    pub fn new(name: &str) -> Result<Self, rcgen::Error> {
        let mut params = named(Vec::new(), name)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        Ok(Self { issuer })
    }

    /// What a client must trust, as a file wants it.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// What a client must trust, as [`kube::Config::root_cert`] wants it.
    #[must_use]
    pub fn der(&self) -> Vec<u8> {
        self.issuer.der().to_vec()
    }

    /// A certificate that a client of this name shows.
    pub fn issue_client(&self, name: &str) -> Result<Identity, rcgen::Error> {
        self.issue_for(&[name], ExtendedKeyUsagePurpose::ClientAuth)
    }

    /// A certificate for a server that is reached by these names and addresses.
    pub fn issue(&self, names: &[&str]) -> Result<Identity, rcgen::Error> {
        self.issue_for(names, ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn issue_for(
        &self,
        names: &[&str],
        usage: ExtendedKeyUsagePurpose,
    ) -> Result<Identity, rcgen::Error> {
        let all = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = named(all, names.first().copied().unwrap_or("server"))?;
        params.extended_key_usages = vec![usage];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

fn named(alternatives: Vec<String>, name: &str) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(alternatives)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    Ok(params)
}
