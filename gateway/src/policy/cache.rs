//! `sluice.dev/cache` and related annotations: which requests use stored responses, and the key of
//! a request.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use http::Method;
use http::header::{AUTHORIZATION, CACHE_CONTROL, HeaderName};
use sluice_config::{Cache, CacheKeyPart, HostKey, Rule};

use super::error::PolicyError;
use crate::cache::{CachedUrl, RequestKey};
use crate::message::fields::Fields;
use crate::message::parts;
use crate::message::request_head::RequestHead;
use crate::router::query_values;

/// The compiled cache settings of a rule.
#[derive(Debug)]
pub struct CachePolicy {
    rules: Arc<Cache>,
    key: Box<[KeyPart]>,
    /// The host, the owner and the content of the rule. A rule whose policies or backends change
    /// does not find what was stored for it before.
    identity: Box<[u8]>,
}

#[derive(Debug)]
enum KeyPart {
    Host,
    Path,
    Query,
    Parameter(Box<str>),
    Field(HeaderName),
    Cookie(Box<str>),
}

/// How a method relates to stored responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MethodUse {
    /// Stored responses answer it.
    Reads,
    /// Neither.
    Passes,
    /// A success makes stored responses of its URL invalid (RFC 9111 §4.4).
    Invalidates,
}

/// What the key of a request is made of, apart from its head.
pub(crate) struct KeyInput<'r> {
    pub(crate) head: &'r RequestHead<'r>,
    /// The backend and its canary.
    pub(crate) backend: [&'r str; 2],
    /// The scheme and the host that the client used.
    pub(crate) scheme: &'r [u8],
    pub(crate) host: &'r str,
    /// Path and query for the endpoint, if the rule rewrites them.
    pub(crate) rewritten: Option<&'r str>,
    /// What tells the endpoint who the client is.
    pub(crate) client: &'r [&'r [u8]],
}

impl CachePolicy {
    /// Compiles the settings of a rule.
    ///
    /// # Errors
    /// The name of a field is invalid.
    pub fn compile(rules: &Arc<Cache>, rule: &Rule, host: &HostKey) -> Result<Self, PolicyError> {
        let part = |part: &CacheKeyPart| {
            Ok(match part {
                CacheKeyPart::Host => KeyPart::Host,
                CacheKeyPart::Path => KeyPart::Path,
                CacheKeyPart::Query => KeyPart::Query,
                CacheKeyPart::Parameter(name) => KeyPart::Parameter((**name).into()),
                CacheKeyPart::Field(name) => KeyPart::Field(
                    HeaderName::from_bytes(name.as_bytes())
                        .map_err(|_| PolicyError::HeaderName(name.to_string()))?,
                ),
                CacheKeyPart::Cookie(name) => KeyPart::Cookie((**name).into()),
            })
        };
        let mut hasher = DefaultHasher::new();
        rule.hash(&mut hasher);
        let identity = format!("{host} {} {:016x}", rule.origin.object, hasher.finish());
        Ok(Self {
            rules: rules.clone(),
            key: rules.key.iter().map(part).collect::<Result<_, _>>()?,
            identity: identity.into_bytes().into(),
        })
    }

    /// Returns the settings.
    pub(crate) fn rules(&self) -> &Arc<Cache> {
        &self.rules
    }

    /// Returns how a method uses stored responses.
    pub(crate) fn method_use(&self, method: &Method) -> MethodUse {
        match *method {
            Method::GET => MethodUse::Reads,
            Method::HEAD if self.rules.head => MethodUse::Reads,
            _ if method.is_safe() => MethodUse::Passes,
            _ => MethodUse::Invalidates,
        }
    }

