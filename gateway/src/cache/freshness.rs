//! Which responses are stored, and how long they are fresh (RFC 9111 §3 and §4.2).

use std::time::{Duration, SystemTime};

use http::StatusCode;
use http::header::{AGE, CONTENT_RANGE, ETAG, LAST_MODIFIED, SET_COOKIE, TRANSFER_ENCODING, VARY};
use pingora_cache::cache_control::{CacheControl, InterpretCacheControl};
use pingora_cache::filters::{calculate_fresh_until, calculate_serve_stale_durations};
use pingora_cache::{CacheMeta, CacheMetaDefaults, NoCacheReason, RespCacheable};
use pingora_http::ResponseHeader;
use sluice_config::Cache;

use super::variance::vary_names;
use crate::message::fields::Fields;

/// The reason for responses whose endpoint has failed: the next one may be stored, so the URL is
/// not remembered as one that is never stored.
pub(crate) const TRANSIENT: &str = "a status from 500";

/// Without a default: the rule's own is applied here.
static NO_DEFAULTS: CacheMetaDefaults = CacheMetaDefaults::new(|_| None, 0, 0);

/// Decides on a response to a request without `Authorization`. The rules are those of a shared
/// cache, and stricter in these points: a response with `Set-Cookie` is never stored, nor is one
/// with `private` or `no-cache` for some of its fields.
pub(crate) fn storable(rules: &Cache, response: &ResponseHeader, now: SystemTime) -> RespCacheable {
    let never = |reason| RespCacheable::Uncacheable(NoCacheReason::Custom(reason));
    let status = response.status;
    if !rules.statuses.contains(&status.as_u16()) {
        return never(if status.is_server_error() { TRANSIENT } else { "its status" });
    }
    let fields = &response.headers;
    if fields.contains_key(SET_COOKIE) {
        return never("Set-Cookie");
    }
    if fields.contains_key(CONTENT_RANGE) || status == StatusCode::PARTIAL_CONTENT {
        return never("a part of a response");
    }
    if fields.has_token(&VARY, b"*") {
        return never("Vary: *");
    }
    if vary_names(fields).any(|name| name.is_err()) {
        return never("an unreadable Vary");
    }
    let control = CacheControl::from_resp_headers(response);
    let control = control.as_ref();
    let refuses = |control: &CacheControl| {
        let for_fields = control.no_cache_field_names().is_some();
        control.no_store() || control.has_key("private") || for_fields
    };
    if control.is_some_and(refuses) {
        return RespCacheable::Uncacheable(NoCacheReason::OriginNotCache);
    }
    let fresh_until = match control.is_some_and(has_unreadable_lifetime) {
        true => Some(now),
        false => calculate_fresh_until(now, control, response, false, &NO_DEFAULTS),
    };
    let Some(mut fresh_until) = fresh_until.or_else(|| now.checked_add(rules.ttl?)) else {
        return RespCacheable::Uncacheable(NoCacheReason::OriginNotCache);
    };
    let age = age(response);
    // An absolute time and the rule's own time do not depend on how long the response has been
    // under way.
    if control.is_some_and(|control| control.fresh_duration().is_some()) {
        fresh_until = fresh_until.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    }
    let (stale_while_revalidate, stale_if_error) = match control {
        // It is sent only after its endpoint has confirmed it.
        Some(control) if control.no_cache() => (0, 0),
        control => calculate_serve_stale_durations(control, &stale_defaults(rules)),
    };
    let is_confirmable = fields.contains_key(ETAG) || fields.contains_key(LAST_MODIFIED);
    if fresh_until <= now && !is_confirmable && stale_while_revalidate == 0 && stale_if_error == 0 {
        return never("stale, and without ETag or Last-Modified");
    }
    let mut header = response.clone();
    // Those of the connection to the endpoint. The age is computed for each client.
    header.remove_header(&AGE);
    header.remove_header(&TRANSFER_ENCODING);
    let mut meta = CacheMeta::new(fresh_until, now, stale_while_revalidate, stale_if_error, header);
    if !age.is_zero() {
        meta.set_epoch_override(now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH));
    }
    RespCacheable::Cacheable(meta)
}

/// Returns whether a response states a lifetime that is no number. It counts as stale (RFC 9111
/// §4.2.1); frameworks send `max-age=-1` for responses that must not be stored.
fn has_unreadable_lifetime(control: &CacheControl) -> bool {
    let is_stated = control.has_key("max-age") || control.has_key("s-maxage");
    is_stated && control.fresh_duration().is_none()
}

