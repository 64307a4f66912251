//! Types of the `auth-url` settings, for annotations and ConfigMap keys.

use std::sync::Arc;
use std::time::Duration;

use sluice_config::{Moment, Template, TemplatePiece, Variable};

use crate::translate::template;
use crate::translate::value::{self, Type};

/// The URL to sign in at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignIn {
    url: Template,
    has_query: bool,
    /// Parameters of its query that have a value.
    parameters: Vec<Box<str>>,
}

/// `auth-method`.
pub(crate) fn method() -> Type<Arc<str>> {
    const METHODS: [&str; 9] =
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"];
    Type::of(format!("one of {}", METHODS.join(", ")), |text| METHODS.contains(&text).then(|| text.into()))
}

/// `auth-signin`.
pub(crate) fn sign_in_url() -> Type<SignIn> {
    Type::new("URL with variables", SignIn::read).evaluated_at(Moment::Request)
}

/// `auth-signin-redirect-param`.
pub(crate) fn parameter() -> Type<Arc<str>> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    Type::of("a name of letters, digits and - _ . ~", move |text| {
        (!text.is_empty() && text.bytes().all(fits)).then(|| text.into())
    })
}

/// `auth-response-headers`.
pub(crate) fn response_headers() -> Type<Vec<Arc<str>>> {
    value::list_of("comma-separated list of header names", |name| {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if !name.bytes().all(fits) {
            return Err(format!("has {name:?}, which is not the name of a header"));
        }
        Ok(name.into())
    })
}

/// `auth-cache-duration`: statuses, or none for any, each with the time for which replies with it
/// are cached.
pub(crate) fn cache_duration() -> Type<Vec<(Vec<u16>, Duration)>> {
    value::list_of("comma-separated list of statuses, or any, and a time", |entry| {
        let mut words: Vec<&str> = entry.split_ascii_whitespace().collect();
        let last = words.pop().unwrap_or_default();
        if last.len() == 3 && last.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("has {entry:?}, which has statuses and no time"));
        }
        let time = value::time_of(last)?;
        if words.is_empty() {
            // As in nginx; of these, only 200 admits a request.
            return Ok((vec![200], time));
        }
        let is_for_any = words.contains(&"any");
        words.retain(|word| *word != "any");
        let mut codes = Vec::new();
        for word in words {
            match word.parse() {
                Ok(code @ 100..=599) => codes.push(code),
                _ => return Err(format!("has {word:?}, which is not a status")),
            }
        }
        Ok((if is_for_any { Vec::new() } else { codes }, time))
    })
}

impl SignIn {
    fn read(text: &str) -> Result<Self, String> {
        if text.chars().any(|c| c.is_control() || c == ' ') {
            return Err("must be a URL without blanks".to_owned());
        }
        let query = text.split_once('?').map(|(_, query)| query);
        let pairs =
            query.into_iter().flat_map(|query| query.split('&')).filter_map(|pair| pair.split_once('='));
        let parameters = pairs.filter(|(_, value)| !value.is_empty()).map(|(name, _)| name.into()).collect();
        Ok(Self { url: template::parse(text, Moment::Request)?, has_query: query.is_some(), parameters })
    }

    /// Adds the parameter with the return URL, unless the URL has one.
    pub(super) fn leading_back(&self, parameter: &str) -> Template {
        let mut template = self.url.clone();
        if !self.parameters.iter().any(|name| **name == *parameter) {
            let separator = if self.has_query { "&" } else { "?" };
            template.pieces.extend([
                TemplatePiece::Text(format!("{separator}{parameter}=").into()),
                TemplatePiece::Variable(Variable::PassAccessScheme),
                TemplatePiece::Text("://".into()),
                TemplatePiece::Variable(Variable::HttpHost),
                TemplatePiece::Variable(Variable::EscapedRequestUri),
            ]);
        }
        template
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::remote::tests::text;
    use crate::translate::value::Author;

    #[test]
    fn the_way_back_is_added_once() {
        let back = "<PassAccessScheme>://<HttpHost><EscapedRequestUri>";
        for (url, param, expected) in [
            ("https://a/start", "rd", format!("https://a/start?rd={back}")),
            ("https://a/start?x=1", "to", format!("https://a/start?x=1&to={back}")),
            ("https://a/start?rd=home", "rd", "https://a/start?rd=home".to_owned()),
            (
                "https://$host/start?rd=$escaped_request_uri",
                "rd",
                "https://<Host>/start?rd=<EscapedRequestUri>".to_owned(),
            ),
        ] {
            assert_eq!(text(&SignIn::read(url).unwrap().leading_back(param)), expected);
        }
    }

    #[test]
    fn times_of_the_cache() {
        let read = |text| cache_duration().parse(text, &Author::OPERATOR);
        let valid = |codes: &[u16], seconds| (codes.to_vec(), Duration::from_secs(seconds));
        assert_eq!(
            read("200 202 10m, 401 5s,1h").unwrap(),
            [valid(&[200, 202], 600), valid(&[401], 5), valid(&[200], 3600)]
        );
        assert_eq!(read("401 2s, 200 any 1s").unwrap(), [valid(&[401], 2), valid(&[], 1)]);
        for bad in ["200 x", "any", "any x 1s", "999 5m", "abc 5m", "5m 200", "200 202", "10m, 401"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