    /// Returns the key of a request.
    pub(crate) fn key(&self, url: CachedUrl, input: &KeyInput<'_>) -> RequestKey {
        let KeyInput { head, backend, scheme, host, rewritten, client } = input;
        let mut key = RequestKey::new(url);
        key.push(&self.identity);
        backend.iter().for_each(|name| key.push(name.as_bytes()));
        key.push(scheme);
        key.push_list(client.iter());
        let rewritten = rewritten.map(|target| target.split_once('?').unwrap_or((target, "")));
        for part in &self.key {
            match part {
                KeyPart::Host => key.push(host.to_ascii_lowercase().as_bytes()),
                KeyPart::Path => {
                    key.push(head.path().as_bytes());
                    key.push_list(rewritten.map(|(path, _)| path).into_iter());
                }
                KeyPart::Query => {
                    key.push_list(head.query().into_iter());
                    key.push_list(rewritten.map(|(_, query)| query).into_iter());
                }
                KeyPart::Parameter(name) => {
                    key.push_list(query_values(head.query().unwrap_or_default(), name));
                }
                KeyPart::Field(name) => key.push_list(head.headers.lines(name)),
                KeyPart::Cookie(name) => {
                    let cookies = parts::cookies(head.headers);
                    // Names of cookies are case-sensitive (RFC 6265 §5.4): to the endpoint, another
                    // case is another cookie.
                    let named = cookies.filter(|(other, _)| *other == name.as_bytes());
                    key.push_list(named.map(|(_, value)| value));
                }
            }
        }
        key
    }
}

/// Returns whether a request neither gets a stored response nor has its own one stored: it has
/// credentials (RFC 9111 §3.5), or asks for it (§5.2.1.5).
pub(crate) fn bypasses(fields: &impl Fields) -> bool {
    fields.has(&AUTHORIZATION) || fields.has_token(&CACHE_CONTROL, b"no-store")
}

#[cfg(test)]
mod tests {
    use http::Version;
    use sluice_config::{
        Action, GroupId, HostName, HostPattern, ListenerId, Match, ObjectRef, Origin, PathMatch, Policies,
    };

    use super::*;
    use crate::message::field_list::FieldList;

    fn rule(service: u16) -> Rule {
        Rule {
            matches: Match::path(PathMatch::Prefix("/".into())),
            action: Action::Answer(service),
            policies: Arc::new(Policies::default()),
            origin: Arc::new(Origin {
                object: ObjectRef::new("Ingress", "shop", "web"),
                rule: 0,
                match_index: 0,
                rule_name: None,
                path: "/".into(),
            }),
        }
    }

    fn policy(parts: &[CacheKeyPart], rule: &Rule, host: &str) -> CachePolicy {
        let rules = Arc::new(Cache { key: parts.into(), ..Cache::default() });
        let pattern = HostPattern::Exact(HostName::new(host));
        let host = HostKey { group: GroupId::ingress(), listener: ListenerId::any(), pattern };
        CachePolicy::compile(&rules, rule, &host).unwrap()
    }

