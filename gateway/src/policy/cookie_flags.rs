//! `proxy_cookie_flags`: attributes of the cookies of endpoints. The first entry that names a
//! cookie counts.

use regex::bytes::{Regex, RegexBuilder};
use sluice_config::{CookieFlags as Flags, CookieName, SameSite};

use super::error::PolicyError;

/// Maximum size of a compiled expression in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// The entries, in order.
#[derive(Clone, Debug)]
pub(super) struct CookieFlags(Box<[(Name, Flags)]>);

#[derive(Clone, Debug)]
enum Name {
    Text(Box<[u8]>),
    Regex(Regex),
}

impl CookieFlags {
    /// Compiles the entries.
    ///
    /// # Errors
    /// An expression is malformed or too large.
    pub(super) fn compile(entries: &[Flags]) -> Result<Self, PolicyError> {
        let one = |flags: &Flags| {
            let name = match &flags.cookie {
                CookieName::Text(text) => Name::Text(text.as_bytes().into()),
                CookieName::Regex(text) => {
                    let compiled = RegexBuilder::new(text).size_limit(SIZE_LIMIT).build();
                    Name::Regex(compiled.map_err(|_| PolicyError::Expression(text.to_string()))?)
                }
            };
            Ok((name, flags.clone()))
        };
        entries.iter().map(one).collect::<Result<_, _>>().map(Self)
    }

    /// Returns the cookie with changed attributes; `None` if nothing changes.
    pub(super) fn change(&self, cookie: &[u8]) -> Option<Vec<u8>> {
        let mut parts = cookie.split(|byte| *byte == b';');
        let pair = parts.next()?;
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
        let (_, flags) = self.0.iter().find(|(known, _)| known.matches(name))?;
        let Flags { cookie: _, mut secure, mut http_only, mut same_site } = flags.clone();
        let mut out = pair.to_vec();
        for part in parts {
            let (key, value) = match part.iter().position(|byte| *byte == b'=') {
                Some(at) => (part[..at].trim_ascii(), part[at + 1..].trim_ascii()),
                None => (part.trim_ascii(), &b""[..]),
            };
            if key.eq_ignore_ascii_case(b"secure") {
                if secure.take() == Some(false) {
                    continue;
                }
            } else if key.eq_ignore_ascii_case(b"httponly") {
                if http_only.take() == Some(false) {
                    continue;
                }
            } else if key.eq_ignore_ascii_case(b"samesite") {
                match same_site.take() {
                    Some(None) => continue,
                    Some(Some(wanted)) if !value.eq_ignore_ascii_case(word(wanted).as_bytes()) => {
                        out.extend_from_slice(b"; SameSite=");
                        out.extend_from_slice(word(wanted).as_bytes());
                        continue;
                    }
                    _ => {}
                }
            }
            out.push(b';');
            out.extend_from_slice(part);
        }
        if secure == Some(true) {
            out.extend_from_slice(b"; Secure");
        }
        if http_only == Some(true) {
            out.extend_from_slice(b"; HttpOnly");
        }
        if let Some(Some(wanted)) = same_site {
            out.extend_from_slice(b"; SameSite=");
            out.extend_from_slice(word(wanted).as_bytes());
        }
        (out != cookie).then_some(out)
    }
}

impl Name {
    fn matches(&self, name: &[u8]) -> bool {
        match self {
            Self::Text(text) => text.eq_ignore_ascii_case(name),
            Self::Regex(regex) => regex.is_match(name),
        }
    }
}

fn word(same_site: SameSite) -> &'static str {
    match same_site {
        SameSite::None => "None",
        SameSite::Lax => "Lax",
        SameSite::Strict => "Strict",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(cookie: CookieName) -> Flags {
        Flags { cookie, secure: None, http_only: None, same_site: None }
    }

    #[test]
    fn attributes_are_added_removed_and_replaced() {
        let flags = CookieFlags::compile(&[
            Flags {
                secure: Some(true),
                http_only: Some(true),
                same_site: Some(Some(SameSite::Strict)),
                ..flags(CookieName::Text("session".into()))
            },
            Flags {
                secure: Some(false),
                http_only: Some(false),
                same_site: Some(None),
                ..flags(CookieName::Regex("(?i)^plain".into()))
            },
            flags(CookieName::Regex(".".into())),
        ])
        .unwrap();
        let changed =
            |cookie: &str| flags.change(cookie.as_bytes()).map(|new| String::from_utf8(new).unwrap());
        for (cookie, new) in [
            ("Session=1", Some("Session=1; Secure; HttpOnly; SameSite=Strict")),
            (
                "session=1; secure; Path=/; httponly",
                Some("session=1; secure; Path=/; httponly; SameSite=Strict"),
            ),
            ("session=1; Secure; HttpOnly; samesite=strict", None),
            ("session=a=b; SameSite=Lax", Some("session=a=b; SameSite=Strict; Secure; HttpOnly")),
            ("PlainText=1; Secure; HttpOnly; SameSite=Lax; Path=/", Some("PlainText=1; Path=/")),
            ("other=1; Secure", None),
        ] {
            assert_eq!(changed(cookie).as_deref(), new, "{cookie}");
        }
    }
}
