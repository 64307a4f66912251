//! Versions and cipher suites of TLS, as OpenSSL writes them.

use std::sync::Arc;

use sluice_config::TlsVersions;

use super::{Type, Wrong};

const VERSIONS: &[&str] = &["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// Versions between blanks. Those before TLS 1.2 are left out.
pub fn tls_versions() -> Type<TlsVersions> {
    super::words(VERSIONS).and_then(|words| {
        let versions = TlsVersions { v1_2: words.contains(&"TLSv1.2"), v1_3: words.contains(&"TLSv1.3") };
        match versions.v1_2 || versions.v1_3 {
            true => Ok(versions),
            false => Err("names no version that is spoken: older ones than TLSv1.2 are broken (RFC 8996)"),
        }
    })
}

/// A cipher suite of TLS 1.2 that is spoken: its name, its number, and the words of OpenSSL that stand for it among
/// others.
type Suite = (&'static str, u16, &'static [&'static str]);

/// Words that stand for all of them.
const ALL: [&str; 9] = ["DEFAULT", "ALL", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2", "AEAD"];

const SUITES: [Suite; 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", 0xc02c, &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM", "SHA384"]),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", 0xc02b, &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM", "SHA256"]),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", 0xcca9, &["ECDSA", "aECDSA", "CHACHA20"]),
    ("ECDHE-RSA-AES256-GCM-SHA384", 0xc030, &["aRSA", "AES", "AES256", "AESGCM", "SHA384"]),
    ("ECDHE-RSA-AES128-GCM-SHA256", 0xc02f, &["aRSA", "AES", "AES128", "AESGCM", "SHA256"]),
    ("ECDHE-RSA-CHACHA20-POLY1305", 0xcca8, &["aRSA", "CHACHA20"]),
];

/// A list of suites as OpenSSL has it: names and words between colons, `!` or `-` before those that are taken out, `+`
/// between words that must all hold. What is not spoken is left out.
pub fn tls_ciphers() -> Type<Arc<[u16]>> {
    Type::new("cipher suites as OpenSSL lists them", |text| {
        let mut on = [false; SUITES.len()];
        let mut banned = [false; SUITES.len()];
        for item in text.split([':', ',', ' ']).filter(|item| !item.is_empty()) {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!-+@=._".contains(&byte);
            if !item.bytes().all(fits) {
                return Err(Wrong::Invalid(format!("has {item:?}, which is no name of a cipher suite")));
            }
            // Orders, and a level of security that all that are spoken reach.
            if item.starts_with(['@', '+']) {
                continue;
            }
            let (words, is_added, is_final) = match (item.strip_prefix('!'), item.strip_prefix('-')) {
                (Some(words), _) => (words, false, true),
                (None, Some(words)) => (words, false, false),
                (None, None) => (item, true, false),
            };
            for (at, suite) in SUITES.iter().enumerate().filter(|(_, suite)| stands_for(words, suite)) {
                banned[at] |= is_final;
                on[at] = is_added && !banned[at];
                let _ = suite;
            }
        }
        let wanted: Arc<[u16]> =
            SUITES.iter().zip(on).filter_map(|((_, number, _), on)| on.then_some(*number)).collect();
        match wanted.is_empty() {
            false => Ok(wanted),
            true => {
                let names: Vec<&str> = SUITES.iter().map(|(name, ..)| *name).collect();
                Err(Wrong::Invalid(format!(
                    "names no cipher suite of TLS 1.2 that is spoken: {}",
                    names.join(", ")
                )))
            }
        }
    })
}

fn stands_for(words: &str, (name, _, own): &Suite) -> bool {
    words == *name || words.split('+').all(|word| ALL.contains(&word) || own.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    fn suites(text: &str) -> Result<Vec<u16>, Wrong> {
        tls_ciphers().parse(text, &Author::OPERATOR).map(|suites| suites.to_vec())
    }

    #[test]
    fn lists_of_openssl_choose_among_what_is_spoken() {
        assert_eq!(suites("DEFAULT").unwrap().len(), 6);
        assert_eq!(suites("HIGH:!aNULL:!MD5").unwrap().len(), 6);
        assert_eq!(suites("ECDHE-RSA-AES128-GCM-SHA256:AES128-SHA").unwrap(), [0xc02f]);
        assert_eq!(suites("EECDH+CHACHA20").unwrap(), [0xcca9, 0xcca8]);
        assert_eq!(suites("ALL:!AES:!aRSA").unwrap(), [0xcca9]);
        assert_eq!(suites("!AES256:ALL:-CHACHA20:@STRENGTH").unwrap(), [0xc02b, 0xc02f]);
        for text in ["AES128-SHA", "ALL:!ALL", "RC4-MD5:DES-CBC3-SHA"] {
            assert!(matches!(suites(text), Err(Wrong::Invalid(_))), "{text}");
        }
        assert!(matches!(suites("ALL;x"), Err(Wrong::Invalid(_))));
    }

    #[test]
    fn versions_that_are_broken_are_left_out() {
        let read = |text| tls_versions().parse(text, &Author::OPERATOR);
        assert_eq!(read("TLSv1 TLSv1.2").unwrap(), TlsVersions { v1_2: true, v1_3: false });
        assert_eq!(read("TLSv1.2 TLSv1.3").unwrap(), TlsVersions { v1_2: true, v1_3: true });
        assert!(matches!(read("SSLv3 TLSv1.1"), Err(Wrong::Invalid(_))));
        assert!(matches!(read("TLSv1.4"), Err(Wrong::Invalid(_))));
    }
}
