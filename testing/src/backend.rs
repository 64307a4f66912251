//! Backends: small HTTP/1.1 servers on loopback that echo the received request, or misbehave as a
//! test specifies.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use crate::ports;
use crate::wait::await_until;
use crate::wire::{Message, Reader, Side};

/// Action for a request.
pub enum Reply {
    /// Responds with the received request as JSON.
    Echo,
    /// Responds with this status, these fields and this body.
    Answer(u16, Vec<(String, String)>, String),
    /// Sends these bytes and closes the connection.
    Raw(Vec<u8>),
    /// Sends these bytes and keeps the connection open.
    Bytes(Vec<u8>),
    /// Closes the connection without a response.
    Close,
    /// Resets the connection.
    Reset,
    /// Responds with 101, sends the backend's name, and echoes everything received from then on.
    Upgrade,
}

impl Reply {
    /// Returns a response without custom fields.
    pub fn status(status: u16) -> Self {
        Self::Answer(status, Vec::new(), format!("status {status} of the backend"))
    }

    /// Returns a 200 response with one field.
    pub fn field(name: &str, value: &str) -> Self {
        Self::Answer(200, vec![(name.to_owned(), value.to_owned())], "ok".to_owned())
    }
}

type Handler = dyn Fn(&Message) -> Reply + Send + Sync;

/// A gate at which a handler waits until the test opens it.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    /// Waits until the gate is open.
    pub fn wait(&self) {
        let (open, changed) = &*self.0;
        drop(changed.wait_while(open.lock().unwrap(), |open| !*open).unwrap());
    }

    /// Opens the gate permanently.
    pub fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }
}

/// A running backend. It ends with the test or by [`Backend::stop`].
pub struct Backend {
    /// The address on which it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    name: String,
    handler: Box<Handler>,
    tls: Option<Arc<ServerConfig>>,
    /// Number of requests after which a connection is closed without notice; 0 stands for
    /// unlimited.
    keep_alive: usize,
    seen: Mutex<Vec<Message>>,
    /// Number of requests whose reply was written whole.
    completed: AtomicUsize,
    connections: AtomicUsize,
    /// Number of connections that the kernel has closed.
    closed: AtomicUsize,
    /// Weak, so that a connection ends when its own thread drops it.
    open: Mutex<Vec<Weak<TcpStream>>>,
    stopping: AtomicBool,
}

impl Backend {
    /// Starts a backend that echoes.
    pub fn echo(name: &str) -> Self {
        Self::with(name, |_| Reply::Echo)
    }

    /// Starts a backend that echoes, `/slow` when the gate opens.
    pub fn gated(name: &str, gate: &Gate) -> Self {
        let gate = gate.clone();
        Self::with(name, move |request| {
            if request.start.contains("/slow") {
                gate.wait();
            }
            Reply::Echo
        })
    }

    /// Starts a backend that echoes at this address, which may be another address of this machine
    /// with the port of another backend.
    ///
    /// # Panics
    /// The address is in use.
    pub fn at(name: &str, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        Self::serve(listener, name, Box::new(|_| Reply::Echo), None, 0)
    }

    /// Starts a backend with this handler.
    pub fn with(name: &str, handler: impl Fn(&Message) -> Reply + Send + Sync + 'static) -> Self {
        Self::start(name, Box::new(handler), None, 0)
    }

    /// Starts a backend that echoes over TLS.
    pub fn tls(name: &str, config: Arc<ServerConfig>) -> Self {
        Self::start(name, Box::new(|_| Reply::Echo), Some(config), 0)
    }

    /// Starts a backend with this handler over TLS.
    pub fn tls_with(
        name: &str,
        config: Arc<ServerConfig>,
        handler: impl Fn(&Message) -> Reply + Send + Sync + 'static,
    ) -> Self {
        Self::start(name, Box::new(handler), Some(config), 0)
    }

    /// Starts a backend that echoes and closes each connection after this number of requests,
    /// without announcing it.
    pub fn closing_after(name: &str, requests: usize) -> Self {
        Self::start(name, Box::new(|_| Reply::Echo), None, requests)
    }

    fn start(name: &str, handler: Box<Handler>, tls: Option<Arc<ServerConfig>>, keep_alive: usize) -> Self {
        Self::serve(ports::listen(), name, handler, tls, keep_alive)
    }

