//! The answer to a request that cannot be read, written without Pingora, which has never heard of it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::answer::write_head;
use crate::connection_info::ConnectionInfo;
use crate::engine::Refusal;
use crate::io::transport::Transport;
use crate::pipeline::{Exchange, Outcome};
use crate::snapshot::Snapshot;
use crate::state::State;

/// Bytes of a request line that are kept for the log.
const LOGGED_LINE: usize = 1024;
/// How long the client may take to take it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// The first line of what a client sent, cut to what a log line should hold.
pub(super) fn request_line(bytes: &[u8]) -> Vec<u8> {
    let line = bytes.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    line[..line.len().min(LOGGED_LINE)].to_vec()
}

/// Writes our page, a log line and a metric.
pub(super) async fn refuse(
    state: &Arc<State>,
    info: &Arc<ConnectionInfo>,
    refusal: &Refusal<'_>,
    transport: &mut Transport,
) -> io::Result<()> {
    let (mut exchange, answer) =
        Exchange::refuse(Snapshot::take(state), info, refusal.request_line, refusal.length, refusal.status);
    exchange.log_answer(&answer);
    let mut whole = Vec::with_capacity(512 + answer.body.len());
    write_head(&answer, false, &mut whole);
    whole.extend_from_slice(&answer.body);
    let write = async {
        transport.write_all(&whole).await?;
        transport.flush().await
    };
    let written = tokio::time::timeout(WRITE_TIMEOUT, write)
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let body_sent = answer.body.len() as u64;
    exchange.end(match written {
        Ok(()) => Outcome {
            status: Some(answer.status),
            body_sent,
            bytes_sent: whole.len() as u64,
            ..Outcome::default()
        },
        Err(_) => Outcome { aborted: true, ..Outcome::default() },
    });
    written
}
