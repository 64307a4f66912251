//! The requests whose responses are checked: a list of URLs, or the access log of the old
//! controller. Equal requests are checked once and counted.

mod access_log;
mod log_format;
mod url_list;

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, Result};
use http::{HeaderName, HeaderValue, Method};
use sluice_config::LogEscape;

use crate::flags::RequestArguments;
pub(super) use log_format::RecordedFormat;

/// The client's address of requests that name none: one of the documentation (TEST-NET-2, RFC
/// 5737).
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));

/// A request to check.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CheckedRequest {
    pub(super) method: Method,
    /// Whether it is an https request.
    pub(super) https: bool,
    /// Host, with the port if the URL has one.
    pub(super) authority: String,
    /// Path and query.
    pub(super) target: String,
    pub(super) client: IpAddr,
    /// Fields of the request that the access log has.
    pub(super) fields: Vec<(HeaderName, HeaderValue)>,
    /// The response of the old controller according to its access log.
    pub(super) recorded: Option<RecordedResponse>,
}

/// A response according to the access log of the old controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct RecordedResponse {
    pub(super) status: u16,
    pub(super) answerer: LoggedAnswerer,
    /// `$proxy_upstream_name` of the location, whether an endpoint answered or not.
    pub(super) location: Option<String>,
    /// Whether the request had a user name. The log does not have the password.
    pub(super) credentials: bool,
}

/// What answered a request according to the access log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum LoggedAnswerer {
    /// The format of the log does not say whether an endpoint answered.
    Unknown,
    /// The controller itself.
    Controller,
    /// An endpoint of this `$proxy_upstream_name`, or of the canary's. `None` if the format has no
    /// name.
    Endpoint(Option<String>),
}

/// Distinct requests with their frequency, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pub(super) distinct: Vec<(CheckedRequest, u64)>,
    /// Requests and lines that are not checked: the reason, their number, and the first one.
    pub(super) skipped: BTreeMap<&'static str, Skipped>,
    index: std::collections::HashMap<CheckedRequest, usize>,
    limit: usize,
}

/// Requests or lines that are not checked for one reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Skipped {
    pub(super) count: u64,
    /// The first one, with its line number.
    pub(super) first: String,
}

impl CheckedRequest {
    /// Returns the URL.
    pub(super) fn url(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.target)
    }

    /// Returns the host without a port.
    pub(super) fn host(&self) -> &str {
        let end = match self.authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.len(),
            _ => self.authority.len(),
        };
        self.authority[..end].trim_matches(['[', ']'])
    }

    /// Returns whether the request may be sent to a controller that serves users.
    pub(super) fn is_safe(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
}

impl Requests {
    fn new(limit: usize) -> Self {
        Self { limit, ..Self::default() }
    }

    fn add(&mut self, request: CheckedRequest) {
        if let Some(&position) = self.index.get(&request) {
            self.distinct[position].1 += 1;
        } else if self.distinct.len() < self.limit {
            self.index.insert(request.clone(), self.distinct.len());
            self.distinct.push((request, 1));
        } else {
            self.skip("beyond --limit", || request.url());
        }
    }

    pub(super) fn skip(&mut self, reason: &'static str, example: impl FnOnce() -> String) {
        let skipped = self.skipped.entry(reason).or_default();
        skipped.count += 1;
        if skipped.first.is_empty() {
            skipped.first = example();
        }
    }
}

/// Reads the requests that the arguments name. `format` is the format of the access log according
/// to the configuration, and `escape` its escaping.
///
/// # Errors
/// A file cannot be read, or a line of the URL list is no request; the error names the line.
pub(super) fn read(
    arguments: &RequestArguments,
    format: Option<&str>,
    escape: LogEscape,
) -> Result<Option<Requests>> {
    let RequestArguments { urls, access_log, log_format, client, limit } = arguments;
    if urls.is_none() && access_log.is_none() {
        return Ok(None);
    }
    let client = client.unwrap_or(CLIENT);
    let mut requests = Requests::new(*limit);
    if let Some(path) = urls {
        let text = contents(path, "--urls")?;
        url_list::read(&text, client, &mut requests).with_context(|| path.display().to_string())?;
    }
    if let Some(path) = access_log {
        let text = contents(path, "--access-log")?;
        let format = RecordedFormat::new(log_format.as_deref().or(format), escape)?;
        access_log::read(&text, &format, client, &mut requests)
            .with_context(|| path.display().to_string())?;
    }
    Ok(Some(requests))
}

fn contents(path: &Path, flag: &str) -> Result<String> {
    let mut bytes = Vec::new();
    match path == Path::new("-") {
        true => std::io::stdin().lock().read_to_end(&mut bytes).map(drop),
        false => std::fs::read(path).map(|read| bytes = read),
    }
    .with_context(|| {
        format!(
            "cannot read {}; {flag} names a file that you may read, or - for standard input",
            path.display()
        )
    })?;
    // An access log may contain other bytes only where nginx does not escape.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests;