    fn serve(
        listener: TcpListener,
        name: &str,
        handler: Box<Handler>,
        tls: Option<Arc<ServerConfig>>,
        keep_alive: usize,
    ) -> Self {
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            name: name.to_owned(),
            handler,
            tls,
            keep_alive,
            seen: Mutex::default(),
            completed: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            closed: AtomicUsize::new(0),
            open: Mutex::default(),
            stopping: AtomicBool::new(false),
        });
        let acceptor = std::thread::spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        });
        Self { address, shared, acceptor: Some(acceptor) }
    }

    /// Returns the requests so far.
    pub fn seen(&self) -> Vec<Message> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> usize {
        self.shared.seen.lock().unwrap().len()
    }

    /// Returns the number of requests whose reply the gateway's socket has taken whole.
    pub fn completed(&self) -> usize {
        self.shared.completed.load(Ordering::SeqCst)
    }

    /// Returns a function that counts the requests, for use in another thread.
    pub fn counter(&self) -> impl Fn() -> usize + Send + 'static {
        let shared = self.shared.clone();
        move || shared.seen.lock().unwrap().len()
    }

    /// Returns the number of connections so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Waits until every connection so far is closed and the kernel of the peer has acknowledged
    /// it.
    pub fn await_closed(&self) {
        await_until("every connection closed", || {
            self.shared.closed.load(Ordering::SeqCst) == self.connections() && !self.has_unannounced_end()
        });
    }

    /// Returns whether the FIN of a connection may still be in transit, which takes a while even on
    /// loopback if the machine is busy: it has not been acknowledged (`FIN_WAIT1`, number 4 in the
    /// list of sockets).
    fn has_unannounced_end(&self) -> bool {
        let port = format!(":{:04X}", self.address.port());
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        sockets.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            columns.next().is_some_and(|local| local.ends_with(&port)) && columns.nth(1) == Some("04")
        })
    }

    /// Closes all connections but continues to listen.
    pub fn drop_connections(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..).filter_map(|stream| stream.upgrade()) {
            // A connection that has already ended cannot be shut down.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Stops listening and closes all connections: the address refuses connections from now on.
    pub fn stop(&mut self) {
        let Some(acceptor) = self.acceptor.take() else { return };
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor, which then ends and closes the listener.
        let _ = TcpStream::connect(self.address);
        let _ = acceptor.join();
        self.drop_connections();
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming() {
            if self.stopping.load(Ordering::SeqCst) {
                return;
            }
            let Ok(stream) = stream else { continue };
            self.connections.fetch_add(1, Ordering::SeqCst);
            let stream = Arc::new(stream);
            self.open.lock().unwrap().push(Arc::downgrade(&stream));
            let shared = self.clone();
            // Ends with its connection, at the latest when the backend stops and shuts it down.
            std::thread::spawn(move || {
                shared.serve(&stream);
                drop(stream);
                // Counted after the close: a connection must not count as closed while the kernel
                // still accepts bytes for it. The reference count of the `Arc` drops to 0 earlier.
                shared.closed.fetch_add(1, Ordering::SeqCst);
            });
        }
    }

    fn serve(&self, stream: &TcpStream) {
        // Errors end the connection, which the client and the test notice.
        let _ = match &self.tls {
            None => self.converse(&mut &*stream, stream),
            Some(config) => {
                let session = ServerConnection::new(config.clone()).unwrap();
                self.converse(&mut StreamOwned::new(session, stream), stream)
            }
        };
    }

    fn converse(&self, stream: &mut (impl Read + Write), socket: &TcpStream) -> std::io::Result<()> {
        let mut reader = Reader::new();
        let mut served = 0;
        while let Some(request) = reader.message(stream, Side::Request)? {
            self.seen.lock().unwrap().push(request.clone());
            match (self.handler)(&request) {
                Reply::Echo => stream.write_all(&self.echo(&request))?,
                Reply::Answer(status, fields, body) => stream.write_all(&answer(status, &fields, &body))?,
                Reply::Bytes(bytes) => stream.write_all(&bytes)?,
                Reply::Raw(bytes) => {
                    stream.write_all(&bytes)?;
                    self.completed.fetch_add(1, Ordering::SeqCst);
                    return Ok(());
                }
                Reply::Close => return Ok(()),
                // Closing a socket without lingering sends a reset.
                Reply::Reset => return Ok(set_socket_linger(socket, Some(Duration::ZERO))?),
                Reply::Upgrade => {
                    let greeting = format!(
                        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n{}\n",
                        self.name
                    );
                    stream.write_all(greeting.as_bytes())?;
                    stream.write_all(&reader.take_rest())?;
                    return self.parrot(stream);
                }
            }
            self.completed.fetch_add(1, Ordering::SeqCst);
            served += 1;
            if served == self.keep_alive {
                return Ok(());
            }
        }
        Ok(())
    }

    fn parrot(&self, stream: &mut (impl Read + Write)) -> std::io::Result<()> {
        let mut bytes = [0; 4096];
        loop {
            match stream.read(&mut bytes)? {
                0 => return Ok(()),
                count => stream.write_all(&bytes[..count])?,
            }
        }
    }

    fn echo(&self, request: &Message) -> Vec<u8> {
        let mut start = request.start.split(' ');
        let body = json!({
            "backend": self.name,
            "method": start.next(),
            "target": start.next(),
            "headers": request.headers,
            "body": request.text(),
        });
        let fields = [("Content-Type".to_owned(), "application/json".to_owned())];
        let mut bytes = answer(200, &fields, &body.to_string());
        if request.start.starts_with("HEAD ") {
            let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
            bytes.truncate(end);
        }
        bytes
    }
}

fn answer(status: u16, fields: &[(String, String)], body: &str) -> Vec<u8> {
    let mut text = format!("HTTP/1.1 {status} Status\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in fields {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    text.push_str("\r\n");
    text.push_str(body);
    text.into_bytes()
}
