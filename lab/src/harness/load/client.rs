//! The clients of a load: kept connections used in turn, and new ones.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::LoadTarget;

/// Number of kept connections. They are used in turn, so that none is idle for long and all meet
/// the fault.
const KEPT: usize = 16;

/// The body of a POST.
const BODY: &[u8] = &[b'x'; 1024];

type Sender = SendRequest<Full<Bytes>>;

/// Connections to one address.
pub(super) struct Clients {
    address: SocketAddr,
    tls: Option<TlsConnector>,
    kept: Mutex<VecDeque<Sender>>,
}

/// One request.
pub(super) struct Question {
    pub(super) number: usize,
    pub(super) method: Method,
    /// Whether it uses a kept connection.
    pub(super) kept: bool,
    pub(super) target: LoadTarget,
}

/// The fields of an echo server's response that are checked.
#[derive(Deserialize)]
struct Echo {
    pod: Option<String>,
    namespace: Option<String>,
    method: String,
    path: Option<String>,
    body_length: usize,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connection = if self.kept { "a kept" } else { "a new" };
        write!(f, "{} {}{} on {connection} connection", self.method, self.target.host, self.target.path)
    }
}

impl Question {
    /// Returns the path with a marker, which detects responses to other requests.
    fn path(&self) -> String {
        let joint = if self.target.path.contains('?') { '&' } else { '?' };
        format!("{}{joint}n={}", self.target.path, self.number)
    }

    fn body(&self) -> Bytes {
        if self.method == Method::POST { Bytes::from_static(BODY) } else { Bytes::new() }
    }
}

impl Clients {
    pub(super) fn new(address: SocketAddr, tls: Option<Arc<ClientConfig>>) -> Self {
        Self { address, tls: tls.map(TlsConnector::from), kept: Mutex::default() }
    }

    /// Sends the request and returns the Pod that responded correctly.
    pub(super) async fn ask(&self, question: &Question, namespace: &str) -> Result<String> {
        let mut request = Request::builder()
            .method(question.method.clone())
            .uri(question.path())
            .header("host", &question.target.host);
        if !question.kept {
            request = request.header("connection", "close");
        }
        let mut request = request.body(Full::new(question.body()))?;
        loop {
            let (mut sender, reused) = self.sender(question).await?;
            match sender.try_send_request(request).await {
                Ok(response) => {
                    let status = response.status();
                    let body = response.into_body().collect().await.context("in the content")?.to_bytes();
                    let pod = check(question, namespace, status, &body)?;
                    if question.kept && !sender.is_closed() {
                        self.lock().push_back(sender);
                    }
                    return Ok(pod);
                }
                // The connection was closed before anything was written, so, like any client, it
                // takes another one.
                Err(mut error) if reused && error.message().is_some() => {
                    request = error.take_message().context("the request was there")?;
                }
                Err(error) => return Err(error.into_error().into()),
            }
        }
    }

    /// Returns a ready connection, and whether it was used before.
    async fn sender(&self, question: &Question) -> Result<(Sender, bool)> {
        while let Some(mut sender) = self.take(question.kept) {
            // An orderly close by the gateway is not a failure.
            if sender.ready().await.is_ok() {
                return Ok((sender, true));
            }
        }
        Ok((self.connect(&question.target.host).await?, false))
    }

    /// Returns the connection that was idle longest, if the request uses a kept one.
    fn take(&self, kept: bool) -> Option<Sender> {
        let mut waiting = self.lock();
        // Until there are enough, every request opens one more.
        if kept && waiting.len() >= KEPT { waiting.pop_front() } else { None }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Sender>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self, host: &str) -> Result<Sender> {
        let stream = TcpStream::connect(self.address).await.context("connect")?;
        stream.set_nodelay(true)?;
        match &self.tls {
            None => drive(TokioIo::new(stream)).await,
            Some(tls) => {
                let name = ServerName::try_from(host.to_owned())?;
                drive(TokioIo::new(tls.connect(name, stream).await.context("handshake")?)).await
            }
        }
    }
}

async fn drive(io: impl hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static) -> Result<Sender> {
    let (sender, connection) = handshake(io).await?;
    // An error of the connection is also reported by its request.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// Returns the Pod that responded, if the response is correct.
fn check(question: &Question, namespace: &str, status: StatusCode, body: &[u8]) -> Result<String> {
    let text = || String::from_utf8_lossy(body).chars().take(200).collect::<String>();
    ensure!(status == StatusCode::OK, "status {status}: {}", text());
    let echo: Echo = serde_json::from_slice(body).with_context(|| format!("no echo: {}", text()))?;
    let expected = format!("{}-", question.target.deployment);
    ensure!(
        echo.namespace.as_deref() == Some(namespace)
            && echo.pod.as_deref().is_some_and(|pod| pod.starts_with(&expected)),
        "a wrong backend has answered: {}",
        text()
    );
    ensure!(
        echo.path.as_deref() == Some(&question.path())
            && echo.method == question.method.as_str()
            && echo.body_length == question.body().len(),
        "the answer is another request's: {}",
        text()
    );
    echo.pod.context("the answer names no Pod")
}
