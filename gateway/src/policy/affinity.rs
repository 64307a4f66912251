//! Sticky sessions by cookie: `affinity`, `affinity-mode` and `session-cookie-*`. The cookies are
//! identical to those of ingress-nginx byte for byte and select the same endpoints, so that
//! sessions survive the move to Sluice.
//!
//! The value of the cookie is `<key>|<hex>`. The second half identifies the backend: hex =
//! md5(md5(name) + name) in hexadecimal digits, where name = `<namespace>-<service>-<port>`. The
//! first half selects an endpoint. In mode balanced, any string selects one through the ring; in
//! mode persistent the key is md5(name + address).
//!
//! This module writes and parses cookies. The registry maps a key to an endpoint.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::header::HeaderValue;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use md5::{Digest, Md5};
use sluice_config::{AffinityMode, CookieAffinity, SameSite};

use super::error::PolicyError;
use crate::message::fields::Fields;
use crate::message::hex::write_hex;
use crate::message::parts::cookies;

/// A session cookie, with all attributes that are the same in every response already formatted.
#[derive(Clone, Debug)]
pub struct Affinity {
    /// How a key selects an endpoint.
    pub mode: AffinityMode,
    /// Whether a failed attempt moves the session to another endpoint.
    pub change_on_failure: bool,
    name: Box<str>,
    secure: bool,
    expires: Option<i64>,
    before_secure: Box<str>,
    same_site: Option<SameSite>,
    conditional_none: bool,
}

/// The parsed value of a session cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionCookie<'h> {
    /// Selects the endpoint.
    pub key: &'h [u8],
    /// Identifies the backend ([`backend_digits`]); empty if the value has no second half.
    pub backend: &'h [u8],
}

/// 32 hexadecimal digits.
pub type Digits = [u8; 32];

impl Affinity {
    /// Formats the attributes.
    ///
    /// # Errors
    /// The name, path or domain contains bytes that would corrupt the cookie.
    pub fn compile(policy: &CookieAffinity) -> Result<Self, PolicyError> {
        let CookieAffinity {
            mode,
            name,
            path,
            domain,
            secure,
            same_site,
            conditional_same_site_none,
            expires,
            max_age,
            change_on_failure,
        } = policy;
        let broken = |text: &str| text.bytes().any(|byte| !matches!(byte, 0x20..=0x7e) || byte == b';');
        let name_broken = name.is_empty() || name.bytes().any(|byte| b" \t\",;=\\".contains(&byte));
        if name_broken || broken(name) || broken(path) || domain.as_deref().is_some_and(broken) {
            return Err(PolicyError::Cookie(name.to_string()));
        }
        let mut before_secure = String::new();
        if let Some(seconds) = max_age {
            before_secure.push_str(&format!("; Max-Age={seconds}"));
        }
        if let Some(domain) = domain {
            before_secure.push_str(&format!("; Domain={domain}"));
        }
        before_secure.push_str(&format!("; Path={path}"));
        Ok(Self {
            mode: *mode,
            change_on_failure: *change_on_failure,
            name: (**name).into(),
            secure: *secure,
            expires: *expires,
            before_secure: before_secure.into(),
            same_site: *same_site,
            conditional_none: *conditional_same_site_none,
        })
    }

    /// Returns the session of a request: the first value of the cookie that is not empty. Unlike
    /// `$cookie_<name>`, the name is case-sensitive and quotes are removed, as in ingress-nginx
    /// (`lua-resty-cookie`). Cookies of other programs count: any key selects an endpoint.
    pub fn session<'h>(&self, headers: &'h impl Fields) -> Option<SessionCookie<'h>> {
        let own = cookies(headers).filter(|(name, _)| *name == self.name.as_bytes());
        let value = own.map(|(_, value)| unquoted(value)).find(|value| !value.is_empty())?;
        let mut parts = value.split(|byte| *byte == b'|');
        let key = parts.next().filter(|key| !key.is_empty())?;
        Some(SessionCookie { key, backend: parts.next().unwrap_or_default() })
    }

    /// Returns whether the cookie depends on the client's `User-Agent`.
    pub fn asks_for_client(&self) -> bool {
        self.conditional_none && self.same_site == Some(SameSite::None)
    }

    /// Returns the `Set-Cookie` value that starts a session. `misreads_none` states that the client
    /// misinterprets `SameSite=None`.
    pub fn set_cookie(
        &self,
        key: &str,
        backend: &Digits,
        https: bool,
        misreads_none: bool,
        now: SystemTime,
    ) -> Option<HeaderValue> {
        let mut value = String::with_capacity(160);
        value.push_str(&self.name);
        value.push('=');
        value.push_str(key);
        value.push('|');
        value.extend(backend.iter().map(|digit| char::from(*digit)));
        if let Some(seconds) = self.expires {
            value.push_str("; Expires=");
            value.push_str(&cookie_time(now, seconds));
        }
        value.push_str(&self.before_secure);
        if self.secure || https {
            value.push_str("; Secure");
        }
        value.push_str("; HttpOnly");
        value.push_str(match self.same_site {
            None => "",
            Some(SameSite::None) if self.conditional_none && misreads_none => "",
            Some(SameSite::None) => "; SameSite=None",
            Some(SameSite::Lax) => "; SameSite=Lax",
            Some(SameSite::Strict) => "; SameSite=Strict",
        });
        HeaderValue::try_from(value).ok()
    }
}

