//! An authority and a serving certificate: made, judged by a clock that is passed in, and replaced
//! step by step so that at no time a caller meets a certificate that it does not trust.
//!
//! ## Expected flow
//! A serving certificate is replaced by another of the same authority, which every caller trusts
//! already. When the authority grows old, a new one is first only *announced*: both are trusted, the
//! old serving certificate goes on. Once callers have had time to learn of it, a serving certificate
//! of the new authority follows. The old authority stays trusted until it is replaced itself.

use std::net::IpAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::{ExposeSecret as _, SecretString};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// Clocks differ: what is made now is valid a while before.
const BACKDATED: Duration = Duration::from_hours(1);

/// What a server shows, and what its callers trust.
#[derive(Debug, Clone)]
pub(super) struct Certificates {
    /// The authorities that are trusted, the newest first, in PEM.
    pub(super) authorities: String,
    /// The key of the newest authority.
    pub(super) authority_key: SecretString,
    /// What the server shows, in PEM.
    pub(super) serving: String,
    /// Its key.
    pub(super) serving_key: SecretString,
}

/// How long certificates live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of an authority.
    pub authority: Duration,
    /// Of a serving certificate.
    pub serving: Duration,
    /// How long callers have trusted an authority before it is used.
    pub announced: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            authority: Duration::from_hours(10 * 365 * 24),
            serving: Duration::from_hours(90 * 24),
            announced: Duration::from_mins(10),
        }
    }
}

/// What is to be done about certificates.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing before this time.
    Keep(Timestamp),
    /// These are the new ones.
    Replace(Box<Certificates>, Change),
}

/// What is new about certificates, as the log says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// There were none, or none that could be used.
    Created,
    /// A new authority is trusted, and not used yet.
    AuthorityAnnounced,
    /// A new serving certificate.
    Issued,
}

impl Change {
    /// As the log says it.
    #[must_use]
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::AuthorityAnnounced => "authority announced",
            Self::Issued => "serving certificate issued",
        }
    }
}

/// Why a certificate cannot be made or read.
#[derive(Debug, thiserror::Error)]
pub(super) enum CertificateError {
    /// No key or no signature.
    #[error("a certificate cannot be made: {0}")]
    Make(#[from] rcgen::Error),
    /// Something else.
    #[error("a certificate cannot be read: {0}")]
    Read(String),
}

/// Says what is to be done about certificates that serve these names.
///
/// `trusted_since` says since when callers are known to trust the newest authority. What cannot be
/// read is replaced: nobody can have used it.
pub(super) fn step(
    current: Option<&Certificates>,
    names: &[String],
    lifetimes: Lifetimes,
    trusted_since: Option<Timestamp>,
    now: Timestamp,
) -> Result<Step, CertificateError> {
    let Some((current, authority, serving)) = current.and_then(usable) else {
        let created = Certificates::create(names, lifetimes, now)?;
        return Ok(Step::Replace(Box::new(created), Change::Created));
    };
    let of_newest = serving.issuer == authority.subject;
    let known_at = trusted_since.map(|since| after(since, lifetimes.announced));
    let outdated = serving.renew_at() <= now || !serving.is_for(names);
    // A certificate that nobody takes any more cannot get worse by being early.
    let may_issue = of_newest || known_at.is_some_and(|at| at <= now) || serving.not_after <= now;
    if may_issue && (outdated || !of_newest) {
        let issued = current.reissue(&authority, names, lifetimes, now)?;
        return Ok(Step::Replace(Box::new(issued), Change::Issued));
    }
    if of_newest && authority.renew_at() <= now {
        let announced = current.announce(lifetimes, now)?;
        return Ok(Step::Replace(
            Box::new(announced),
            Change::AuthorityAnnounced,
        ));
    }
    let next = if of_newest {
        serving.renew_at().min(authority.renew_at())
    } else {
        known_at.unwrap_or(serving.not_after)
    };
    Ok(Step::Keep(next))
}

impl Certificates {
    fn create(
        names: &[String],
        lifetimes: Lifetimes,
        now: Timestamp,
    ) -> Result<Self, CertificateError> {
        let authority = new_authority(lifetimes, now)?;
        let not_after = after(now, lifetimes.authority);
        let (serving, serving_key) = issue(&authority, names, lifetimes, not_after, now)?;
        Ok(Self {
            authorities: authority.pem(),
            authority_key: authority.key().serialize_pem().into(),
            serving,
            serving_key,
        })
    }

    /// Puts a new authority before the one that is used.
    fn announce(&self, lifetimes: Lifetimes, now: Timestamp) -> Result<Self, CertificateError> {
        let authority = new_authority(lifetimes, now)?;
        Ok(Self {
            authorities: authority.pem() + first_text(&self.authorities),
            authority_key: authority.key().serialize_pem().into(),
            ..self.clone()
        })
    }

    fn reissue(
        &self,
        authority: &Facts,
        names: &[String],
        lifetimes: Lifetimes,
        now: Timestamp,
    ) -> Result<Self, CertificateError> {
        let key = KeyPair::from_pem(self.authority_key.expose_secret())?;
        let issuer = Issuer::from_ca_cert_der(&first(&self.authorities)?, key)?;
        let (serving, serving_key) = issue(&issuer, names, lifetimes, authority.not_after, now)?;
        Ok(Self {
            serving,
            serving_key,
            ..self.clone()
        })
    }

