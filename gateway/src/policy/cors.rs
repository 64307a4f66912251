//! Cross-origin resource sharing: `enable-cors` and `cors-*`.
//!
//! Every response to an accepted origin carries the fields, including errors and the response to a
//! preflight request. They replace those of the endpoint. A response to another origin is not
//! changed: the browser withholds it from the page.
//!
//! A response that depends on the origin has `Vary: Origin`. Without it, a cache could serve a
//! response for one site to pages of another, whose browsers would reject it. ingress-nginx omits
//! `Vary`.

use http::HeaderValue;
use http::header::{ORIGIN, VARY};
use sluice_config::{AllowedOrigin, AllowedOrigins};

use super::error::PolicyError;
use crate::message::edit::{Edit, EditableName, HeadMut};
use crate::message::fields::Fields;

static ALLOW_ORIGIN: EditableName = EditableName::from_static("access-control-allow-origin");
static VARY_NAME: EditableName = EditableName::from_static("vary");

const ALLOW_CREDENTIALS: EditableName = EditableName::from_static("access-control-allow-credentials");
const ALLOW_METHODS: EditableName = EditableName::from_static("access-control-allow-methods");
const ALLOW_HEADERS: EditableName = EditableName::from_static("access-control-allow-headers");
const EXPOSE_HEADERS: EditableName = EditableName::from_static("access-control-expose-headers");
const MAX_AGE: EditableName = EditableName::from_static("access-control-max-age");

/// The accepted origins and the fields for them.
#[derive(Clone, Debug)]
pub struct Cors {
    origins: AllowedOrigins,
    /// All fields except `Access-Control-Allow-Origin`.
    fields: Box<[(EditableName, HeaderValue)]>,
}

impl Cors {
    /// Compiles the fields.
    ///
    /// # Errors
    /// A value is not valid in a field.
    pub fn compile(cors: &sluice_config::Cors) -> Result<Self, PolicyError> {
        let sluice_config::Cors { origins, credentials, methods, headers, expose, max_age } = cors;
        let field = |name: EditableName, text: &str| match HeaderValue::from_str(text) {
            Ok(value) => Ok((name, value)),
            Err(_) => Err(PolicyError::HeaderValue(name.get().to_string())),
        };
        let mut fields = Vec::with_capacity(5);
        if *credentials {
            fields.push((ALLOW_CREDENTIALS, HeaderValue::from_static("true")));
        }
        fields.push(field(ALLOW_METHODS, methods)?);
        fields.push(field(ALLOW_HEADERS, headers)?);
        if let Some(expose) = expose {
            fields.push(field(EXPOSE_HEADERS, expose)?);
        }
        fields.push((MAX_AGE, HeaderValue::from(*max_age)));
        Ok(Self { origins: origins.clone(), fields: fields.into() })
    }

    /// Returns the value of `Access-Control-Allow-Origin` for a request; `None` if its origin is
    /// not accepted.
    pub fn accepts(&self, request: &impl Fields) -> Option<HeaderValue> {
        match &self.origins {
            AllowedOrigins::Any => Some(HeaderValue::from_static("*")),
            AllowedOrigins::These(accepted) => {
                let origin = request.first(&ORIGIN)?;
                let accepts = accepted.iter().any(|accepted| matches(accepted, origin));
                accepts.then(|| HeaderValue::from_bytes(origin).ok()).flatten()
            }
        }
    }

    /// Adds the fields to a response. `origin` is the result of [`accepts`](Self::accepts) for its
    /// request.
    pub fn response(&self, origin: Option<&HeaderValue>, head: &mut Edit<'_, impl HeadMut>) {
        if let Some(origin) = origin {
            head.set(&ALLOW_ORIGIN, origin);
            for (name, value) in &self.fields {
                head.set(name, value);
            }
        }
        if matches!(self.origins, AllowedOrigins::These(_)) && !varies_by_origin(head.fields()) {
            head.append(&VARY_NAME, &HeaderValue::from_static("Origin"));
        }
    }
}

