//! Keys made from a fixed seed, so that none lies in the repository.

use ssh_key::private::{Ed25519Keypair, KeypairData};
use ssh_key::{Cipher, Kdf, LineEnding, PrivateKey};

pub(crate) const PASSPHRASE: &str = "open sesame";

fn key() -> PrivateKey {
    let pair = Ed25519Keypair::from_seed(&[7; 32]);
    PrivateKey::new(KeypairData::Ed25519(pair), "test").unwrap()
}

pub(crate) fn open_key() -> String {
    key().to_openssh(LineEnding::LF).unwrap().to_string()
}

pub(crate) fn locked_key() -> String {
    let kdf = Kdf::Bcrypt {
        salt: vec![1; 16],
        rounds: 4,
    };
    let locked = key()
        .encrypt_with(Cipher::Aes256Ctr, kdf, 1, PASSPHRASE)
        .unwrap();
    locked.to_openssh(LineEnding::LF).unwrap().to_string()
}
