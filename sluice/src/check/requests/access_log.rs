//! The access log of the old controller.
//!
//! The default format has neither host nor scheme. Such requests get an empty authority here; the
//! host is found later among the rules that lead to the logged Service ([`super::super::hosts`]).

use std::net::IpAddr;

use anyhow::{Result, ensure};
use http::header::{REFERER, USER_AGENT};
use http::{HeaderName, HeaderValue, Method, Uri};

use super::log_format::{RecordedFormat, RecordedLine};
use super::{CheckedRequest, LoggedAnswerer, RecordedResponse, Requests};

/// The variables that have a value if an endpoint was tried. Formats have both, one, or neither.
const ENDPOINT: [&str; 2] = ["upstream_addr", "upstream_status"];

/// Adds the requests of a log. Lines of another format, such as those of the controller's own log,
/// are counted.
///
/// # Errors
/// No line has the format.
pub(super) fn read(
    text: &str,
    format: &RecordedFormat,
    client: IpAddr,
    requests: &mut Requests,
) -> Result<()> {
    let mut matched = false;
    for (number, line) in text.lines().enumerate() {
        let example = || format!("line {}: {}", number + 1, line.chars().take(200).collect::<String>());
        let Some(recorded) = format.parse(line) else {
            if !line.trim().is_empty() {
                requests.skip("lines in another format", example);
            }
            continue;
        };
        matched = true;
        match request(&recorded, client) {
            Ok(request) => requests.add(request),
            Err(reason) => requests.skip(reason, example),
        }
    }
    ensure!(
        matched,
        "no line has the format of the access log; pass the ConfigMap of the old controller with --configmap, or the \
         format itself with --log-format"
    );
    Ok(())
}

fn request(line: &RecordedLine<'_>, client: IpAddr) -> Result<CheckedRequest, &'static str> {
    const UNREADABLE: &str = "lines without a readable request";
    let status = line.value(&["status"]).and_then(|status| status.parse().ok()).ok_or(UNREADABLE)?;
    if status == 499 {
        return Err("requests whose client left before the response (499)");
    }
    let (method, target) = match line.value(&["request"]) {
        Some(request) => {
            let mut words = request.split(' ');
            let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            (method.to_owned(), target.to_owned())
        }
        None => {
            let method = line.value(&["request_method"]).map_or_else(|| "GET".to_owned(), Into::into);
            let target = match line.value(&["request_uri"]) {
                Some(target) => target.into_owned(),
                None => {
                    let path = line.value(&["uri", "document_uri"]).ok_or(UNREADABLE)?;
                    let query = line.value(&["args", "query_string"]);
                    query.map_or_else(|| path.to_string(), |query| format!("{path}?{query}"))
                }
            };
            (method, target)
        }
    };
    let method = Method::from_bytes(method.as_bytes()).map_err(|_| UNREADABLE)?;
    let target = match target.parse::<Uri>() {
        // The absolute form of proxies has its own host.
        Ok(url) if target.starts_with('/') => {
            url.path_and_query().map_or("/", |target| target.as_str()).to_owned()
        }
        _ => return Err(UNREADABLE),
    };
    let address = line.value(&["remote_addr", "the_real_ip", "realip_remote_addr"]);
    let field = |name: HeaderName, variable: &str| {
        let value = line.value(&[variable])?;
        Some((name, HeaderValue::from_str(&value).ok()?))
    };
    let location = line.value(&["proxy_upstream_name"]).map(|name| name.into_owned());
    let canary = line.value(&["proxy_alternative_upstream_name"]).map(|name| name.into_owned());
    let answerer = match line.value(&ENDPOINT) {
        Some(_) => LoggedAnswerer::Endpoint(canary.or_else(|| location.clone())),
        None if line.has(&ENDPOINT) => LoggedAnswerer::Controller,
        None => LoggedAnswerer::Unknown,
    };
    Ok(CheckedRequest {
        method,
        https: is_https(line),
        authority: authority(line),
        target,
        client: address.and_then(|address| address.parse().ok()).unwrap_or(client),
        fields: [field(USER_AGENT, "http_user_agent"), field(REFERER, "http_referer")]
            .into_iter()
            .flatten()
            .collect(),
        recorded: Some(RecordedResponse {
            status,
            answerer,
            location,
            credentials: line.value(&["remote_user"]).is_some(),
        }),
    })
}

/// Returns the host, or nothing if the format has none.
fn authority(line: &RecordedLine<'_>) -> String {
    let host = line.value(&["http_host", "best_http_host", "host"]);
    let host =
        host.or_else(|| line.value(&["server_name"]).filter(|name| !name.starts_with(['_', '*', '~'])));
    let fits = |host: &str| host.parse::<http::uri::Authority>().is_ok() && !host.contains('@');
    host.filter(|host| fits(host)).map(|host| host.to_ascii_lowercase()).unwrap_or_default()
}

fn is_https(line: &RecordedLine<'_>) -> bool {
    match line.value(&["pass_access_scheme", "scheme", "http_x_forwarded_proto"]) {
        Some(scheme) => scheme == "https",
        None => {
            line.value(&["https"]).is_some_and(|https| https == "on")
                || line.value(&["ssl_protocol"]).is_some()
                || line.value(&["server_port"]).is_some_and(|port| port == "443")
        }
    }
}
