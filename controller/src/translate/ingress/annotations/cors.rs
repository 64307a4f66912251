//! Cross-origin resource sharing: which pages of other origins may read responses.
//!
//! An invalid value never widens access: an invalid origin is left out, and the others apply.

use std::sync::Arc;

use sluice_config::{AllowedOrigin, AllowedOrigins, Cors, NamespacedName};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::value::{self, Type};

const METHODS: &str = "GET, PUT, POST, DELETE, PATCH, OPTIONS";
const HEADERS: &str = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization";

/// Parsed annotations of this family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CorsSettings {
    enabled: bool,
    origins: Option<Origins>,
    credentials: Option<bool>,
    methods: Option<Arc<str>>,
    headers: Option<Arc<str>>,
    expose: Option<Arc<str>>,
    max_age: Option<i32>,
}

/// `cors-allow-origin`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origins {
    accepted: AllowedOrigins,
    /// Invalid origins, which are left out.
    unreadable: Vec<Box<str>>,
}

impl CorsSettings {
    /// Returns the policy, if enabled.
    fn policy(self) -> Option<Arc<Cors>> {
        let Self { enabled, origins, credentials, methods, headers, expose, max_age } = self;
        let policy = || Cors {
            origins: origins.map_or(AllowedOrigins::Any, |origins| origins.accepted),
            credentials: credentials.unwrap_or(true),
            methods: methods.unwrap_or_else(|| METHODS.into()),
            headers: headers.unwrap_or_else(|| HEADERS.into()),
            expose,
            max_age: max_age.unwrap_or(1_728_000),
        };
        enabled.then(policy).map(Arc::new)
    }

    /// Returns the annotation with left-out parts, and the reason.
    fn left_out(&self) -> Option<(&'static str, String)> {
        let unreadable = &self.origins.as_ref()?.unreadable;
        (!unreadable.is_empty()).then(|| {
            let reason = format!(
                "has {unreadable:?}, which is not an origin such as https://shop.example, https://*.shop.example:8443, null or \
                 *; the others are accepted"
            );
            ("cors-allow-origin", reason)
        })
    }
}

/// Computes the policy.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.left_out.extend(settings.cors.left_out());
    settings.policies.cors = settings.cors.clone().policy();
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "enable-cors",
            value::bool(),
            "false",
            "Answer preflight requests of browsers (OPTIONS) with 204, and add CORS headers for accepted \
             origins to every response.",
            |settings, value| settings.cors.enabled = value,
        )
        .ingress(Risk::Low),
        Annotation::served(
            "cors-allow-credentials",
            value::bool(),
            "true",
            "Access-Control-Allow-Credentials: true.",
            |settings, value| settings.cors.credentials = Some(value),
        )
        .ingress(Risk::Low),
        Annotation::served(
            "cors-allow-headers",
            without_star(names("comma-separated list of header field names")),
            HEADERS,
            "Access-Control-Allow-Headers. * is refused, because browsers match it as a name if the response \
             allows credentials.",
            |settings, value| settings.cors.headers = Some(value),
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "cors-allow-methods",
            without_star(names("comma-separated list of methods")),
            METHODS,
            "Access-Control-Allow-Methods. * is refused, as for cors-allow-headers.",
            |settings, value| settings.cors.methods = Some(value),
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "cors-allow-origin",
            origins(),
            "*",
            "Origins whose pages may read responses; * as the first label matches any one label. The \
             response names the request's origin and carries Vary: Origin. * alone allows all origins. \
             Invalid entries are skipped. A list without an origin, such as a comma, allows none.",
            |settings, value| settings.cors.origins = Some(value),
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::Default, "the default accepts every origin")
        .ingress(Risk::Medium),
        Annotation::served(
            "cors-expose-headers",
            names("comma-separated list of header field names, or *"),
            "",
            "Access-Control-Expose-Headers.",
            |settings, value| settings.cors.expose = Some(value),
        )
        .ingress(Risk::Medium),
        Annotation::served(
            "cors-max-age",
            value::int(),
            "1728000",
            "Access-Control-Max-Age: seconds for which browsers may keep the answer to a preflight.",
            |settings, value| settings.cors.max_age = Some(value),
        )
        .ingress(Risk::Low),
    ]
}

