//! Receives PROXY protocol headers (`use-proxy-protocol`): a proxy in front of the gateway forwards
//! connections byte by byte and names the client in a header, read before TLS and HTTP.
//!
//! The header determines the client address, on which access decisions depend. A connection whose
//! peer is not trusted, or whose header is missing, malformed or late, is closed without an answer.
//! A connection that closes before its first byte, such as a load balancer's port check, is no
//! error.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::proxy_header::{self, LOOKED_AT, NoHeader, ProxyHeader};
use crate::connection::info::ProxiedAddresses;
use crate::policy::forwarded::ForwardedRules;
use crate::telemetry::ProxyProtocolFault;
use crate::worker::Worker;

/// Minimum time between two log messages of a worker about refused connections.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

thread_local! {
    /// When this worker last logged refused connections, and how many it has refused since.
    static LAST_WARNING: Cell<(Option<Instant>, u64)> = const { Cell::new((None, 0)) };
}

/// Why a connection is closed before its first request.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(
        "the peer is not trusted; if it is a proxy in front of the gateway, add it to proxy-real-ip-cidr"
    )]
    Untrusted,
    #[error("{0}")]
    NoHeader(#[from] NoHeader),
    #[error("it did not arrive within proxy-protocol-header-timeout")]
    Late,
    #[error("the connection broke off: {0}")]
    Broken(#[from] io::Error),
    /// The peer closed the connection without sending a byte.
    #[error("the connection was closed at once")]
    Silent,
}

/// Returns the client and destination addresses from the header; `Ok(None)` if the peer is the
/// client. `Err` if the connection must be closed, which was counted and logged. `entry` is the
/// entry of a TCP service that requires the header; for HTTP, use-proxy-protocol requires it.
pub(super) async fn receive(
    stream: &mut TcpStream,
    peer: SocketAddr,
    rules: &ForwardedRules,
    time_limit: Duration,
    entry: Option<&str>,
    worker: &Worker,
) -> Result<Option<Box<ProxiedAddresses>>, ()> {
    let read = async {
        if !rules.trusts(peer.ip().to_canonical()) {
            return Err(Refused::Untrusted);
        }
        tokio::select! {
            biased;
            read = timeout(time_limit, read(stream)) => read.unwrap_or(Err(Refused::Late)),
            // Bytes that have arrived are read first; the rest gets one more second.
            () = worker.drain.wait_for_closing() => Err(Refused::Silent),
        }
    };
    match read.await {
        Ok(header) => Ok(header.addresses.map(Box::new)),
        Err(refused) => {
            refuse(&refused, peer, entry, worker);
            Err(())
        }
    }
}

/// Reads a header from the stream and no byte behind it.
async fn read(stream: &mut TcpStream) -> Result<ProxyHeader, Refused> {
    let mut seen = [0; LOOKED_AT];
    let mut taken = 0;
    loop {
        let peeked = stream.peek(&mut seen[taken..]).await?;
        if peeked == 0 {
            return Err(match taken {
                0 => Refused::Silent,
                _ => NoHeader::Malformed("it was cut short").into(),
            });
        }
        let known = proxy_header::belonging(&seen[..taken + peeked]);
        stream.read_exact(&mut seen[taken..known]).await?;
        taken = known;
        if let Some(header) = proxy_header::parse(&seen[..taken])? {
            // Extensions (TLVs), which are not used.
            let mut rest = header.length - taken;
            while rest > 0 {
                let part = rest.min(LOOKED_AT);
                stream.read_exact(&mut seen[..part]).await?;
                rest -= part;
            }
            return Ok(header);
        }
    }
}

fn refuse(refused: &Refused, peer: SocketAddr, entry: Option<&str>, worker: &Worker) {
    let fault = match refused {
        Refused::Silent => return,
        Refused::Untrusted => ProxyProtocolFault::Untrusted,
        Refused::NoHeader(NoHeader::Missing) => ProxyProtocolFault::Missing,
        Refused::NoHeader(NoHeader::Malformed(_)) | Refused::Broken(_) => ProxyProtocolFault::Malformed,
        Refused::Late => ProxyProtocolFault::Late,
    };
    worker.state.telemetry.proxy_protocol_refused(fault);
    let (last, unreported) = LAST_WARNING.get();
    if last.is_some_and(|last| last.elapsed() < WARNING_INTERVAL) {
        return LAST_WARNING.set((last, unreported + 1));
    }
    LAST_WARNING.set((Some(Instant::now()), 0));
    tracing::warn!(
        %peer,
        refused_since_the_last_line = unreported,
        "closed a connection without a good header of the PROXY protocol: {refused}{}",
        advice(refused, entry)
    );
}

/// Returns how to fix a missing or malformed header.
fn advice(refused: &Refused, entry: Option<&str>) -> String {
    let Refused::NoHeader(_) = refused else { return String::new() };
    let alternative = match entry {
        Some(entry) => format!("remove :PROXY from {entry}"),
        None => "set use-proxy-protocol to false".to_owned(),
    };
    format!("; check that the proxy in front of the gateway sends the header, or {alternative}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_for_a_stream_names_its_entry() {
        let text = |entry| {
            format!("{}{}", Refused::from(NoHeader::Missing), advice(&NoHeader::Missing.into(), entry))
        };
        let of_stream = text(Some("data[5432] of ConfigMap edge/tcp"));
        assert!(
            of_stream.ends_with(", or remove :PROXY from data[5432] of ConfigMap edge/tcp"),
            "{of_stream}"
        );
        assert!(!of_stream.contains("use-proxy-protocol"), "{of_stream}");
        assert!(text(None).ends_with(", or set use-proxy-protocol to false"), "{}", text(None));
        assert_eq!(advice(&Refused::Untrusted, None), "");
    }
}
