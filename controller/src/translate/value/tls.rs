//! TLS versions and cipher suites in OpenSSL's notation.

use std::sync::Arc;

use sluice_config::TlsVersions;

use super::{Type, Wrong};

const VERSIONS: &[&str] = &["SSLv2", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"];

/// What a list of versions amounts to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedVersions {
    /// Versions that are offered, at least one.
    pub versions: TlsVersions,
    /// Versions of the list that are not available, each with the reason.
    pub skipped: Vec<String>,
}

/// Versions between blanks. Those before TLS 1.2 are left out.
pub fn tls_versions() -> Type<TlsVersions> {
    named_tls_versions().map(|named| named.versions)
}

/// The same, with those that are left out.
pub fn named_tls_versions() -> Type<NamedVersions> {
    super::words(VERSIONS).and_then(|words| {
        let versions = TlsVersions { v1_2: words.contains(&"TLSv1.2"), v1_3: words.contains(&"TLSv1.3") };
        let old = words.iter().filter(|word| !["TLSv1.2", "TLSv1.3"].contains(word));
        let skipped = old.map(|word| format!("{word} (broken, RFC 8996)")).collect();
        match versions.v1_2 || versions.v1_3 {
            true => Ok(NamedVersions { versions, skipped }),
            false => Err("names no supported version; versions before TLSv1.2 are insecure (RFC 8996)"),
        }
    })
}

/// A supported cipher suite of TLS 1.2: its name, its number, and the OpenSSL keywords that include
/// it together with others.
type Suite = (&'static str, u16, &'static [&'static str]);

/// Keywords that include all of them.
const ALL: [&str; 9] = ["DEFAULT", "ALL", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "TLSv1.2", "AEAD"];

const SUITES: [Suite; 6] = [
    ("ECDHE-ECDSA-AES256-GCM-SHA384", 0xc02c, &["ECDSA", "aECDSA", "AES", "AES256", "AESGCM", "SHA384"]),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", 0xc02b, &["ECDSA", "aECDSA", "AES", "AES128", "AESGCM", "SHA256"]),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", 0xcca9, &["ECDSA", "aECDSA", "CHACHA20"]),
    ("ECDHE-RSA-AES256-GCM-SHA384", 0xc030, &["aRSA", "AES", "AES256", "AESGCM", "SHA384"]),
    ("ECDHE-RSA-AES128-GCM-SHA256", 0xc02f, &["aRSA", "AES", "AES128", "AESGCM", "SHA256"]),
    ("ECDHE-RSA-CHACHA20-POLY1305", 0xcca8, &["aRSA", "CHACHA20"]),
];

/// What a list of OpenSSL amounts to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedSuites {
    /// Suites by number, in the order of the list.
    pub suites: Arc<[u16]>,
    /// Requested names that are not supported.
    pub skipped: Vec<String>,
}

/// Parses a cipher list in OpenSSL's syntax: names and keywords between colons, `!` or `-` before
/// those to remove, `+` between keywords that must all apply. Unsupported suites are skipped.
pub fn tls_suites() -> Type<NamedSuites> {
    Type::new("cipher suites as OpenSSL lists them", |text| {
        let mut chosen: Vec<usize> = Vec::new();
        let mut banned = [false; SUITES.len()];
        let mut skipped = Vec::new();
        for item in text.split([':', ',', ' ']).filter(|item| !item.is_empty()) {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!-+@=._".contains(&byte);
            if !item.bytes().all(fits) {
                return Err(Wrong::Invalid(format!("has {item:?}, which is not the name of a cipher suite")));
            }
            // A level of security that all supported suites reach.
            if item.starts_with('@') {
                continue;
            }
            let (words, sign) = match item.split_at(1) {
                (sign @ ("!" | "-" | "+"), words) => (words, sign),
                _ => (item, ""),
            };
            let named = (0..SUITES.len()).filter(|at| stands_for(words, &SUITES[*at]));
            let named: Vec<usize> = named.filter(|at| !banned[*at]).collect();
            match sign {
                "" => {
                    // Those of TLS 1.3 are offered with that version, whatever the list says.
                    if !(0..SUITES.len()).any(|at| stands_for(words, &SUITES[at]))
                        && !words.starts_with("TLS_")
                    {
                        skipped.push(item.to_owned());
                    }
                    chosen.extend(named.iter().filter(|at| !chosen.contains(at)).collect::<Vec<_>>());
                }
                "+" => {
                    let (last, first): (Vec<_>, Vec<_>) = chosen.iter().partition(|at| named.contains(at));
                    chosen = [first, last].concat();
                }
                sign => {
                    chosen.retain(|at| !named.contains(at));
                    named.iter().for_each(|at| banned[*at] |= sign == "!");
                }
            }
        }
        Ok(NamedSuites { suites: chosen.iter().map(|at| SUITES[*at].1).collect(), skipped })
    })
}

