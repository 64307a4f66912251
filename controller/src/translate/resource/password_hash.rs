//! The password field of an htpasswd line: the forms that nginx accepts, if they are safe to check.
//!
//! | form | written by |
//! |---|---|
//! | `$2y$`, `$2a$`, `$2b$` | `htpasswd -B` |
//! | `$apr1$` | `htpasswd -m`, `openssl passwd -apr1` |
//! | `$5$`, `$6$` | `htpasswd -2`, `htpasswd -5`, `openssl passwd -5`, `-6` |
//! | `$1$` | `openssl passwd -1` |
//! | `{SHA}`, `{SSHA}`, `{PLAIN}` | `htpasswd -s`, LDAP tools, by hand |
//!
//! Rejected: DES of crypt, which uses eight characters only; `$2x$`, the form of a bug; and forms
//! of single C libraries, such as yescrypt. Costs are limited, because a check occupies a
//! processor.

use base64::Engine;
use base64::alphabet::{self, Alphabet};
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use sluice_config::PasswordHash;

/// Maximum cost of bcrypt: about two seconds.
const MOST_COST: u8 = 15;
/// Maximum rounds of SHA-crypt: about half a second.
const MOST_ROUNDS: u32 = 1_000_000;

/// bcrypt's base64. Encoders may set the unused bits of the last character.
const BCRYPT: GeneralPurpose = engine(&alphabet::BCRYPT);

const fn engine(alphabet: &'static Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::RequireNone);
    GeneralPurpose::new(alphabet, config)
}

/// Parses the field. The error completes "the password ...", and never contains the text.
pub(super) fn parse(text: &str) -> Result<PasswordHash, String> {
    let damaged = |form: &str| format!("has the form of {form}, but is cut or damaged");
    if let Some(password) = text.strip_prefix("{PLAIN}") {
        return Ok(PasswordHash::Plain(password.into()));
    }
    if let Some(digest) = text.strip_prefix("{SHA}") {
        let digest = STANDARD.decode(digest).ok().and_then(|digest| digest.try_into().ok());
        let digest = digest.ok_or_else(|| damaged("{SHA}"))?;
        return Ok(PasswordHash::Sha1 { digest, salt: Vec::new() });
    }
    if let Some(salted) = text.strip_prefix("{SSHA}") {
        let salted = STANDARD.decode(salted).map_err(|_| damaged("{SSHA}"))?;
        let (digest, salt) = salted.split_first_chunk().ok_or_else(|| damaged("{SSHA}"))?;
        return Ok(PasswordHash::Sha1 { digest: *digest, salt: salt.to_vec() });
    }
    let Some((id, rest)) = text.strip_prefix('$').and_then(|text| text.split_once('$')) else {
        return Err(match text.len() {
            0 => "is empty".into(),
            13 => "has the format of crypt's DES, which uses only eight characters and is refused".into(),
            _ => "has an unknown format; a password in plain text begins with {PLAIN}".into(),
        });
    };
    match id {
        "2a" | "2b" | "2y" => bcrypt(rest),
        "apr1" => md5(rest, true).ok_or_else(|| damaged("$apr1$")),
        "1" => md5(rest, false).ok_or_else(|| damaged("$1$")),
        "5" => sha(rest, 32).unwrap_or_else(|| Err(damaged("$5$"))),
        "6" => sha(rest, 64).unwrap_or_else(|| Err(damaged("$6$"))),
        "2x" => Err("has the format $2x$, which different programs compute differently".into()),
        "y" | "gy" | "7" | "argon2i" | "argon2id" | "argon2d" => {
            Err(format!("has the format ${id}$, which is not supported"))
        }
        _ => Err("has an unknown format".into()),
    }
}

/// `10$`, 22 characters of salt, 31 of digest.
fn bcrypt(rest: &str) -> Result<PasswordHash, String> {
    let read = || {
        let (cost, rest) = rest.split_once('$')?;
        let cost: u8 = (cost.len() == 2).then(|| cost.parse().ok())??;
        let (salt, digest) = rest.split_at_checked(22)?;
        let salt = BCRYPT.decode(salt).ok()?.try_into().ok()?;
        let digest = BCRYPT.decode(digest).ok()?.try_into().ok()?;
        Some((cost, salt, digest))
    };
    let (cost, salt, digest) = read().ok_or("has the form of bcrypt, but is cut or damaged")?;
    if !(4..=MOST_COST).contains(&cost) {
        return Err(format!("has bcrypt's cost {cost}, which is not from 4 to {MOST_COST}"));
    }
    Ok(PasswordHash::Bcrypt { cost, salt, digest })
}

/// The salt, and 22 characters of digest.
fn md5(rest: &str, apache: bool) -> Option<PasswordHash> {
    let (salt, digest) = rest.split_once('$')?;
    // Longer salts are truncated by every implementation.
    let salt = cut(salt, 8)?.into();
    let order: Vec<usize> = (0..4).flat_map(|n| [n, n + 6, n + 12]).chain([4, 10, 5, 11]).collect();
    Some(PasswordHash::Md5Crypt { apache, salt, digest: decode(digest, &order)?.try_into().ok()? })
}

