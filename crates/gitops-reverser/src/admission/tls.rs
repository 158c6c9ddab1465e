//! How connections are encrypted: from certificates to what the TLS library wants.

use std::sync::Arc;

use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};
use secrecy::ExposeSecret as _;

use super::certificates::{self, CertificateError, Certificates};

/// Why connections cannot be encrypted.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    /// A certificate that is none.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// A key that is none. What is wrong with it is not told, for it is secret.
    #[error("the private key cannot be read")]
    Key,
    /// They do not belong together, or are of a kind that is not known.
    #[error("the certificate and its key cannot be used: {0}")]
    Pair(#[source] rustls::Error),
    /// No authority to verify callers by.
    #[error("the authority of callers cannot be used: {0}")]
    ClientAuthority(String),
}

/// A certificate with its key, which belong together.
pub(super) fn certified_key(certificates: &Certificates) -> Result<CertifiedKey, TlsError> {
    let chain = certificates::all(&certificates.serving)?;
    let key = PrivateKeyDer::from_pem_slice(certificates.serving_key.expose_secret().as_bytes())
        .map_err(|_| TlsError::Key)?;
    CertifiedKey::from_der(chain, key, &rustls::crypto::aws_lc_rs::default_provider())
        .map_err(TlsError::Pair)
}

/// Whose certificates callers must show, from the PEM of authorities.
pub(super) fn client_verifier(authorities: &str) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    let failed = |error: &dyn std::fmt::Display| TlsError::ClientAuthority(error.to_string());
    for authority in certificates::all(authorities)? {
        roots.add(authority).map_err(|error| failed(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| failed(&error))
}

/// What new connections are accepted with.
pub(super) fn server_config(
    certificates: &Certificates,
    callers: Option<Arc<dyn ClientCertVerifier>>,
) -> Result<Arc<ServerConfig>, TlsError> {
    let key = certified_key(certificates)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(TlsError::Pair)?;
    let builder = match callers {
        Some(verifier) => builder.with_client_cert_verifier(verifier),
        None => builder.with_no_client_auth(),
    };
    let resolver = rustls::sign::SingleCertAndKey::from(key);
    let mut config = builder.with_cert_resolver(Arc::new(resolver));
    // API servers ask for nothing else: with HTTP/2 they could not spread calls over replicas.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