/// The same for endpoints; a list without a supported suite is invalid.
pub fn tls_ciphers() -> Type<Arc<[u16]>> {
    tls_suites().and_then(|named| match named.suites.is_empty() {
        false => Ok(named.suites),
        true => {
            let names: Vec<&str> = SUITES.iter().map(|(name, ..)| *name).collect();
            Err(format!("names no supported cipher suite of TLS 1.2; supported: {}", names.join(", ")))
        }
    })
}

/// A group of the key exchange: its names, and its number (RFC 8446 §4.2.7).
const GROUPS: &[(&[&str], u16)] = &[
    (&["X25519MLKEM768"], 0x11ec),
    (&["X25519", "x25519"], 0x001d),
    (&["prime256v1", "secp256r1", "P-256"], 0x0017),
    (&["secp384r1", "P-384"], 0x0018),
];

/// What a list of curves amounts to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedGroups {
    /// Groups by number, in the order of the list; `None` for `auto`.
    pub groups: Option<Arc<[u16]>>,
    /// Requested names that are not supported.
    pub skipped: Vec<String>,
}

/// Curves as OpenSSL names them, between colons, or `auto`.
pub fn tls_groups() -> Type<NamedGroups> {
    Type::new("auto, or curves as OpenSSL lists them", |text| {
        if text == "auto" {
            return Ok(NamedGroups::default());
        }
        let (mut groups, mut skipped) = (Vec::new(), Vec::new());
        for item in text.split(':').map(str::trim).filter(|item| !item.is_empty()) {
            match GROUPS.iter().find(|(names, _)| names.contains(&item)) {
                Some((_, number)) if groups.contains(number) => {}
                Some((_, number)) => groups.push(*number),
                None => skipped.push(item.to_owned()),
            }
        }
        match groups.is_empty() {
            false => Ok(NamedGroups { groups: Some(groups.into()), skipped }),
            true => {
                let names: Vec<&str> = GROUPS.iter().map(|(names, _)| names[0]).collect();
                Err(Wrong::Invalid(format!("names no supported curve; supported: {}", names.join(", "))))
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
    fn openssl_lists_select_supported_suites() {
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
    fn suites_are_in_the_order_of_the_list_and_others_are_named() {
        let read = |text| tls_suites().parse(text, &Author::OPERATOR).unwrap();
        let named = read(
            "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256:DHE-RSA-AES128-GCM-SHA256:!aNULL",
        );
        assert_eq!(*named.suites, [0xc02f, 0xc02b]);
        assert_eq!(named.skipped, ["DHE-RSA-AES128-GCM-SHA256"]);
        assert_eq!(*read("CHACHA20:AES256:+aRSA:@STRENGTH").suites, [0xcca9, 0xc02c, 0xcca8, 0xc030]);
        assert_eq!(*read("!AES:ALL").suites, [0xcca9, 0xcca8]);
        let none = read("AES128-SHA:TLS_AES_128_GCM_SHA256");
        assert!(none.suites.is_empty() && none.skipped == ["AES128-SHA"], "{none:?}");
    }

    #[test]
    fn curves_are_groups_in_the_order_of_the_list() {
        let read = |text| tls_groups().parse(text, &Author::OPERATOR);
        assert_eq!(read("auto").unwrap().groups, None);
        let named = read("secp384r1:X25519:secp521r1:P-384").unwrap();
        assert_eq!(named.groups.as_deref(), Some(&[0x18, 0x1d][..]));
        assert_eq!(named.skipped, ["secp521r1"]);
        assert!(matches!(read("secp521r1"), Err(Wrong::Invalid(_))));
    }

    #[test]
    fn versions_that_are_broken_are_left_out() {
        let read = |text| tls_versions().parse(text, &Author::OPERATOR);
        let named = named_tls_versions().parse("TLSv1 TLSv1.2", &Author::OPERATOR).unwrap();
        assert_eq!(named.skipped, ["TLSv1 (broken, RFC 8996)"]);
        assert_eq!(read("TLSv1 TLSv1.2").unwrap(), TlsVersions { v1_2: true, v1_3: false });
        assert_eq!(read("TLSv1.2 TLSv1.3").unwrap(), TlsVersions { v1_2: true, v1_3: true });
        assert!(matches!(read("SSLv3 TLSv1.1"), Err(Wrong::Invalid(_))));
        assert!(matches!(read("TLSv1.4"), Err(Wrong::Invalid(_))));
    }
}