/// The salt, optionally after `rounds=5000$`, and the digest.
fn sha(rest: &str, length: usize) -> Option<Result<PasswordHash, String>> {
    let (rounds, rest) = match rest.strip_prefix("rounds=") {
        Some(rest) => {
            let (rounds, rest) = rest.split_once('$')?;
            (rounds.parse::<u32>().ok()?, rest)
        }
        None => (5000, rest),
    };
    if rounds > MOST_ROUNDS {
        return Some(Err(format!("has {rounds} rounds, more than {MOST_ROUNDS}")));
    }
    let (salt, digest) = rest.split_once('$')?;
    let salt = cut(salt, 16)?.into();
    let digest = decode(digest, &order_of_sha(length))?;
    // crypt(3) raises lower numbers.
    Some(Ok(PasswordHash::ShaCrypt { rounds: rounds.max(1000), salt, digest }))
}

/// The byte order of a SHA digest in crypt(3): three ranks that take turns as the first.
fn order_of_sha(length: usize) -> Vec<usize> {
    let rank = length / 3;
    let (first, last): (usize, &[usize]) = if length == 32 { (2, &[31, 30]) } else { (1, &[63]) };
    let triple = |n: usize| {
        let lead = n * first % 3;
        [0, 1, 2].map(|step| (lead + step) % 3 * rank + n)
    };
    (0..rank).flat_map(triple).chain(last.iter().copied()).collect()
}

/// Decodes crypt's base64: every three bytes form a number, highest first, written from its lowest
/// six bits. `order` maps written bytes to bytes of the digest; a last group of one or two bytes is
/// written without the missing ones.
fn decode(text: &str, order: &[usize]) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut digest = vec![0; order.len()];
    let mut characters = text.bytes();
    for group in order.chunks(3) {
        let mut number: u32 = 0;
        for at in 0..=group.len() {
            let character = characters.next()?;
            let value = ALPHABET.iter().position(|known| *known == character)?;
            number |= u32::try_from(value).ok()? << (6 * at);
        }
        for (at, place) in group.iter().rev().enumerate() {
            digest[*place] = (number >> (8 * at)) as u8;
        }
    }
    characters.next().is_none().then_some(digest)
}

fn cut(salt: &str, most: usize) -> Option<&str> {
    let salt = salt.split_at_checked(most).map_or(salt, |(salt, _)| salt);
    salt.bytes().all(|b| b.is_ascii_graphic()).then_some(salt)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_sha_is_that_of_crypt() {
        let order = order_of_sha(64);
        assert_eq!(order[..9], [0, 21, 42, 22, 43, 1, 44, 2, 23]);
        assert_eq!(order[60..], [62, 20, 41, 63]);
        let order = order_of_sha(32);
        assert_eq!(order[..9], [0, 10, 20, 21, 1, 11, 12, 22, 2]);
        assert_eq!(order[27..], [9, 19, 29, 31, 30]);
        for length in [32, 64] {
            let mut order = order_of_sha(length);
            order.sort_unstable();
            assert_eq!(order, (0..length).collect::<Vec<_>>());
        }
    }

    #[test]
    fn forms_that_nginx_accepts_are_accepted() {
        for good in [
            "$2y$05$nC6nErr9XZJuMJ57WyCob.EuZEjylDt2KaHfbfOtyb.EgL1I2jCVa",
            "$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK00",
            "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=",
            "{PLAIN}",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn uncheckable_hashes_are_refused_without_their_text() {
        for (bad, said) in [
            ("", "empty"),
            ("bGVh02xkuGli2", "DES"),
            ("secret", "unknown format"),
            ("$2y$05$nC6nErr9XZJuMJ57WyCob.EuZEjylDt2Ka", "damaged"),
            ("$2y$31$nC6nErr9XZJuMJ57WyCob.EuZEjylDt2KaHfbfOtyb.EgL1I2jCVa", "cost 31"),
            ("$2x$05$nC6nErr9XZJuMJ57WyCob.EuZEjylDt2KaHfbfOtyb.EgL1I2jCVa", "$2x$"),
            ("$apr1$lZL6V/ci$eIMz/iKDkbtys/uU7LEK0", "damaged"),
            ("$apr1$lZL6V/ci", "damaged"),
            ("$6$rounds=4000000000$salt$digest", "rounds"),
            ("$6$rounds=x$salt$digest", "damaged"),
            ("{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9", "damaged"),
            ("{SSHA}W6ph", "damaged"),
            ("$y$j9T$salt$digest", "$y$"),
            ("$99$x", "unknown format"),
        ] {
            let reason = parse(bad).unwrap_err();
            assert!(reason.contains(said), "{bad}: {reason}");
            assert!(bad.len() < 5 || !reason.contains(bad), "{reason}");
        }
    }
}
