//! `sluice routes`, `backends`, `certs` and `problems`: prints the state of the running gateway,
//! queried from its admin listener.
//!
//! JSON is printed unchanged; tables are formatted per view by [`layout`].

pub(crate) mod explanation;
pub(crate) mod layout;
pub(crate) mod table;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::flags::{Output, Show};

/// Time limit for a response from the same machine.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Reason why a query fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ShowError {
    /// The admin listener does not respond.
    #[error(
        "cannot ask the gateway at {address}: {source}; is it running, and is --admin-address the same for both?"
    )]
    Unreachable {
        /// The admin listener.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
    },
    /// The gateway rejects the query.
    #[error("{reason}")]
    Refused {
        /// The message of the gateway.
        reason: String,
    },
    /// A server responds, but not like the admin listener.
    #[error("{address} does not answer like the admin listener of sluice ({reason}); check --admin-address")]
    NotSluice {
        /// The admin listener.
        address: SocketAddr,
        /// The unexpected part of the response.
        reason: String,
    },
}

/// Returns the text to print.
///
/// # Errors
/// The gateway is unreachable, or its response is invalid.
pub(crate) fn show(show: Show) -> Result<String, ShowError> {
    let address = show.admin_address;
    let page = match &show.request {
        Some(request) => explanation::page(request),
        None => show.view.name().to_owned(),
    };
    let answer = get(address, &page).map_err(|source| ShowError::Unreachable { address, source })?;
    if let Some(reason) = refusal(&answer) {
        return Err(ShowError::Refused { reason: reason.to_owned() });
    }
    let body = body(&answer).map_err(|reason| ShowError::NotSluice { address, reason })?;
    match show.output {
        Output::Json => Ok(body.to_owned()),
        Output::Table => {
            let value = serde_json::from_str(body)
                .map_err(|error| ShowError::NotSluice { address, reason: error.to_string() })?;
            Ok(match &show.request {
                Some(_) => explanation::render(&value),
                None => table::render(&layout::lines(show.view, &value)),
            })
        }
    }
}

/// Returns the whole response. Uses HTTP/1.0, so that the body ends with the connection and is
/// never chunked.
fn get(address: SocketAddr, page: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /{page} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Returns the gateway's error message about the query, if there is one.
fn refusal(answer: &str) -> Option<&str> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    (head.split(' ').nth(1) == Some("400")).then_some(body.trim_end())
}

fn body(answer: &str) -> Result<&str, String> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP answer")?;
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200") => Ok(body),
        _ => Err(format!("it reports {status:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Command, parse};

    #[test]
    fn only_a_200_has_a_body_for_us() {
        assert_eq!(body("HTTP/1.1 200 OK\r\nA: b\r\n\r\n[]"), Ok("[]"));
        assert!(body("HTTP/1.1 404 Not Found\r\n\r\nno").unwrap_err().contains("404"));
        assert!(body("SSH-2.0").is_err());
        assert_eq!(refusal("HTTP/1.1 400 Bad Request\r\nA: b\r\n\r\nno header\n"), Some("no header"));
        assert_eq!(refusal("HTTP/1.1 200 OK\r\n\r\n{}"), None);
    }

    #[test]
    fn an_unreachable_gateway_is_named() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let words = ["routes", "--admin-address", &free.to_string()].map(Into::into);
        let Command::Show(question) = parse(words, |_| None).unwrap().command else { panic!() };
        let message = show(question).unwrap_err().to_string();
        assert!(message.contains(&free.to_string()) && message.contains("--admin-address"), "{message}");
    }
}