    fn key(
        policy: &CachePolicy,
        target: &str,
        fields: &[(&str, &str)],
        change: fn(&mut KeyInput<'_>),
    ) -> String {
        let mut headers = FieldList::default();
        for (name, value) in fields {
            headers.push_line(name.as_bytes(), value.as_bytes());
        }
        let (method, version) = (&Method::GET, Version::HTTP_11);
        let head = RequestHead {
            method,
            target,
            received: None,
            authority: "a.example",
            version,
            headers: &headers,
            length: 9,
        };
        let mut input = KeyInput {
            head: &head,
            backend: ["shop-web-80", ""],
            scheme: b"http",
            host: "a.example",
            rewritten: None,
            client: &[],
        };
        change(&mut input);
        format!("{:?}", policy.key(CachedUrl { host: "a.example".into(), path: "/".into() }, &input))
    }

    #[test]
    fn what_rule_backend_or_client_determine_is_part_of_every_key() {
        let plain = policy(&[CacheKeyPart::Path], &rule(200), "a.example");
        let first = key(&plain, "/", &[], |_| {});
        let again = policy(&[CacheKeyPart::Path], &rule(200), "a.example");
        assert_eq!(first, key(&again, "/", &[], |_| {}));
        let others: [fn(&mut KeyInput<'_>); 5] = [
            |input| input.backend = ["shop-other-80", ""],
            |input| input.backend = ["shop-web-80", "shop-canary-80"],
            |input| input.scheme = b"https",
            |input| input.rewritten = Some("/other"),
            |input| input.client = &[b"alice"],
        ];
        for (at, change) in others.into_iter().enumerate() {
            assert_ne!(first, key(&plain, "/", &[], change), "{at}");
        }
        let changed = policy(&[CacheKeyPart::Path], &rule(201), "a.example");
        assert_ne!(first, key(&changed, "/", &[], |_| {}), "the rule has changed");
        let host = policy(&[CacheKeyPart::Path], &rule(200), "b.example");
        assert_ne!(first, key(&host, "/", &[], |_| {}), "the host is another one");
    }

    #[test]
    fn only_the_chosen_parts_of_the_request_count() {
        let all = |parts: &[CacheKeyPart], target: &str, fields: &[(&str, &str)]| {
            key(&policy(parts, &rule(200), "a.example"), target, fields, |_| {})
        };
        let page = [CacheKeyPart::Path, CacheKeyPart::Parameter("page".into())];
        let first = all(&page, "/list?page=1&x=2", &[]);
        assert_eq!(first, all(&page, "/list?x=3&page=1", &[]));
        assert_eq!(first, all(&page, "/list?p%61ge=1", &[]), "the endpoint decodes it, too");
        for other in ["/list?page=2", "/list", "/list?page=1&page=2", "/other?page=1"] {
            assert_ne!(first, all(&page, other, &[]), "{other}");
        }
        let query = [CacheKeyPart::Query];
        assert_eq!(all(&query, "/a?x=1", &[]), all(&query, "/b?x=1", &[]));
        assert_ne!(all(&query, "/a?", &[]), all(&query, "/a", &[]));
        let language = [CacheKeyPart::Field("accept-language".into())];
        assert_ne!(all(&language, "/", &[("Accept-Language", "de")]), all(&language, "/", &[]));
        assert_eq!(all(&language, "/", &[("X-Other", "de")]), all(&language, "/", &[]));
        let theme = [CacheKeyPart::Cookie("theme".into())];
        let dark = all(&theme, "/", &[("Cookie", "a=b; theme=dark")]);
        assert_eq!(dark, all(&theme, "/", &[("Cookie", "theme=dark")]));
        assert_ne!(dark, all(&theme, "/", &[("Cookie", "theme=light")]));
        assert_ne!(dark, all(&theme, "/", &[("Cookie", "THEME=dark")]), "the endpoint ignores this one");
        let host = policy(&[CacheKeyPart::Host], &rule(200), "a.example");
        assert_ne!(key(&host, "/", &[], |_| {}), key(&host, "/", &[], |input| input.host = "a.example:81"));
        assert_eq!(key(&host, "/", &[], |_| {}), key(&host, "/", &[], |input| input.host = "A.Example"));
    }

    #[test]
    fn requests_with_credentials_bypass_the_cache() {
        let fields = |name: &'static str, value: &'static str| {
            vec![(HeaderName::from_static(name), http::HeaderValue::from_static(value))]
        };
        assert!(bypasses(&fields("authorization", "Basic x")));
        assert!(bypasses(&fields("cache-control", "max-age=0, No-Store")));
        assert!(!bypasses(&fields("cache-control", "no-cache")) && !bypasses(&fields("cookie", "a=b")));
    }

    #[test]
    fn methods() {
        let policy = policy(&[], &rule(200), "a.example");
        for (method, used) in [
            (Method::GET, MethodUse::Reads),
            (Method::HEAD, MethodUse::Reads),
            (Method::OPTIONS, MethodUse::Passes),
            (Method::POST, MethodUse::Invalidates),
            (Method::DELETE, MethodUse::Invalidates),
        ] {
            assert_eq!(policy.method_use(&method), used, "{method}");
        }
    }
}
