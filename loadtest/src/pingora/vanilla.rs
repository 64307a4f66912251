//! A reverse proxy on Pingora as in its quick start: the ordinary `Server`, one `ProxyHttp`, a line
//! per request on standard output. The benchmark compares Sluice with it, to separate the cost and
//! savings of Sluice from those of Pingora.
//!
//! `vanilla-pingora` runs it unchanged, `tuned-pingora` with mimalloc and without work stealing.

use async_trait::async_trait;
use pingora_core::listeners::tls::TlsSettings;
use pingora_core::server::Server;
use pingora_core::server::configuration::ServerConf;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_core::{Error, Result};
use pingora_http::RequestHeader;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};

struct Proxy {
    origin: String,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ();
    fn new_ctx(&self) -> Self::CTX {}

    async fn upstream_peer(&self, _: &mut Session, (): &mut ()) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.origin.as_str(), false, String::new())))
    }

    async fn upstream_request_filter(
        &self,
        session: &mut Session,
        request: &mut RequestHeader,
        (): &mut (),
    ) -> Result<()> {
        let address = session.client_addr().and_then(|address| address.as_inet());
        let client = address.map(|address| address.ip().to_string()).unwrap_or_default();
        let tls = session.digest().is_some_and(|digest| digest.ssl_digest.is_some());
        request.insert_header("X-Real-IP", &client)?;
        request.insert_header("X-Forwarded-For", &client)?;
        request.insert_header("X-Forwarded-Proto", if tls { "https" } else { "http" })
    }

    async fn logging(&self, session: &mut Session, _: Option<&Error>, (): &mut ()) {
        let client = session.client_addr().map(ToString::to_string).unwrap_or_default();
        let status = session.response_written().map_or(0, |response| response.status.as_u16());
        println!("{client} \"{}\" {status} {}", session.request_summary(), session.body_bytes_sent());
    }
}

/// Serves until SIGTERM. The arguments are `HTTP-ADDRESS HTTPS-ADDRESS CERTIFICATE KEY ORIGIN`.
///
/// # Panics
/// Words are missing, or a file or an address is not usable.
pub(crate) fn serve(work_stealing: bool) {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [http, https, certificate, key, origin] =
        <[String; 5]>::try_from(words).expect("HTTP-ADDRESS HTTPS-ADDRESS CERTIFICATE KEY ORIGIN");
    let conf = ServerConf { threads: 1, work_stealing, ..ServerConf::default() };
    let mut server = Server::new_with_opt_and_conf(None, conf);
    server.bootstrap();
    let mut proxy = http_proxy_service(&server.configuration, Proxy { origin });
    proxy.add_tcp(&http);
    let mut tls = TlsSettings::intermediate(&certificate, &key).expect("a certificate and its key");
    tls.enable_h2();
    proxy.add_tls_with_settings(&https, None, tls);
    server.add_service(proxy);
    server.run_forever();
}