/// A list that is sent as written.
fn names(words: &'static str) -> Type<Arc<str>> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-_*, ".contains(&byte);
    Type::of(words, move |text| text.bytes().all(fits).then(|| text.into()))
}

/// The same without `*`, which ingress-nginx refuses too. With credentials, which are allowed by
/// default, it is a name and not a wildcard (Fetch standard, "CORS protocol and credentials").
fn without_star(list: Type<Arc<str>>) -> Type<Arc<str>> {
    list.and_then(|text| match text.contains('*') {
        true => {
            Err("must not have *, which browsers match as a name if credentials are allowed; list the names")
        }
        false => Ok(text),
    })
}

fn origins() -> Type<Origins> {
    value::list().called("comma-separated list of origins").map(|items| {
        if items.iter().any(|item| **item == *"*") {
            return Origins { accepted: AllowedOrigins::Any, unreadable: Vec::new() };
        }
        let (mut accepted, mut unreadable) = (Vec::new(), Vec::new());
        for item in items {
            match origin(&item.to_ascii_lowercase()) {
                Some(origin) => accepted.push(origin),
                None => unreadable.push((*item).into()),
            }
        }
        Origins { accepted: AllowedOrigins::These(accepted.into()), unreadable }
    })
}

/// Parses an origin to lower case.
fn origin(text: &str) -> Option<AllowedOrigin> {
    if text == "null" {
        return Some(AllowedOrigin::Exact(text.into()));
    }
    let (scheme, authority) = text.split_once("://")?;
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    };
    let parent = host.strip_prefix("*.");
    let of_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
    let of_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let name = parent.unwrap_or(host);
    let reads = scheme.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && scheme.bytes().all(of_scheme)
        && !name.is_empty()
        && name.bytes().all(of_host)
        && port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let whole = || AllowedOrigin::Exact(text.into());
    let below =
        |_| AllowedOrigin::Subdomain { scheme: format!("{scheme}://").into(), parent: authority[1..].into() };
    reads.then(|| parent.map_or_else(whole, below))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::{Author, Wrong};

    fn read(text: &str) -> Origins {
        origins().parse(text, &Author::OPERATOR).unwrap()
    }

    #[test]
    fn a_star_is_refused_as_a_method_or_a_name_of_a_field() {
        let parse = |text: &str| without_star(names("list")).parse(text, &Author::OPERATOR);
        assert_eq!(parse("GET, PUT").as_deref(), Ok("GET, PUT"));
        for text in ["*", "GET, *", "X-*"] {
            assert!(
                matches!(parse(text), Err(Wrong::Invalid(reason)) if reason.contains("list the names")),
                "{text}"
            );
        }
        assert_eq!(
            names("list").parse("*", &Author::OPERATOR).as_deref(),
            Ok("*"),
            "for cors-expose-headers"
        );
    }

    #[test]
    fn origins_have_a_scheme_and_a_star_stands_for_a_first_label() {
        let exact = |text: &str| AllowedOrigin::Exact(text.into());
        let below =
            AllowedOrigin::Subdomain { scheme: "https://".into(), parent: ".shop.example:8443".into() };
        let Origins { accepted, unreadable } =
            read("https://Shop.example, https://*.shop.example:8443, null, capacitor://localhost,");
        let expected = [exact("https://shop.example"), below, exact("null"), exact("capacitor://localhost")];
        assert_eq!(accepted, AllowedOrigins::These(expected.into()));
        assert!(unreadable.is_empty());
    }

    #[test]
    fn a_list_without_an_origin_allowed_every_origin() {
        for none in [",", " , ,"] {
            assert_eq!(read(none).accepted, AllowedOrigins::These([].into()), "{none}");
        }
    }

    #[test]
    fn a_star_matches_all_and_an_unreadable_origin_matches_none() {
        for all in ["*", "https://a.example, *"] {
            assert_eq!(read(all).accepted, AllowedOrigins::Any, "{all}");
        }
        let bad = [
            "shop.example",
            "https://",
            "https://a.*.example",
            "https://*.",
            "https://a/",
            "https://a:x",
            "//a",
            "https://*",
        ];
        let Origins { accepted, unreadable } = read(&bad.join(","));
        assert_eq!(accepted, AllowedOrigins::These([].into()));
        assert_eq!(unreadable.len(), bad.len(), "{unreadable:?}");
    }
}
