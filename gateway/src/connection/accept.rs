//! One worker's share of one listening socket.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::listeners::{Entry, Listening};
use super::serve;
use crate::drain::OpenConnection;
use crate::worker::Worker;

/// How long nothing is accepted when the process or the machine has no descriptors or memory left.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Accepts until `stop` is dropped or sent to; then empties the queue and ends.
pub(crate) async fn accept(
    listening: Listening,
    worker: Arc<Worker>,
    mut stop: oneshot::Receiver<()>,
) -> io::Result<()> {
    let Listening { socket, entry } = listening;
    let listener = tokio::net::TcpListener::from_std(socket.try_clone()?)?;
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            _ = &mut stop => break,
        };
        match accepted {
            Ok((stream, peer)) => admit(stream, peer, &entry, &worker),
            Err(error) => pause(&error, &socket).await,
        }
    }
    // The runtime's readiness may lag behind the kernel's queue: ask the kernel.
    while let Ok((stream, peer)) = socket.accept() {
        stream.set_nonblocking(true)?;
        admit(TcpStream::from_std(stream)?, peer, &entry, &worker);
    }
    Ok(())
}

fn admit(stream: TcpStream, peer: SocketAddr, entry: &Entry, worker: &Arc<Worker>) {
    let limit = worker.capacity.within(worker.state.tuning.load().max_connections);
    let Some(open) = worker.drain.shared().admit(limit) else {
        worker.state.telemetry.connection_refused();
        return;
    };
    worker.state.telemetry.connection_opened();
    let counted = Counted { worker: worker.clone(), _open: open };
    let entry = entry.clone();
    tokio::spawn(async move { serve(stream, peer, entry, &counted.worker).await });
}

/// A connection in the counts, however it ends.
struct Counted {
    worker: Arc<Worker>,
    _open: OpenConnection,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.worker.state.telemetry.connection_closed();
    }
}

/// Most errors concern the connection that was about to be accepted; the next may be well. Without descriptors
/// it would fail at once and for ever, with the connection still in the queue.
async fn pause(error: &io::Error, socket: &TcpListener) {
    use rustix::io::Errno;
    let exhausted = [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM];
    if error.raw_os_error().is_some_and(|code| exhausted.iter().any(|errno| errno.raw_os_error() == code)) {
        tracing::warn!(
            %error,
            listener = ?socket.local_addr().ok(),
            "cannot accept connections; raise the limit of open files or lower max-worker-connections"
        );
        tokio::time::sleep(EXHAUSTED).await;
    }
}