fn matches(accepted: &AllowedOrigin, origin: &[u8]) -> bool {
    match accepted {
        AllowedOrigin::Exact(text) => text.as_bytes().eq_ignore_ascii_case(origin),
        AllowedOrigin::Subdomain { scheme, parent } => {
            let (scheme, parent) = (scheme.as_bytes(), parent.as_bytes());
            let Some(label) = origin.len().checked_sub(scheme.len() + parent.len()) else { return false };
            let (start, rest) = origin.split_at(scheme.len());
            let (label, end) = rest.split_at(label);
            !label.is_empty()
                && label.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
                && start.eq_ignore_ascii_case(scheme)
                && end.eq_ignore_ascii_case(parent)
        }
    }
}

fn varies_by_origin(fields: &impl Fields) -> bool {
    let names = fields.lines(&VARY).flat_map(|line| line.split(|byte| *byte == b','));
    names.into_iter().any(|name| {
        let name = name.trim_ascii();
        name == b"*" || name.eq_ignore_ascii_case(b"origin")
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    fn exact(text: &str) -> AllowedOrigin {
        AllowedOrigin::Exact(text.into())
    }

    fn below(scheme: &str, parent: &str) -> AllowedOrigin {
        AllowedOrigin::Subdomain { scheme: scheme.into(), parent: parent.into() }
    }

    fn cors(origins: AllowedOrigins) -> Cors {
        let policy = sluice_config::Cors {
            origins,
            credentials: true,
            methods: "GET, PUT".into(),
            headers: "X-A".into(),
            expose: None,
            max_age: 60,
        };
        Cors::compile(&policy).unwrap()
    }

    fn accepted(cors: &Cors, origin: &str) -> Option<String> {
        let mut request = HeaderMap::new();
        request.insert(ORIGIN, origin.parse().unwrap());
        cors.accepts(&request).map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn an_origin_is_compared_whole_and_a_star_is_one_label() {
        let cors = cors(AllowedOrigins::These(
            [exact("https://shop.example:8443"), exact("null"), below("https://", ".site.example")].into(),
        ));
        for origin in
            ["https://shop.example:8443", "HTTPS://Shop.Example:8443", "null", "https://a-1.site.example"]
        {
            assert_eq!(accepted(&cors, origin).as_deref(), Some(origin));
        }
        for origin in [
            "https://shop.example",
            "http://shop.example:8443",
            "https://shop.example:8443.evil",
            "xhttps://shop.example:8443",
            "https://site.example",
            "https://.site.example",
            "https://a.b.site.example",
            "https://evil.example/.site.example",
            "https://a.site.example:1",
            "https://evilsite.example",
            "",
        ] {
            assert_eq!(accepted(&cors, origin), None, "{origin}");
        }
        assert_eq!(cors.accepts(&HeaderMap::new()), None);
    }

    #[test]
    fn all_origins_are_a_star_also_for_a_request_without_one() {
        let cors = cors(AllowedOrigins::Any);
        assert_eq!(cors.accepts(&HeaderMap::new()).unwrap(), "*");
        assert_eq!(accepted(&cors, "https://a.example").as_deref(), Some("*"));
    }

    #[test]
    fn the_fields_replace_those_of_the_endpoint_and_set_vary() {
        let origin = HeaderValue::from_static("https://a.example");
        let these = cors(AllowedOrigins::These([exact("https://a.example")].into()));
        let mut head = http::Response::new(());
        head.headers_mut().insert("access-control-allow-origin", HeaderValue::from_static("*"));
        head.headers_mut().insert("vary", HeaderValue::from_static("Accept, Cookie"));
        these.response(Some(&origin), &mut Edit::new(&mut head));
        these.response(Some(&origin), &mut Edit::new(&mut head));
        let fields = head.headers();
        assert_eq!(fields["access-control-allow-origin"], "https://a.example");
        assert_eq!(fields["access-control-allow-credentials"], "true");
        assert_eq!(fields["access-control-allow-methods"], "GET, PUT");
        assert_eq!(fields["access-control-allow-headers"], "X-A");
        assert_eq!(fields["access-control-max-age"], "60");
        assert_eq!(fields.get_all("vary").iter().collect::<Vec<_>>(), ["Accept, Cookie", "Origin"]);
        assert!(!fields.contains_key("access-control-expose-headers"));
    }
}
