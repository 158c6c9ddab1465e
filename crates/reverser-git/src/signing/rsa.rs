//! RSA signatures in the form that SSH uses, made by aws-lc-rs.
//!
//! OpenSSH's key files leave out two of the numbers that the usual form of an RSA key has; they are
//! computed here.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA512, RsaKeyPair};
use ssh_key::private::RsaKeypair;
use ssh_key::{Algorithm, HashAlg, Mpint, Signature};

pub(super) struct RsaSigner(RsaKeyPair);

impl RsaSigner {
    /// `None` if the numbers are not those of an RSA key of a size that is accepted.
    pub(super) fn new(key: &RsaKeypair) -> Option<Self> {
        let private = &key.private;
        let exponent = positive(&private.d)?;
        let reduced = |prime: &Mpint| Some(remainder(exponent, &minus_one(positive(prime)?)));
        let numbers = [
            &[0][..],
            positive(&key.public.n)?,
            positive(&key.public.e)?,
            exponent,
            positive(&private.p)?,
            positive(&private.q)?,
            &reduced(&private.p)?,
            &reduced(&private.q)?,
            positive(&private.iqmp)?,
        ];
        let der = sequence(&numbers.map(integer).concat());
        RsaKeyPair::from_der(&der).ok().map(Self)
    }

    pub(super) fn sign(&self, message: &[u8]) -> Option<Signature> {
        let mut bytes = vec![0; self.0.public_modulus_len()];
        self.0
            .sign(&RSA_PKCS1_SHA512, &SystemRandom::new(), message, &mut bytes)
            .ok()?;
        Signature::new(
            Algorithm::Rsa {
                hash: Some(HashAlg::Sha512),
            },
            bytes,
        )
        .ok()
    }
}

fn positive(number: &Mpint) -> Option<&[u8]> {
    number.as_positive_bytes()
}

/// Of a prime, which is odd.
fn minus_one(prime: &[u8]) -> Vec<u8> {
    let mut number = prime.to_vec();
    if let Some(last) = number.last_mut() {
        *last &= 0xfe;
    }
    number
}

/// `value` mod `modulus`, both with the most significant byte first, by long division.
fn remainder(value: &[u8], modulus: &[u8]) -> Vec<u8> {
    let width = modulus.len() + 1;
    let modulus: Vec<u8> = [&[0], modulus].concat();
    let mut rest = vec![0_u8; width];
    for bit in value
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
    {
        let mut carry = bit;
        for byte in rest.iter_mut().rev() {
            let next = *byte >> 7;
            *byte = *byte << 1 | carry;
            carry = next;
        }
        if rest >= modulus {
            let mut borrow = false;
            for (byte, subtract) in rest.iter_mut().zip(&modulus).rev() {
                let (difference, first) = byte.overflowing_sub(*subtract);
                let (difference, second) = difference.overflowing_sub(u8::from(borrow));
                *byte = difference;
                borrow = first || second;
            }
        }
    }
    rest
}

/// An INTEGER of DER.
fn integer(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    // Zero itself keeps one byte; a set first bit would mean a negative number.
    let digits = &number[zeros.min(number.len().saturating_sub(1))..];
    let sign: &[u8] = if digits.first().is_some_and(|byte| byte & 0x80 != 0) {
        &[0]
    } else {
        &[]
    };
    tagged(0x02, &[sign, digits].concat())
}

fn sequence(content: &[u8]) -> Vec<u8> {
    tagged(0x30, content)
}

fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let length = content.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let length = &length[zeros..];
    let mut out = vec![tag];
    match length {
        [] => out.push(0),
        [short] if *short < 0x80 => out.push(*short),
        long => {
            out.push(0x80 | u8::try_from(long.len()).expect("at most eight bytes"));
            out.extend_from_slice(long);
        }
    }
    out.extend_from_slice(content);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_right() {
        for (value, modulus) in [
            (0_u32, 7_u32),
            (6, 7),
            (7, 7),
            (65_537, 256),
            (0xffff_ffff, 0x1_0001),
            (12_345_678, 999),
        ] {
            let rest = remainder(&value.to_be_bytes(), &modulus.to_be_bytes());
            assert_eq!(rest, u64::from(value % modulus).to_be_bytes()[3..]);
        }
    }

    #[test]
    fn numbers_are_encoded_as_der_wants_them() {
        assert_eq!(integer(&[0]), [2, 1, 0]);
        assert_eq!(integer(&[0, 0, 5]), [2, 1, 5]);
        assert_eq!(integer(&[0x80]), [2, 2, 0, 0x80]);
        assert_eq!(tagged(4, &[0; 300])[..4], [4, 0x82, 1, 44]);
        assert_eq!(tagged(4, &[0; 200])[..3], [4, 0x81, 200]);
    }
}
