//! Verification of a password against a hash. All comparisons run in constant time, wherever the
//! values differ.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use md5::{Digest, Md5};
use sha_crypt::{Params, sha256_crypt, sha512_crypt};
use sluice_config::PasswordHash;

/// Returns whether the check is as fast as the lookup of a remembered result.
pub(super) fn is_quick(hash: &PasswordHash) -> bool {
    matches!(hash, PasswordHash::Sha1 { .. } | PasswordHash::Plain(_))
}

/// Returns whether `password` matches `hash`.
pub(super) fn matches(hash: &PasswordHash, password: &[u8]) -> bool {
    match hash {
        PasswordHash::Bcrypt { cost, salt, digest } => {
            // The bytes that crypt(3) uses: at most 72, including the terminating zero.
            let mut key = password[..password.len().min(72)].to_vec();
            if key.len() < 72 {
                key.push(0);
            }
            (4..=31).contains(cost) && are_equal(&bcrypt::bcrypt((*cost).into(), *salt, &key)[..23], digest)
        }
        PasswordHash::ShaCrypt { rounds, salt, digest } => {
            let Ok(params) = Params::new(*rounds) else { return false };
            match digest.len() {
                32 => are_equal(&sha256_crypt(password, salt.as_bytes(), params), digest),
                64 => are_equal(&sha512_crypt(password, salt.as_bytes(), params), digest),
                _ => false,
            }
        }
        PasswordHash::Md5Crypt { apache, salt, digest } => {
            let magic: &[u8] = if *apache { b"$apr1$" } else { b"$1$" };
            are_equal(&md5_crypt(password, salt.as_bytes(), magic), digest)
        }
        PasswordHash::Sha1 { digest, salt } => {
            let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
            context.update(password);
            context.update(salt);
            are_equal(context.finish().as_ref(), digest)
        }
        PasswordHash::Plain(known) => {
            // Compares digests, because a comparison of the texts would disclose the length.
            let of = |text: &[u8]| digest::digest(&digest::SHA256, text);
            are_equal(of(password).as_ref(), of(known.as_bytes()).as_ref())
        }
    }
}

fn are_equal(a: &[u8], b: &[u8]) -> bool {
    verify_slices_are_equal(a, b).is_ok()
}

/// Computes crypt(3) with MD5, which no maintained crate provides. The unusual steps are part of
/// the algorithm.
fn md5_crypt(password: &[u8], salt: &[u8], magic: &[u8]) -> [u8; 16] {
    let of = |parts: &[&[u8]]| -> [u8; 16] {
        let mut hasher = Md5::new();
        parts.iter().for_each(|part| hasher.update(part));
        hasher.finalize().into()
    };
    let alternate = of(&[password, salt, password]);
    let mut hasher = Md5::new();
    for part in [password, magic, salt] {
        hasher.update(part);
    }
    for piece in password.chunks(alternate.len()) {
        hasher.update(&alternate[..piece.len()]);
    }
    let mut length = password.len();
    while length > 0 {
        hasher.update(if length & 1 == 1 { &[0] } else { &password[..1] });
        length >>= 1;
    }
    let mut digest: [u8; 16] = hasher.finalize().into();
    for round in 0..1000 {
        let odd = round % 2 == 1;
        let (first, last): (&[u8], &[u8]) = if odd { (password, &digest) } else { (&digest, password) };
        let salted: &[u8] = if round % 3 == 0 { &[] } else { salt };
        let keyed: &[u8] = if round % 7 == 0 { &[] } else { password };
        digest = of(&[first, salted, keyed, last]);
    }
    digest
}
