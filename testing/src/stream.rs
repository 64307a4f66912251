//! Servers of TCP and UDP that send back what they receive, and say who they are.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use crate::ports;

/// Serves TCP: greets each connection with its name and a newline, sends back what comes, and ends
/// its side when the client has ended the other one.
#[derive(Debug)]
pub struct TcpEcho {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

/// Serves UDP: answers each datagram with its name, a colon and the datagram.
#[derive(Debug)]
pub struct UdpEcho {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    socket: UdpSocket,
    answering: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stopped: AtomicBool,
    /// Connections or datagrams so far.
    count: AtomicUsize,
    /// Connections, to be closed with the server.
    open: Mutex<Vec<TcpStream>>,
    /// The sender of each datagram.
    seen: Mutex<Vec<String>>,
}

impl TcpEcho {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start(name: &str) -> Self {
        let listener = ports::listen();
        let address = listener.local_addr().unwrap();
        let (shared, name) = (Arc::<Shared>::default(), name.to_owned());
        let served = shared.clone();
        let accepting = Some(thread::spawn(move || accept(&listener, &name, &served)));
        Self { address, shared, accepting }
    }

    /// Connections so far.
    pub fn connections(&self) -> usize {
        self.shared.count.load(SeqCst)
    }

    /// Stops listening; connections go on.
    pub fn stop_listening(&mut self) {
        self.shared.stopped.store(true, SeqCst);
        // Wakes the thread.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.accepting.take() {
            thread.join().unwrap();
        }
    }
}

impl Drop for TcpEcho {
    fn drop(&mut self) {
        if self.accepting.is_some() {
            self.stop_listening();
        }
        for stream in self.shared.open.lock().unwrap().drain(..) {
            // It may have ended.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, name: &str, shared: &Arc<Shared>) {
    while let Ok((mut stream, _)) = listener.accept() {
        if shared.stopped.load(SeqCst) {
            return;
        }
        shared.count.fetch_add(1, SeqCst);
        shared.open.lock().unwrap().push(stream.try_clone().unwrap());
        let greeting = format!("{name}\n");
        thread::spawn(move || {
            // A client may leave at any time.
            let _ = send_back(&mut stream, greeting.as_bytes());
            let _ = stream.shutdown(Shutdown::Write);
        });
    }
}

fn send_back(stream: &mut TcpStream, greeting: &[u8]) -> io::Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    stream.write_all(greeting)?;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            count => stream.write_all(&buffer[..count])?,
        }
    }
}

impl UdpEcho {
    /// Starts one on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn start(name: &str) -> Self {
        Self::answering(name, 1)
    }

    /// The same, with so many responses to each datagram.
    ///
    /// # Panics
    /// It cannot listen.
    pub fn answering(name: &str, responses: usize) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let shared = Arc::<Shared>::default();
        let (own, served, name) = (socket.try_clone().unwrap(), shared.clone(), name.to_owned());
        let answering = Some(thread::spawn(move || answer(&own, &name, responses, &served)));
        Self { address, shared, socket, answering }
    }

    /// Datagrams so far.
    pub fn datagrams(&self) -> usize {
        self.shared.count.load(SeqCst)
    }

    /// The sender of each datagram so far.
    pub fn senders(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Sends a datagram that no client has asked for.
    ///
    /// # Panics
    /// It cannot be sent.
    pub fn send(&self, to: &str, text: &str) {
        self.socket.send_to(text.as_bytes(), to).unwrap();
    }
}

impl Drop for UdpEcho {
    fn drop(&mut self) {
        self.shared.stopped.store(true, SeqCst);
        // Wakes the thread.
        let _ = self.socket.send_to(b"", self.address);
        if let Some(thread) = self.answering.take() {
            let _ = thread.join();
        }
    }
}

fn answer(socket: &UdpSocket, name: &str, responses: usize, shared: &Shared) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok((count, from)) = socket.recv_from(&mut buffer) {
        if shared.stopped.load(SeqCst) {
            return;
        }
        shared.count.fetch_add(1, SeqCst);
        shared.seen.lock().unwrap().push(from.to_string());
        let response = [name.as_bytes(), b":", &buffer[..count]].concat();
        for _ in 0..responses {
            // The client may have left.
            let _ = socket.send_to(&response, from);
        }
    }
}
