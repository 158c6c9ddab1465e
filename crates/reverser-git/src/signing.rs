//! Signatures on commits: a seam, and SSH signatures behind it.

mod rsa;

use secrecy::{ExposeSecret, SecretString};
use ssh_key::private::KeypairData;
use ssh_key::{HashAlg, LineEnding, PrivateKey, SshSig};

use rsa::RsaSigner;

/// Signs commits. The answer is the text that goes into the commit's `gpgsig` header, in whatever
/// armour its kind of signature uses.
pub trait Signer: Send + Sync {
    /// Signs the bytes of a commit without its signature.
    fn sign(&self, payload: &[u8]) -> Result<String, SigningFailed>;
}

/// A signature could not be made.
#[derive(Debug, thiserror::Error)]
#[error("the commit could not be signed: {0}")]
pub struct SigningFailed(pub String);

/// Why a key cannot sign. The key itself is never repeated.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSigningKey {
    /// Not a private key in OpenSSH's form.
    #[error(
        "the signing key is not an OpenSSH private key; `ssh-keygen -p -f key` converts older forms"
    )]
    Form,
    /// Locked, and no passphrase was given.
    #[error("the signing key is locked by a passphrase; put it beside the key")]
    Locked,
    /// Locked, and the passphrase does not open it.
    #[error("the passphrase does not open the signing key")]
    Passphrase,
    /// A kind of key that is not supported.
    #[error("signing with {0} keys is not supported; use an ed25519 or RSA key")]
    Algorithm(String),
}

/// Signs as `git -c gpg.format=ssh commit -S` does, with an ed25519 or RSA key.
pub struct SshSigner {
    key: PrivateKey,
    /// For an RSA key.
    rsa: Option<RsaSigner>,
}

/// What an SSH signature of Git says that it is for.
const NAMESPACE: &str = "git";

impl SshSigner {
    /// Reads a private key in OpenSSH's form.
    pub fn new(
        key: &SecretString,
        passphrase: Option<&SecretString>,
    ) -> Result<Self, BadSigningKey> {
        let text = format!("{}\n", key.expose_secret().replace("\r\n", "\n").trim());
        let key = PrivateKey::from_openssh(text).map_err(|_| BadSigningKey::Form)?;
        let key = match (key.is_encrypted(), passphrase) {
            (false, _) => key,
            (true, None) => return Err(BadSigningKey::Locked),
            (true, Some(phrase)) => key
                .decrypt(phrase.expose_secret())
                .map_err(|_| BadSigningKey::Passphrase)?,
        };
        let rsa = match key.key_data() {
            KeypairData::Ed25519(_) => None,
            KeypairData::Rsa(pair) => Some(RsaSigner::new(pair).ok_or(BadSigningKey::Form)?),
            _ => return Err(BadSigningKey::Algorithm(key.algorithm().to_string())),
        };
        Ok(Self { key, rsa })
    }

    /// The public half, as it stands in `allowed_signers` and at the forge.
    pub fn public_key(&self) -> Result<String, SigningFailed> {
        self.key
            .public_key()
            .to_openssh()
            .map_err(|error| SigningFailed(error.to_string()))
    }
}

impl Signer for SshSigner {
    fn sign(&self, payload: &[u8]) -> Result<String, SigningFailed> {
        let signed = match &self.rsa {
            None => self.key.sign(NAMESPACE, HashAlg::Sha512, payload),
            Some(rsa) => {
                SshSig::signed_data(NAMESPACE, HashAlg::Sha512, payload).and_then(|data| {
                    let signature = rsa.sign(&data).ok_or(ssh_key::Error::Crypto)?;
                    let public = self.key.public_key().key_data().clone();
                    SshSig::new(public, NAMESPACE, HashAlg::Sha512, signature)
                })
            }
        };
        let pem = signed.and_then(|signature| signature.to_pem(LineEnding::LF));
        pem.map_err(|error| SigningFailed(error.to_string()))
    }
}

impl std::fmt::Debug for SshSigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SshSigner({})", self.key.fingerprint(HashAlg::Sha256))
    }
}