    /// When the serving certificate ends.
    #[must_use]
    pub(super) fn end(&self) -> Option<Timestamp> {
        let facts = Facts::of(&first(&self.serving).ok()?).ok()?;
        Some(facts.not_after)
    }
}

/// What is asked of a certificate.
struct Facts {
    subject: Vec<u8>,
    issuer: Vec<u8>,
    made_at: Timestamp,
    not_after: Timestamp,
    names: Vec<String>,
}

impl Facts {
    fn of(der: &CertificateDer<'_>) -> Result<Self, CertificateError> {
        let unreadable = |error: &dyn std::fmt::Display| CertificateError::Read(error.to_string());
        let (_, certificate) =
            X509Certificate::from_der(der).map_err(|error| unreadable(&error))?;
        let time = |seconds| Timestamp::from_second(seconds).map_err(|error| unreadable(&error));
        let validity = certificate.validity();
        let alternatives = certificate
            .subject_alternative_name()
            .map_err(|error| unreadable(&error))?;
        let names = alternatives.iter().flat_map(|one| &one.value.general_names);
        Ok(Self {
            subject: certificate.subject().as_raw().to_vec(),
            issuer: certificate.issuer().as_raw().to_vec(),
            made_at: after(time(validity.not_before.timestamp())?, BACKDATED),
            not_after: time(validity.not_after.timestamp())?,
            names: names.filter_map(name_in).collect(),
        })
    }

    /// When two thirds of its life are over.
    fn renew_at(&self) -> Timestamp {
        let life = Duration::try_from(self.not_after.duration_since(self.made_at));
        after(self.made_at, life.unwrap_or_default() / 3 * 2)
    }

    fn is_for(&self, names: &[String]) -> bool {
        let mut here: Vec<&String> = self.names.iter().collect();
        let mut wanted: Vec<&String> = names.iter().collect();
        here.sort();
        wanted.sort();
        here == wanted
    }
}

fn name_in(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address: IpAddr = match bytes.len() {
                4 => <[u8; 4]>::try_from(*bytes).ok()?.into(),
                _ => <[u8; 16]>::try_from(*bytes).ok()?.into(),
            };
            Some(address.to_string())
        }
        _ => None,
    }
}

/// Certificates of which each part can be read, and whose parts belong together.
fn usable(certificates: &Certificates) -> Option<(&Certificates, Facts, Facts)> {
    KeyPair::from_pem(certificates.authority_key.expose_secret()).ok()?;
    super::tls::certified_key(certificates).ok()?;
    let authority = Facts::of(&first(&certificates.authorities).ok()?).ok()?;
    let serving = Facts::of(&first(&certificates.serving).ok()?).ok()?;
    // It must be trusted: its authority is the newest or the one before.
    let trusted = all(&certificates.authorities).ok()?;
    let known = trusted
        .iter()
        .filter_map(|der| Facts::of(der).ok())
        .any(|authority| authority.subject == serving.issuer);
    known.then_some((certificates, authority, serving))
}

fn new_authority(
    lifetimes: Lifetimes,
    now: Timestamp,
) -> Result<CertifiedIssuer<'static, KeyPair>, CertificateError> {
    let key = KeyPair::generate()?;
    // Each has a name of its own, by which it is told from the one before.
    let name = format!("gitops-reverser webhook {:016x}", fastrand::u64(..));
    let mut params = params(&[], &name, now, after(now, lifetimes.authority))?;
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(CertifiedIssuer::self_signed(params, key)?)
}

fn issue(
    issuer: &Issuer<'_, KeyPair>,
    names: &[String],
    lifetimes: Lifetimes,
    latest: Timestamp,
    now: Timestamp,
) -> Result<(String, SecretString), CertificateError> {
    let not_after = after(now, lifetimes.serving).min(latest);
    let name = names.first().map_or("gitops-reverser", String::as_str);
    // A common name is at most 64 characters long.
    let name: String = name.chars().take(64).collect();
    let mut params = params(names, &name, now, not_after)?;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.pem(), key.serialize_pem().into()))
}

fn params(
    names: &[String],
    common_name: &str,
    now: Timestamp,
    not_after: Timestamp,
) -> Result<CertificateParams, CertificateError> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    let since_1970 = |at: Timestamp| Duration::from_secs(at.as_second().try_into().unwrap_or(0));
    let begin = rcgen::date_time_ymd(1970, 1, 1);
    params.not_before = begin + since_1970(now).saturating_sub(BACKDATED);
    params.not_after = begin + since_1970(not_after);
    Ok(params)
}

/// A time in years that certificates can name.
fn after(at: Timestamp, duration: Duration) -> Timestamp {
    SignedDuration::try_from(duration)
        .ok()
        .and_then(|duration| at.checked_add(duration).ok())
        .unwrap_or(Timestamp::MAX)
}

/// Every certificate in a PEM text.
pub(super) fn all(pem: &str) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let certificates = certificates.map_err(|error| CertificateError::Read(error.to_string()))?;
    if certificates.is_empty() {
        return Err(CertificateError::Read("there is none".to_owned()));
    }
    Ok(certificates)
}

fn first(pem: &str) -> Result<CertificateDer<'static>, CertificateError> {
    Ok(all(pem)?.swap_remove(0))
}

/// The text of the first certificate.
fn first_text(pem: &str) -> &str {
    const END: &str = "-----END CERTIFICATE-----\n";
    match pem.find(END) {
        Some(at) => &pem[..at + END.len()],
        None => pem,
    }
}

#[cfg(test)]
mod tests;