fn stale_defaults(rules: &Cache) -> CacheMetaDefaults {
    let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
    CacheMetaDefaults::new(|_| None, seconds(rules.stale_while_revalidate), seconds(rules.stale_if_error))
}

/// Returns how long a response has been in other caches; 0 if it does not state it.
fn age(response: &ResponseHeader) -> Duration {
    let text = response.headers.get(AGE).and_then(|value| value.to_str().ok());
    Duration::from_secs(text.and_then(|text| text.trim().parse::<u32>().ok()).unwrap_or(0).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
    }

    fn decide(rules: &Cache, status: u16, fields: &[(&'static str, &str)]) -> RespCacheable {
        let mut response = ResponseHeader::build(status, None).unwrap();
        for (name, value) in fields {
            response.append_header(*name, *value).unwrap();
        }
        storable(rules, &response, now())
    }

    /// Seconds of freshness, of stale-while-revalidate and of stale-if-error; `None` if the
    /// response is not stored.
    fn stored(rules: &Cache, status: u16, fields: &[(&'static str, &str)]) -> Option<(i64, u32, u32)> {
        match decide(rules, status, fields) {
            RespCacheable::Cacheable(meta) => {
                let until = meta.fresh_until().duration_since(SystemTime::UNIX_EPOCH).unwrap();
                let fresh = until.as_secs() as i64 - NOW as i64;
                Some((fresh, meta.stale_while_revalidate_sec(), meta.stale_if_error_sec()))
            }
            RespCacheable::Uncacheable(_) => None,
        }
    }

    fn stale_rules() -> Cache {
        Cache {
            ttl: Some(Duration::from_secs(30)),
            stale_while_revalidate: Duration::from_secs(7),
            stale_if_error: Duration::from_secs(8),
            ..Cache::default()
        }
    }

    /// In the spirit of cache-tests.fyi.
    #[test]
    fn freshness_comes_from_the_response_and_then_from_the_rule() {
        let plain = Cache::default();
        let date = |after: u64| httpdate(SystemTime::UNIX_EPOCH + Duration::from_secs(NOW + after));
        let later = date(50);
        for (fields, fresh) in [
            (&[][..], None),
            (&[("cache-control", "max-age=60")], Some(60)),
            (&[("cache-control", "MAX-AGE=60")], Some(60)),
            (&[("cache-control", "max-age=60, s-maxage=20")], Some(20)),
            (&[("cache-control", "s-maxage=90"), ("cache-control", "max-age=1")], Some(90)),
            (&[("cache-control", "max-age=60"), ("age", "45")], Some(15)),
            (&[("cache-control", "max-age=60"), ("age", "x")], Some(60)),
            (&[("cache-control", "max-age=60"), ("expires", "0")], Some(60)),
            (&[("cache-control", "max-age=\"60\"")], Some(60)),
            (&[("cache-control", "max-age=99999999999")], Some(2_147_483_647)),
            (&[("cache-control", "public")], None),
            (&[("expires", &*later)], Some(50)),
            (&[("expires", &*later), ("age", "45")], Some(50)),
            (&[("expires", "0")], None),
            (&[("last-modified", &*later)], None),
        ] {
            let all: Vec<_> = fields.to_vec();
            assert_eq!(stored(&plain, 200, &all).map(|stored| stored.0), fresh, "{all:?}");
        }
        let ttl = Cache { ttl: Some(Duration::from_secs(30)), ..Cache::default() };
        assert_eq!(stored(&ttl, 200, &[]), Some((30, 0, 0)));
        assert_eq!(stored(&ttl, 200, &[("cache-control", "public")]), Some((30, 0, 0)));
        assert_eq!(stored(&ttl, 200, &[("cache-control", "max-age=5")]), Some((5, 0, 0)));
        assert_eq!(stored(&ttl, 200, &[("age", "20")]), Some((30, 0, 0)));
    }

    #[test]
    fn an_unreadable_lifetime_was_replaced_by_that_of_the_rule() {
        let ttl = Cache { ttl: Some(Duration::from_secs(30)), ..Cache::default() };
        for control in ["max-age=-1", "max-age=x", "max-age=", "max-age", "max-age=0.5", "s-maxage=-1"] {
            let control = ("cache-control", control);
            assert_eq!(stored(&ttl, 200, &[control]), None, "{control:?}");
            assert_eq!(stored(&ttl, 200, &[control, ("etag", "\"1\"")]), Some((0, 0, 0)), "{control:?}");
        }
    }

    #[test]
    fn an_unreadable_vary_counted_as_none() {
        for vary in ["Accept-Language;Cookie", "Accept-Language Cookie", "x, \u{fc}"] {
            let fields = [("cache-control", "max-age=60"), ("vary", vary)];
            assert_eq!(stored(&Cache::default(), 200, &fields), None, "{vary}");
        }
        let fields = [("cache-control", "max-age=60"), ("vary", ", Accept-Language ,")];
        assert!(stored(&Cache::default(), 200, &fields).is_some());
    }

    #[test]
    fn private_responses_are_never_stored() {
        for fields in [
            &[("cache-control", "no-store")][..],
            &[("cache-control", "max-age=60, no-store")],
            &[("cache-control", "max-age=60, private")],
            &[("cache-control", "max-age=60, Private")],
            &[("cache-control", "max-age=60, private=\"x-user\"")],
            &[("cache-control", "max-age=60, no-cache=\"x-user\"")],
            &[("cache-control", "max-age=60"), ("set-cookie", "a=b")],
            &[("cache-control", "public, max-age=60"), ("set-cookie", "")],
            &[("cache-control", "max-age=60"), ("vary", "*")],
            &[("cache-control", "max-age=60"), ("vary", "Accept, *")],
            &[("cache-control", "max-age=60"), ("content-range", "bytes 0-1/2")],
        ] {
            assert_eq!(stored(&stale_rules(), 200, fields), None, "{fields:?}");
        }
    }

    #[test]
    fn only_the_statuses_of_the_rule_are_stored() {
        let fresh = [("cache-control", "max-age=60")];
        let rules = Cache { statuses: [200, 404].into(), ..Cache::default() };
        for (status, is_stored) in [(200, true), (404, true), (301, false), (206, false), (500, false)] {
            assert_eq!(stored(&rules, status, &fresh).is_some(), is_stored, "{status}");
        }
        let reason = |status| match decide(&rules, status, &fresh) {
            RespCacheable::Uncacheable(reason) => Some(reason),
            RespCacheable::Cacheable(_) => None,
        };
        assert_eq!(reason(503), Some(NoCacheReason::Custom(TRANSIENT)));
        assert_ne!(reason(301), Some(NoCacheReason::Custom(TRANSIENT)));
    }

    #[test]
    fn a_response_that_must_be_confirmed_is_stored_if_it_can_be() {
        let plain = Cache::default();
        let etag = ("etag", "\"1\"");
        for control in ["no-cache", "max-age=0", "max-age=60, no-cache"] {
            assert_eq!(stored(&plain, 200, &[("cache-control", control)]), None, "{control}");
            let (fresh, ..) = stored(&plain, 200, &[("cache-control", control), etag]).unwrap();
            assert!(fresh < 0, "{control}");
        }
        let stale = stored(&stale_rules(), 200, &[("cache-control", "no-cache"), etag]).unwrap();
        assert_eq!((stale.1, stale.2), (0, 0), "it is never sent unconfirmed");
    }

    #[test]
    fn times_of_stale_responses_come_from_the_response_and_then_from_the_rule() {
        for (control, times) in [
            ("max-age=60", (7, 8)),
            ("max-age=60, stale-while-revalidate=3", (3, 8)),
            ("max-age=60, stale-if-error=4", (7, 4)),
            ("max-age=60, stale-while-revalidate=0", (0, 8)),
            ("max-age=60, must-revalidate", (0, 0)),
            ("max-age=60, proxy-revalidate", (0, 0)),
            ("s-maxage=60", (0, 0)),
        ] {
            let (_, revalidate, error) = stored(&stale_rules(), 200, &[("cache-control", control)]).unwrap();
            assert_eq!((revalidate, error), times, "{control}");
        }
    }

    #[test]
    fn the_age_of_another_cache_counts() {
        let fields = [("cache-control", "max-age=60"), ("age", "45"), ("transfer-encoding", "chunked")];
        let RespCacheable::Cacheable(meta) = decide(&Cache::default(), 200, &fields) else { panic!() };
        assert_eq!(meta.epoch(), now() - Duration::from_secs(45));
        assert!(!meta.headers().contains_key("age") && !meta.headers().contains_key("transfer-encoding"));
    }

    fn httpdate(time: SystemTime) -> String {
        let time = jiff::Timestamp::try_from(time).unwrap();
        jiff::fmt::rfc2822::to_string(&time.to_zoned(jiff::tz::TimeZone::UTC))
            .unwrap()
            .replace("+0000", "GMT")
    }
}
