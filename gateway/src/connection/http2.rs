//! An HTTP/2 connection: Pingora drives it, through an app of its own so that it has its own limits.

use std::sync::Arc;

use async_trait::async_trait;
use pingora_core::apps::{HttpServerApp, HttpServerOptions, ReusedHttpStream, ServerApp};
use pingora_core::protocols::http::ServerSession;
use pingora_core::protocols::http::v2::server::H2Options;
use pingora_core::server::ShutdownWatch;

use super::io::ClientIo;
use crate::drain::Drain;
use crate::worker::{Proxy, Worker};

/// Octets of a header list, decoded. Floods of fields end there (CVE-2024-27316).
const HEADER_LIST: u32 = 64 * 1024;
/// Streams that a client may have reset before we have answered them (CVE-2023-44487).
const RESETS: usize = 128;

struct Http2 {
    proxy: Arc<Proxy>,
    drain: Drain,
    options: H2Options,
    server: HttpServerOptions,
}

/// Serves streams until the connection ends.
pub(crate) async fn serve(mut io: Box<ClientIo>, worker: &Worker) {
    let tuning = worker.state.tuning.load_full();
    let mut options = H2Options::new();
    options
        .max_concurrent_streams(tuning.http2_max_concurrent_streams)
        .max_header_list_size(HEADER_LIST)
        .max_concurrent_reset_streams(RESETS)
        .max_pending_accept_reset_streams(RESETS);
    let mut server = HttpServerOptions::default();
    server.h2_idle_timeout = Some(tuning.keep_alive);
    server.allow_connect_method_proxying = true;
    drop(tuning);
    io.open_as_http2();
    let app = Arc::new(Http2 { proxy: worker.proxy(), drain: worker.drain.clone(), options, server });
    app.process_new(io, &worker.shutdown).await;
}

#[async_trait]
impl HttpServerApp for Http2 {
    async fn process_new_http(
        self: &Arc<Self>,
        session: ServerSession,
        shutdown: &ShutdownWatch,
    ) -> Option<ReusedHttpStream> {
        let _running = self.drain.request();
        self.proxy.process_new_http(session, shutdown).await
    }

    fn h2_options(&self) -> Option<H2Options> {
        Some(self.options.clone())
    }

    fn server_options(&self) -> Option<&HttpServerOptions> {
        Some(&self.server)
    }
}
