//! Queries of the running gateway on its admin listener.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time limit for a response from the same machine.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for the next line of a stream, which has a blank line every few seconds.
const STREAM_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason why a query fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueryError {
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
    /// No port is forwarded to the gateway.
    #[error("{reason}")]
    NotForwarded {
        /// The message of the plugin.
        reason: String,
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

/// Returns the document at a path.
///
/// # Errors
/// The gateway is unreachable, or its response is invalid.
pub(crate) fn query(address: SocketAddr, path: &str) -> Result<String, QueryError> {
    let answer = get(address, path).map_err(|source| unreachable(address, source))?;
    accepted(address, &answer).map(str::to_owned)
}

/// Returns the body of a response, unless it reports an error.
fn accepted(address: SocketAddr, answer: &str) -> Result<&str, QueryError> {
    if let Some(reason) = refusal(answer) {
        return Err(QueryError::Refused { reason: reason.to_owned() });
    }
    body(answer).map_err(|reason| QueryError::NotSluice { address, reason })
}

/// Encodes a query value (RFC 3986 §2.3).
pub(crate) fn encoded(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(byte.into())
            }
            _ => text += &format!("%{byte:02X}"),
        }
        text
    })
}

/// Returns the lines of a stream at a path, once the gateway has accepted the query.
///
/// # Errors
/// The gateway is unreachable, or refuses the query.
pub(crate) fn lines(
    address: SocketAddr,
    path: &str,
) -> Result<impl Iterator<Item = std::io::Result<String>>, QueryError> {
    let unreachable = |source| unreachable(address, source);
    let mut reader = BufReader::new(ask(address, path).map_err(unreachable)?);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).map_err(unreachable)? == 0 {
            break;
        }
    }
    begun(&head).map_err(unreachable)?;
    if !head.starts_with("HTTP/1.1 200 ") && !head.starts_with("HTTP/1.0 200 ") {
        reader.read_to_string(&mut head).map_err(unreachable)?;
        accepted(address, &head)?;
    }
    reader.get_ref().set_read_timeout(Some(STREAM_TIMEOUT)).map_err(unreachable)?;
    Ok(reader.lines())
}

/// Returns the whole response. Uses HTTP/1.0, so that the body ends with the connection and is
/// never chunked.
fn get(address: SocketAddr, page: &str) -> std::io::Result<String> {
    let mut answer = String::new();
    ask(address, page)?.read_to_string(&mut answer)?;
    begun(&answer)?;
    Ok(answer)
}

/// Checks that there is an answer. A forwarded port accepts connections, and closes them if nothing
/// listens in the Pod.
fn begun(answer: &str) -> std::io::Result<()> {
    match answer.is_empty() {
        true => Err(ErrorKind::UnexpectedEof.into()),
        false => Ok(()),
    }
}

/// Names the end of a connection, which shows in several ways.
fn unreachable(address: SocketAddr, source: std::io::Error) -> QueryError {
    let source = match source.kind() {
        kind @ (ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
            std::io::Error::new(kind, "it closed the connection")
        }
        _ => source,
    };
    QueryError::Unreachable { address, source }
}

/// Sends a query. Reading its response fails if nothing arrives within [`TIMEOUT`].
fn ask(address: SocketAddr, page: &str) -> std::io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    write!(stream, "GET /{page} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n\r\n")?;
    Ok(stream)
}

/// Returns the gateway's error message about the query, if there is one.
fn refusal(answer: &str) -> Option<&str> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    matches!(head.split(' ').nth(1), Some("400" | "503")).then_some(body.trim_end())
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
        let message = query(free, "routes").unwrap_err().to_string();
        assert!(message.contains(&free.to_string()) && message.contains("--admin-address"), "{message}");
    }

    #[test]
    fn a_connection_that_was_reset_was_reported_as_a_broken_pipe() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let closing = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            // Closed with the request unread, so the close sends a reset.
            while stream.peek(&mut [0]).unwrap() == 0 {}
        });
        let error = query(address, "routes").unwrap_err();
        closing.join().unwrap();
        assert!(error.to_string().contains("it closed the connection; is it running"), "{error}");
    }

    #[test]
    fn a_connection_that_was_closed_at_once_was_reported_as_another_server() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let closing = std::thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                // Read to its end, so that the close sends no reset.
                let mut request = String::new();
                let mut stream = BufReader::new(stream.unwrap());
                while request.is_empty() || !request.ends_with("\r\n\r\n") {
                    stream.read_line(&mut request).unwrap();
                }
            }
        });
        let errors = [query(address, "routes").unwrap_err(), lines(address, "tap").err().unwrap()];
        closing.join().unwrap();
        for error in errors {
            assert!(matches!(error, QueryError::Unreachable { .. }), "{error}");
            assert!(error.to_string().contains("it closed the connection; is it running"), "{error}");
        }
    }
}