/// Returns a key for mode balanced: `<now + attempt>.<process>.<random>`, with `attempt` from 1.
pub fn balanced_key(now: SystemTime, attempt: u32) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default() + Duration::from_secs(attempt.into());
    let seconds = since.as_millis() as f64 / 1000.0;
    format!("{seconds}.{}.{}", std::process::id(), fastrand::u32(1..=999_999))
}

fn unquoted(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        other => other,
    }
}

/// Returns the half of a cookie that identifies the backend.
pub fn backend_digits(backend: &str) -> Digits {
    md5(&[&md5(&[backend.as_bytes()]), backend.as_bytes()])
}

fn md5(parts: &[&[u8]]) -> Digits {
    let mut hash = Md5::new();
    parts.iter().for_each(|part| hash.update(part));
    let mut digits = [0; 32];
    write_hex(&hash.finalize(), &mut digits);
    digits
}

/// Formats a time as nginx does in cookies: `Sun, 12-Feb-17 14:11:12 GMT`, and after 2037 with four
/// digits of the year, because browsers read 70 as 1970 (RFC 6265 §5.1.1).
fn cookie_time(now: SystemTime, seconds: i64) -> String {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let (earliest, latest) = (0, Timestamp::MAX.as_second());
    let time = Timestamp::from_second(now.saturating_add(seconds).clamp(earliest, latest));
    let time = time.unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC);
    let format = if time.year() > 2037 { "%a, %d-%b-%Y %H:%M:%S GMT" } else { "%a, %d-%b-%y %H:%M:%S GMT" };
    time.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::COOKIE;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_cookie_of_decades_was_expired_at_once() {
        assert_eq!(cookie_time(at(0), 2_145_916_799), "Thu, 31-Dec-37 23:59:59 GMT");
        assert_eq!(cookie_time(at(0), 2_145_916_800), "Fri, 01-Jan-2038 00:00:00 GMT");
        assert_eq!(cookie_time(at(1_795_824_000), 2_147_483_647), "Thu, 16-Dec-2094 03:14:07 GMT");
    }

    #[test]
    fn the_backend_half_is_md5_twice() {
        // printf default-web-80 | md5sum, then printf <digits>default-web-80 | md5sum
        assert_eq!(&backend_digits("default-web-80"), BACKEND);
    }

    const BACKEND: &Digits = b"6cde5721ec2c7e2bce07cff7d0e4ac37";

    #[test]
    fn attributes_come_in_the_order_of_the_reference() {
        let plain = Affinity::compile(&CookieAffinity::default()).unwrap();
        let value = plain.set_cookie("k.1.2", BACKEND, false, false, at(0)).unwrap();
        let backend = std::str::from_utf8(BACKEND).unwrap();
        assert_eq!(value, format!("INGRESSCOOKIE=k.1.2|{backend}; Path=/; HttpOnly"));

        let full = CookieAffinity {
            name: "route".into(),
            path: "/cart".into(),
            domain: Some("shop.example".into()),
            same_site: Some(SameSite::Lax),
            expires: Some(172_800),
            max_age: Some(172_800),
            ..CookieAffinity::default()
        };
        let full = Affinity::compile(&full).unwrap();
        let value = full.set_cookie("k", BACKEND, true, false, at(1_486_736_000)).unwrap();
        assert_eq!(
            value,
            format!(
                "route=k|{backend}; Expires=Sun, 12-Feb-17 14:13:20 GMT; Max-Age=172800; \
                 Domain=shop.example; Path=/cart; Secure; HttpOnly; SameSite=Lax"
            )
        );
    }

    #[test]
    fn a_cookie_over_https_is_always_secure() {
        for (secure, https, expected) in
            [(false, false, false), (false, true, true), (true, false, true), (true, true, true)]
        {
            let affinity =
                Affinity::compile(&CookieAffinity { secure, ..CookieAffinity::default() }).unwrap();
            let value = affinity.set_cookie("k", BACKEND, https, false, at(0)).unwrap();
            assert_eq!(value.to_str().unwrap().contains("; Secure;"), expected);
        }
    }

    #[test]
    fn same_site_none_is_omitted_for_clients_that_misread_it() {
        let all = [SameSite::None, SameSite::Lax].into_iter().flat_map(|same_site| {
            let conditions = [(false, false), (false, true), (true, false), (true, true)];
            conditions.map(|(conditional, misreads)| (same_site, conditional, misreads))
        });
        for (same_site, conditional_same_site_none, misreads) in all {
            let policy = CookieAffinity {
                same_site: Some(same_site),
                conditional_same_site_none,
                ..CookieAffinity::default()
            };
            let affinity = Affinity::compile(&policy).unwrap();
            let left_out = same_site == SameSite::None && conditional_same_site_none && misreads;
            let value = affinity.set_cookie("k", BACKEND, true, misreads, at(0)).unwrap();
            assert_eq!(!value.to_str().unwrap().contains("SameSite"), left_out, "{policy:?} {misreads}");
            assert_eq!(affinity.asks_for_client(), same_site == SameSite::None && conditional_same_site_none);
        }
    }

    #[test]
    fn a_session_is_read_with_and_without_its_backend() {
        let affinity = Affinity::compile(&CookieAffinity::default()).unwrap();
        let read = |value: &str| {
            let headers: HeaderMap =
                [(http::header::COOKIE, format!("INGRESSCOOKIE={value}").parse().unwrap())]
                    .into_iter()
                    .collect();
            affinity.session(&headers).map(|session| {
                let text = |part: &[u8]| String::from_utf8(part.to_vec()).unwrap();
                (text(session.key), text(session.backend))
            })
        };
        assert_eq!(read("1.2.3|f00"), Some(("1.2.3".into(), "f00".into())));
        assert_eq!(read("foreign"), Some(("foreign".into(), String::new())));
        assert_eq!(read("a|b|c"), Some(("a".into(), "b".into())));
        assert_eq!(read("|f00"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn a_session_is_found_whatever_the_shape_of_the_cookies() {
        let affinity =
            Affinity::compile(&CookieAffinity { name: "route".into(), ..CookieAffinity::default() }).unwrap();
        let key = |lines: &[&str]| {
            let headers: HeaderMap = lines.iter().map(|line| (COOKIE, line.parse().unwrap())).collect();
            affinity.session(&headers).map(|session| String::from_utf8_lossy(session.key).into_owned())
        };
        for (lines, expected) in [
            (&["a=1; route=x.1; b=2"][..], Some("x.1")),
            (&["a=1;route=x"], Some("x")),
            (&["a=1", " route = \"x=y\" ;"], Some("x=y")),
            (&["junk; ;=; route=; route=z"], Some("z")),
            (&["route=\""], Some("\"")),
            (&["Route=1; xroute=2; route2=3"], None),
            (&[], None),
        ] {
            assert_eq!(key(lines).as_deref(), expected, "{lines:?}");
        }
    }

    #[test]
    fn balanced_keys_have_three_parts() {
        let key = balanced_key(UNIX_EPOCH + Duration::from_millis(1_622_464_613_652), 1);
        let rest = key.strip_prefix(&format!("1622464614.652.{}.", std::process::id())).unwrap();
        assert!((1..=999_999).contains(&rest.parse::<u32>().unwrap()));
    }

    #[test]
    fn values_that_would_break_the_cookie_are_refused() {
        for (name, path) in [("", "/"), ("a b", "/"), ("a=b", "/"), ("a", "/;x"), ("a", "/\r\n")] {
            let broken = CookieAffinity { name: name.into(), path: path.into(), ..CookieAffinity::default() };
            assert!(Affinity::compile(&broken).is_err(), "{name} {path}");
        }
    }
}
