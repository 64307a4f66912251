//! Stored responses: `sluice.dev/cache` and `sluice.dev/cache-*`. If one of them is unreadable,
//! nothing is stored: with a default in its place, a client could get the response of another one.

use std::sync::Arc;
use std::time::Duration;

use sluice_config::{Cache, CacheKeyPart, NamespacedName, UpstreamProtocol};

use super::{Annotation, Settings};
use crate::translate::setting::Risk;
use crate::translate::value::{self, Type};

const CACHE: &str = "sluice.dev/cache";

/// Parsed annotations of this family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CacheAnnotations {
    enabled: bool,
    /// One of the annotations is unreadable.
    is_unreadable: bool,
    cache: Cache,
}

/// Longest time of an annotation in seconds: a year.
const LONGEST: u32 = 31_536_000;

pub(super) fn settings() -> Vec<Annotation> {
    let all = vec![
        Annotation::served(
            CACHE,
            value::bool(),
            "false",
            "Store responses of the endpoints in memory and answer GET and HEAD requests with them (RFC 9111), after \
             all checks of access. See docs/cache.md.",
            |settings, value| settings.caching.enabled = value,
        ),
        Annotation::served(
            "sluice.dev/cache-ttl",
            value::time_within(1, LONGEST),
            "",
            "Time for which a response is fresh that has neither Cache-Control with max-age or s-maxage nor Expires; \
             without this annotation it is not stored.",
            |settings, value| settings.caching.cache.ttl = Some(value),
        )
        .beside(CACHE),
        Annotation::served(
            "sluice.dev/cache-key",
            key_parts(),
            "host,path,query",
            "Parts of a request that select a stored response, in addition to the rule and its backend: host, path, \
             query, query:NAME for one parameter, header:NAME, cookie:NAME.",
            |settings, value| settings.caching.cache.key = value,
        )
        .beside(CACHE),
        Annotation::served(
            "sluice.dev/cache-methods",
            methods(),
            "GET,HEAD",
            "Methods that are answered with stored responses: GET, or GET and HEAD.",
            |settings, value| settings.caching.cache.head = value,
        )
        .beside(CACHE),
        Annotation::served(
            "sluice.dev/cache-statuses",
            statuses(),
            "200,301,302",
            "Statuses of responses that may be stored.",
            |settings, value| settings.caching.cache.statuses = value,
        )
        .beside(CACHE),
        Annotation::served(
            "sluice.dev/cache-stale-while-revalidate",
            time(),
            "0s",
            "Time for which a stale response is still sent while the gateway fetches it again (RFC 5861), unless the \
             response has a Cache-Control that says otherwise.",
            |settings, value| settings.caching.cache.stale_while_revalidate = value,
        )
        .beside(CACHE),
        Annotation::served(
            "sluice.dev/cache-stale-if-error",
            time(),
            "0s",
            "Time for which a stale response is still sent if no endpoint can be reached or the response has a status \
             from 500 (RFC 5861), unless the stored response has a Cache-Control that says otherwise.",
            |settings, value| settings.caching.cache.stale_if_error = value,
        )
        .beside(CACHE),
    ];
    let all = all.into_iter().map(|entry| entry.location(Risk::Medium).absent_in_reference());
    all.map(|entry| entry.fallback("nothing is stored", |settings| settings.caching.is_unreadable = true))
        .collect()
}

/// Makes the policy.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    let CacheAnnotations { enabled, is_unreadable, cache } = std::mem::take(&mut settings.caching);
    if !enabled || is_unreadable {
        return;
    }
    if settings.routes.protocol == Some(UpstreamProtocol::FastCgi) {
        let reason = "has no effect with backend-protocol: FCGI, whose responses are not stored";
        settings.left_out.push((CACHE, reason.to_owned()));
        return;
    }
    settings.policies.cache = Some(Arc::new(cache));
}

fn time() -> Type<Duration> {
    value::time_within(0, LONGEST)
}

fn key_parts() -> Type<Arc<[CacheKeyPart]>> {
    let words = "comma-separated list of host, path, query, query:NAME, header:NAME and cookie:NAME";
    let part = |item: &str| {
        let wrong = || {
            format!("has {item:?}, which is none of host, path, query, query:NAME, header:NAME, cookie:NAME")
        };
        Ok(match item.split_once(':') {
            None => match item {
                "host" => CacheKeyPart::Host,
                "path" => CacheKeyPart::Path,
                "query" => CacheKeyPart::Query,
                _ => return Err(wrong()),
            },
            Some(("query", name)) if !name.is_empty() => CacheKeyPart::Parameter(name.into()),
            Some(("header", name)) if value::is_token(name) => {
                CacheKeyPart::Field(name.to_ascii_lowercase().into())
            }
            Some(("cookie", name)) if value::is_token(name) => CacheKeyPart::Cookie(name.into()),
            Some(_) => return Err(wrong()),
        })
    };
    not_empty(value::list_of(words, part))
}

/// Whether HEAD is one of the methods.
fn methods() -> Type<bool> {
    let method = |item: &str| match item {
        "GET" => Ok(false),
        "HEAD" => Ok(true),
        _ => Err(format!("has {item:?}, and only responses to GET and HEAD can be stored")),
    };
    value::list_of("GET, or GET and HEAD, separated by a comma", method).and_then(|heads| {
        match heads.contains(&false) {
            true => Ok(heads.contains(&true)),
            false => Err("must have GET"),
        }
    })
}

/// Statuses of whole responses: 206 is a part, and 304 has no content of its own.
fn statuses() -> Type<Arc<[u16]>> {
    let status = |item: &str| match item.parse() {
        Ok(code @ 200..=599) if item.len() == 3 && !matches!(code, 206 | 304) => Ok(code),
        _ => Err(format!("has {item:?}, which is not a status from 200 to 599 that can be stored")),
    };
    not_empty(value::list_of("comma-separated list of statuses from 200 to 599, without 206 and 304", status))
}

fn not_empty<T: 'static>(list: Type<Vec<T>>) -> Type<Arc<[T]>> {
    list.and_then(|items| match items.is_empty() {
        true => Err("must not be empty"),
        false => Ok(Arc::from(items)),
    })
}
