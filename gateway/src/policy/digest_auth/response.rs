//! Parser of `Authorization: Digest ...` (RFC 7616 §3.4).

/// Digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Md5,
    Sha256,
}

impl Algorithm {
    /// Returns the name used in challenges.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
        }
    }
}

/// The parameters of the field, without their quotes.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) user: Vec<u8>,
    pub(super) realm: Vec<u8>,
    pub(super) nonce: Vec<u8>,
    pub(super) uri: Vec<u8>,
    pub(super) client_nonce: Vec<u8>,
    pub(super) digest: Vec<u8>,
    pub(super) algorithm: Algorithm,
    /// `nc`: number of uses of the nonce, including this request.
    pub(super) count: u32,
    /// `nc` as received.
    pub(super) count_text: Vec<u8>,
}

impl Response {
    /// Parses the value of the field. Returns `None` for another scheme, a missing or repeated
    /// parameter, and features that were not offered, such as `auth-int` or session digests.
    pub(super) fn read(value: &[u8]) -> Option<Self> {
        let (scheme, rest) = value.split_at_checked(7)?;
        if !scheme.eq_ignore_ascii_case(b"digest ") {
            return None;
        }
        let [mut user, mut realm, mut nonce, mut uri, mut client_nonce, mut digest] = [const { None }; 6];
        let [mut algorithm, mut quality, mut count] = [const { None }; 3];
        let mut rest = rest.trim_ascii_start();
        while !rest.is_empty() {
            let name;
            let value;
            (name, value, rest) = parameter(rest)?;
            let place = match &name.to_ascii_lowercase()[..] {
                b"username" => &mut user,
                b"realm" => &mut realm,
                b"nonce" => &mut nonce,
                b"uri" => &mut uri,
                b"cnonce" => &mut client_nonce,
                b"response" => &mut digest,
                b"algorithm" => &mut algorithm,
                b"qop" => &mut quality,
                b"nc" => &mut count,
                // Hashed user names were not offered.
                b"userhash" if value.eq_ignore_ascii_case(b"true") => return None,
                _ => continue,
            };
            if place.replace(value).is_some() {
                return None;
            }
        }
        let algorithm = match algorithm {
            None => Algorithm::Md5,
            Some(name) if name.eq_ignore_ascii_case(b"MD5") => Algorithm::Md5,
            Some(name) if name.eq_ignore_ascii_case(b"SHA-256") => Algorithm::Sha256,
            Some(_) => return None,
        };
        // Without `qop` there is no count, and a replayed request would be indistinguishable.
        quality.filter(|quality| quality == b"auth")?;
        let count_text = count.filter(|count| count.len() == 8 && count.iter().all(u8::is_ascii_hexdigit))?;
        let count = u32::from_str_radix(str::from_utf8(&count_text).ok()?, 16).ok()?;
        Some(Self {
            user: user?,
            realm: realm?,
            nonce: nonce?,
            uri: uri?,
            client_nonce: client_nonce?,
            digest: digest?,
            algorithm,
            count,
            count_text,
        })
    }

    /// Returns whether `uri` equals the request target, or is an absolute URL with this path and
    /// query.
    pub(super) fn is_for(&self, target: &str) -> bool {
        let uri = &self.uri[..];
        if uri == target.as_bytes() {
            return true;
        }
        let after_scheme =
            ["http://", "https://"].iter().find_map(|scheme| uri.strip_prefix(scheme.as_bytes()));
        let path = after_scheme.and_then(|rest| rest.iter().position(|b| *b == b'/').map(|at| &rest[at..]));
        path == Some(target.as_bytes())
    }
}

/// Splits off the first parameter: returns its name, its value and the remaining parameters.
fn parameter(text: &[u8]) -> Option<(&[u8], Vec<u8>, &[u8])> {
    let equals = text.iter().position(|b| *b == b'=')?;
    let (name, after) = (text[..equals].trim_ascii(), text[equals + 1..].trim_ascii_start());
    let is_token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    if name.is_empty() || !name.iter().all(is_token) {
        return None;
    }
    let (value, rest) = match after.strip_prefix(b"\"") {
        Some(quoted) => unquoted(quoted)?,
        None => {
            let end = after.iter().position(|b| *b == b',').unwrap_or(after.len());
            (after[..end].trim_ascii().to_vec(), &after[end..])
        }
    };
    let rest = rest.trim_ascii_start();
    match rest.strip_prefix(b",") {
        Some(rest) => Some((name, value, rest.trim_ascii_start())),
        None => rest.is_empty().then_some((name, value, rest)),
    }
}

/// Returns the text before the closing quote without its escapes, and the text after it.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((value, &text[at + 1..])),
            b'\\' => value.push(*bytes.next()?.1),
            byte => value.push(*byte),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Digest username=\"an\\\"n\", realm=\"the shop\", nonce=\"abc\", uri=\"/a?b=c,d\", qop=auth, \
                        nc=0000001a, cnonce=\"xyz\", response=\"00ff\"";

    fn read(text: &str) -> Option<Response> {
        Response::read(text.as_bytes())
    }

    #[test]
    fn parameters_are_read_quoted_or_not_in_any_order() {
        let response = read(GOOD).unwrap();
        assert_eq!((&response.user[..], &response.realm[..]), (&b"an\"n"[..], &b"the shop"[..]));
        assert_eq!((response.count, &response.count_text[..]), (26, &b"0000001a"[..]));
        assert_eq!(response.algorithm, Algorithm::Md5);
        let other = GOOD.replace("Digest ", "dIgEsT  algorithm = \"sha-256\" ,opaque=x,");
        assert_eq!(read(&other).unwrap().algorithm, Algorithm::Sha256);
    }

    #[test]
    fn incomplete_or_unoffered_responses_are_rejected() {
        for name in ["username", "realm", "nonce", "uri", "qop", "nc", "cnonce", "response"] {
            assert!(read(&GOOD.replace(&format!("{name}="), "other=")).is_none(), "{name}");
        }
        for (from, to) in [
            ("qop=auth", "qop=auth-int"),
            ("nc=0000001a", "nc=1a"),
            ("nc=0000001a", "nc=+000001a"),
            ("qop=auth", "qop=auth, algorithm=MD5-sess"),
            ("qop=auth", "qop=auth, nonce=\"other\""),
            ("qop=auth", "qop=auth, userhash=true"),
            ("\"00ff\"", "\"00ff"),
            ("\"00ff\"", "\"00ff\" x"),
            ("Digest", "Basic"),
            ("realm=", "re alm="),
        ] {
            assert!(read(&GOOD.replace(from, to)).is_none(), "{to}");
        }
        assert!(read("").is_none() && read("Digest ").is_none() && read("Digest =").is_none());
    }

    #[test]
    fn it_is_for_one_target() {
        let response = read(GOOD).unwrap();
        assert!(response.is_for("/a?b=c,d"));
        assert!(!response.is_for("/a") && !response.is_for("/a?b=c,d&e"));
        let absolute = read(&GOOD.replace("/a?b", "http://shop.example/a?b")).unwrap();
        assert!(absolute.is_for("/a?b=c,d") && !absolute.is_for("/b"));
    }
}
