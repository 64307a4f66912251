//! Which requests a reader wants.

use std::net::IpAddr;
use std::time::Duration;

use sluice_config::{InvalidNetwork, Network};

use super::record::TappedRequest;
use crate::policy::networks::Networks;
use crate::router::query_values;

/// Conditions on requests. All that are given must hold.
#[derive(Debug)]
pub(crate) struct RequestFilter {
    /// In lower case, without a port; `*.` at the start is any label or labels.
    host: Option<String>,
    /// The start of the path.
    path: Option<String>,
    method: Option<String>,
    /// First and last status of each range; any if there are none.
    statuses: Vec<(u16, u16)>,
    /// Networks of clients.
    clients: Option<Networks>,
    /// Minimum duration.
    duration: Duration,
    /// The share of requests that is followed, from 0 to 1.
    sample: f64,
}

/// What a filter reads of the head of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TappedHead<'h> {
    /// In lower case, without a port.
    pub(crate) host: &'h str,
    /// The method; empty if no head was read.
    pub(crate) method: &'h str,
    /// The path as the client sent it.
    pub(crate) path: &'h str,
    /// The client behind trusted proxies.
    pub(crate) client: IpAddr,
}

impl Default for RequestFilter {
    fn default() -> Self {
        Self {
            host: None,
            path: None,
            method: None,
            statuses: Vec::new(),
            clients: None,
            duration: Duration::ZERO,
            sample: 1.0,
        }
    }
}

impl RequestFilter {
    /// Reads a filter from the query of a URL: `host`, `path`, `method`, `status` and `client`, of
    /// which the last two may be repeated, `min-millis`, and `sample`.
    ///
    /// # Errors
    /// A value is invalid; the error is the text of the response.
    pub(crate) fn read(query: &str) -> Result<Self, String> {
        let all = |name| query_values(query, name).map(|value| String::from_utf8_lossy(&value).into_owned());
        let one = |name| all(name).next().filter(|value| !value.is_empty());
        let clients: Vec<Network> = all("client").map(|text| network(&text)).collect::<Result<_, _>>()?;
        let number = |name: &str, text: String| -> Result<f64, String> {
            let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0);
            number.ok_or_else(|| format!("{name} {text:?}: it is not a positive number"))
        };
        let sample = one("sample").map_or(Ok(1.0), |text| number("sample", text))?;
        if sample <= 0.0 || sample > 1.0 {
            return Err(format!("sample {sample}: write a share above 0, up to 1"));
        }
        let millis = one("min-millis").map_or(Ok(0.0), |text| number("min-millis", text))?;
        Ok(Self {
            host: one("host").map(|host| host.to_ascii_lowercase()),
            path: one("path"),
            method: one("method").map(|method| method.to_ascii_uppercase()),
            statuses: all("status").map(|text| statuses(&text)).collect::<Result<_, _>>()?,
            clients: (!clients.is_empty()).then(|| Networks::compile(&clients)),
            duration: Duration::try_from_secs_f64(millis / 1000.0).unwrap_or(Duration::MAX),
            sample,
        })
    }

    /// Returns whether a request with this head is followed. Draws the sample.
    pub(super) fn takes_head(&self, head: &TappedHead<'_>) -> bool {
        self.host.as_ref().is_none_or(|host| is_of(head.host, host))
            && self.path.as_ref().is_none_or(|path| head.path.starts_with(&**path))
            && self.method.as_ref().is_none_or(|method| *method == head.method)
            && self.clients.as_ref().is_none_or(|clients| clients.contains(head.client))
            && (self.sample >= 1.0 || fastrand::f64() < self.sample)
    }

    /// Returns whether a request that has ended so is wanted.
    pub(super) fn takes_end(&self, request: &TappedRequest) -> bool {
        let is_in = |(first, last): &(u16, u16)| (*first..=*last).contains(&request.status);
        (self.statuses.is_empty() || self.statuses.iter().any(is_in)) && request.time >= self.duration
    }
}

/// Returns whether a host is the wanted one, or one below `*.`.
fn is_of(host: &str, wanted: &str) -> bool {
    match wanted.strip_prefix('*') {
        Some(end) if end.starts_with('.') => host.len() > end.len() && host.ends_with(end),
        _ => host == wanted,
    }
}

/// Reads a status (`404`) or a class (`5xx`).
fn statuses(text: &str) -> Result<(u16, u16), String> {
    let error = || format!("status {text:?}: write a status such as 404, or a class such as 5xx");
    let digits = text.strip_suffix("xx").or_else(|| text.strip_suffix("XX"));
    let (first, size) = match digits {
        Some(class) => (class.parse::<u16>().map_err(|_| error())?.checked_mul(100).ok_or_else(error)?, 99),
        None => (text.parse().map_err(|_| error())?, 0),
    };
    if (100..=599).contains(&first) { Ok((first, first + size)) } else { Err(error()) }
}

/// Reads an address or a network.
fn network(text: &str) -> Result<Network, String> {
    text.parse().map_err(|InvalidNetwork| {
        format!("client {text:?}: write an address, or a network such as 192.0.2.0/24")
    })
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::request;
    use super::*;

    fn head() -> TappedHead<'static> {
        TappedHead {
            host: "a.shop.example",
            method: "POST",
            path: "/cart/1",
            client: "192.0.2.7".parse().unwrap(),
        }
    }

    #[test]
    fn conditions_on_the_head_must_all_hold() {
        for query in [
            "",
            "host=A.shop.example",
            "host=*.shop.example",
            "path=/cart",
            "method=post",
            "client=192.0.2.0/24",
            "client=::1&client=192.0.2.7",
            "host=a.shop.example&path=/cart&method=POST&client=192.0.2.7",
        ] {
            assert!(RequestFilter::read(query).unwrap().takes_head(&head()), "{query}");
        }
        for query in [
            "host=shop.example",
            "host=*.a.shop.example",
            "path=/other",
            "method=GET",
            "client=192.0.2.8",
            "host=a.shop.example&path=/other",
        ] {
            assert!(!RequestFilter::read(query).unwrap().takes_head(&head()), "{query}");
        }
    }

    #[test]
    fn conditions_on_the_end_are_a_status_or_its_class_and_a_duration() {
        let takes = |query: &str, status| RequestFilter::read(query).unwrap().takes_end(&request(status));
        assert!(takes("", 200) && takes("status=503", 503) && takes("status=5xx", 503));
        assert!(takes("status=404&status=5xx", 500) && !takes("status=404&status=5xx", 200));
        // The request of the test takes 20 ms.
        assert!(takes("min-millis=20", 200) && !takes("min-millis=20.5", 200));
    }

    #[test]
    fn a_sample_is_a_share_of_the_requests() {
        let filter = RequestFilter::read("sample=0.25").unwrap();
        let taken = (0..4000).filter(|_| filter.takes_head(&head())).count();
        assert!((700..1300).contains(&taken), "{taken}");
    }

    #[test]
    fn invalid_values_are_named() {
        for (query, part) in [
            ("status=9", "such as 5xx"),
            ("status=6xx", "such as 5xx"),
            ("status=ok", "\"ok\""),
            ("client=10.0.0.0/40", "10.0.0.0/40"),
            ("client=me", "an address"),
            ("sample=0", "above 0"),
            ("sample=2", "up to 1"),
            ("sample=x", "not a positive number"),
            ("min-millis=-1", "not a positive number"),
        ] {
            let message = RequestFilter::read(query).unwrap_err();
            assert!(message.contains(part), "{query}: {message}");
        }
    }
}
