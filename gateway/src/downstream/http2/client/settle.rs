//! Handling of the rest of a request body after its response.

use std::mem;

use tokio::time::timeout;

use super::Client;
use crate::downstream::{LINGER, MAX_SETTLED};
use crate::worker::Worker;

impl Client {
    /// Reads and drops the rest of the request body after the response, unless the client waits for
    /// `100 Continue`. A stream that is dropped before its request is complete ends with
    /// RST_STREAM(NO_ERROR). RFC 9113 §8.1 allows that, but some clients treat it as a failure
    /// (curl before 8). Of a large body only a part is read, to give the client time to see the
    /// response and to stop.
    pub(in crate::downstream::http2) async fn settle(&mut self, worker: &Worker) {
        if self.awaits_continue || self.body.is_end_stream() {
            return;
        }
        let most = worker.state.settings().client_body_timeout;
        self.open.reads(self.withheld.unwrap_or(self.framing).left());
        let drop_rest = async {
            let mut dropped = 0;
            while dropped <= MAX_SETTLED {
                let next = timeout(LINGER, self.body.data()).await;
                let Ok(Some(Ok(data))) = next else { return };
                dropped += data.len() as u64;
                let taken = mem::take(&mut self.unreleased) + data.len();
                self.open.count_released(taken);
                if self.body.flow_control().release_capacity(taken).is_err() {
                    return;
                }
            }
        };
        let rest = async {
            tokio::select! {
                () = drop_rest => {}
                () = worker.drain.wait_for_closing() => {}
            }
        };
        // Boxed: rare. The result does not matter, because the response is complete.
        let _ = Box::pin(timeout(most, rest)).await;
    }
}
