//! A list of URLs: one request per line, `[METHOD] URL`. Empty lines and lines that begin with `#`
//! are skipped.

use std::net::IpAddr;

use anyhow::{Result, bail};
use http::{Method, Uri};

use super::{CheckedRequest, Requests};

/// Adds the requests of a list.
///
/// # Errors
/// A line is not a request, or there is none.
pub(super) fn read(text: &str, client: IpAddr, requests: &mut Requests) -> Result<()> {
    let lines = text.lines().enumerate().map(|(number, line)| (number + 1, line.trim()));
    let mut lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
    if lines.peek().is_none() {
        bail!("the list has no URL; write one per line, such as https://shop.example/cart");
    }
    for (number, line) in lines {
        match request(line, client) {
            Ok(request) => requests.add(request),
            Err(reason) => bail!("line {number}: {line:?} {reason}"),
        }
    }
    Ok(())
}

/// The error completes "LINE ...".
fn request(line: &str, client: IpAddr) -> Result<CheckedRequest, &'static str> {
    let (method, url) = match line.split_once(char::is_whitespace) {
        Some((method, url)) => (method, url.trim()),
        None => ("GET", line),
    };
    let method = match method.bytes().all(|byte| byte.is_ascii_uppercase()) {
        true => Method::from_bytes(method.as_bytes()).map_err(|_| "has no method"),
        false => Err(
            "begins with a word that is not a method; write GET https://shop.example/cart, and spaces as %20",
        ),
    }?;
    let url: Uri = url
        .parse()
        .map_err(|_| "is not a URL; write https://shop.example/cart, and other characters as %XX")?;
    let https = match url.scheme_str() {
        Some("http") => false,
        Some("https") => true,
        _ => return Err("has no scheme; begin it with http:// or https://"),
    };
    let authority = url.authority().ok_or("has no host; write https://shop.example/cart")?.as_str();
    if authority.contains('@') {
        return Err("has a user name, which is never sent; remove it");
    }
    let target = url.path_and_query().map_or("/", |target| target.as_str());
    Ok(CheckedRequest {
        method,
        https,
        authority: authority.to_ascii_lowercase(),
        target: target.to_owned(),
        client,
        fields: Vec::new(),
        recorded: None,
    })
}
