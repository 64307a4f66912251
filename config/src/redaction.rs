//! Hides credentials in what operators are shown.
//!
//! Whether a value is secret is decided by the name of its field or parameter. A name that contains
//! a word of the list hides its value, so new names of credentials are usually covered.

use std::borrow::Cow;

/// Replaces a secret value.
pub const HIDDEN: &str = "(hidden)";

/// Parts of the names of secrets, in lower case without separators.
const WORDS: [&str; 15] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "accesskey",
    "authkey",
    "credential",
    "session",
    "signature",
    "assertion",
    "jwt",
    "privatekey",
];

/// Complete names of parameters that are usually credentials.
const NAMES: [&str; 8] = ["auth", "code", "key", "pass", "pwd", "sig", "sid", "state"];

/// Returns whether a header field or a parameter of this name holds a secret.
pub fn is_secret(name: &str) -> bool {
    let name: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect();
    WORDS.iter().any(|word| name.contains(word)) || NAMES.contains(&&*name)
}

/// Returns a request target without the values of secret parameters.
pub fn target(target: &str) -> Cow<'_, str> {
    let Some((path, query)) = target.split_once('?') else { return Cow::Borrowed(target) };
    let is_shown = |part: &str| part.split_once('=').is_none_or(|(name, _)| !is_secret(name));
    if query.split('&').all(is_shown) {
        return Cow::Borrowed(target);
    }
    let part = |part| match is_shown(part) {
        true => Cow::Borrowed(part),
        false => Cow::Owned(format!("{}={HIDDEN}", part.split('=').next().unwrap_or_default())),
    };
    let parts: Vec<_> = query.split('&').map(part).collect();
    Cow::Owned(format!("{path}?{}", parts.join("&")))
}

/// Returns a text with the user part of each URL hidden (`https://user:password@host`).
pub fn without_user(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let end = after.find(|c: char| matches!(c, '/' | '?' | '#' | ',') || c.is_whitespace());
        let (authority, tail) = after.split_at(end.unwrap_or(after.len()));
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                shown.push_str(HIDDEN);
                shown.push('@');
                shown.push_str(host);
            }
            None => shown.push_str(authority),
        }
        rest = tail;
    }
    shown.push_str(rest);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_credentials_are_secret() {
        for name in [
            "Authorization",
            "Proxy-Authorization",
            "Cookie",
            "X-Api-Key",
            "x-auth-token",
            "client_secret",
            "access_token",
            "X-Amz-Signature",
            "code",
            "X-Forwarded-Access-Token",
            "key",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in ["Host", "Accept", "X-Forwarded-For", "X-Request-ID", "page", "keyboard", "encode"] {
            assert!(!is_secret(name), "{name}");
        }
    }

    #[test]
    fn values_of_secret_parameters_are_hidden() {
        assert_eq!(target("/a?page=2&flag"), "/a?page=2&flag");
        assert_eq!(target("/a"), "/a");
        assert_eq!(
            target("/cb?code=4/0A&page=2&access_token=x=y"),
            "/cb?code=(hidden)&page=2&access_token=(hidden)"
        );
    }

    #[test]
    fn every_url_of_a_text_loses_its_user() {
        let text = "http://a:b@x/1, https://y/@2 http://c@z";
        assert_eq!(without_user(text), "http://(hidden)@x/1, https://y/@2 http://(hidden)@z");
        assert_eq!(without_user("$scheme://$host"), "$scheme://$host");
    }
}
