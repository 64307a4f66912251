//! A DNS server over UDP with records that a test defines.
//!
//! Its messages are assembled by hand: of RFC 1035, it needs only a question and its answer.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

/// Record types.
const A: u16 = 1;
const AAAA: u16 = 28;

/// Response to questions for a name.
#[derive(Clone, Debug)]
enum Answer {
    /// These addresses, with a time to live in seconds.
    Addresses(Vec<IpAddr>, u32),
    /// A server failure: SERVFAIL.
    Failed,
    /// No response.
    Silence,
}

/// A running server. It ends with the test.
pub struct DnsServer {
    /// The address on which it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    folder: TempDir,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<BTreeMap<String, Answer>>,
    /// The names in questions so far, with their record types.
    asked: Mutex<Vec<(String, u16)>>,
    stopping: AtomicBool,
}

impl DnsServer {
    /// Starts a server without records: every name is answered with NXDOMAIN.
    ///
    /// # Panics
    /// There is no free port.
    pub fn start() -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let (address, shared) = (socket.local_addr().unwrap(), Arc::<Shared>::default());
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || shared.serve(&socket)
        });
        Self { address, shared, folder: tempfile::tempdir().unwrap(), thread: Some(thread) }
    }

    /// Sets the addresses of a name (without a final dot), and their time to live in seconds.
    pub fn set(&self, name: &str, addresses: &[IpAddr], seconds: u32) {
        self.answer(name, Answer::Addresses(addresses.to_vec(), seconds));
    }

    /// Removes a name.
    pub fn remove(&self, name: &str) {
        self.shared.answers.lock().unwrap().remove(name);
    }

    /// Responds with SERVFAIL to questions for the name.
    pub fn fail(&self, name: &str) {
        self.answer(name, Answer::Failed);
    }

    /// Does not respond to questions for the name.
    pub fn silence(&self, name: &str) {
        self.answer(name, Answer::Silence);
    }

    fn answer(&self, name: &str, answer: Answer) {
        self.shared.answers.lock().unwrap().insert(name.to_owned(), answer);
    }

    /// Returns how often the addresses of this name were requested.
    pub fn asked(&self, name: &str) -> usize {
        self.shared.asked.lock().unwrap().iter().filter(|(asked, kind)| asked == name && *kind == A).count()
    }

    /// Returns a resolv.conf that contains this server, followed by these lines.
    ///
    /// # Panics
    /// The file cannot be written.
    pub fn resolv_conf(&self, lines: &str) -> PathBuf {
        let path = self.folder.path().join("resolv.conf");
        let (ip, port) = (self.address.ip(), self.address.port());
        std::fs::write(&path, format!("nameserver [{ip}]:{port}\n{lines}\n")).unwrap();
        path
    }
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn serve(&self, socket: &UdpSocket) {
        let mut buffer = [0; 4096];
        while !self.stopping.load(Ordering::Relaxed) {
            let Ok((length, client)) = socket.recv_from(&mut buffer) else { continue };
            let Some(answer) = self.reply(&buffer[..length]) else { continue };
            let _ = socket.send_to(&answer, client);
        }
    }

    fn reply(&self, query: &[u8]) -> Option<Vec<u8>> {
        let (name, end) = read_name(query, 12)?;
        let kind = u16::from_be_bytes([*query.get(end)?, *query.get(end + 1)?]);
        let question = query.get(12..end + 4)?;
        self.asked.lock().unwrap().push((name.clone(), kind));
        let answer = self.answers.lock().unwrap().get(&name).cloned();
        let (code, records) = match answer {
            Some(Answer::Silence) => return None,
            Some(Answer::Failed) => (2, Vec::new()),
            None => (3, Vec::new()),
            Some(Answer::Addresses(addresses, seconds)) => {
                let fits = |address: &IpAddr| if address.is_ipv4() { kind == A } else { kind == AAAA };
                let fitting = addresses.into_iter().filter(fits);
                (0, fitting.map(|address| record(address, seconds)).collect::<Vec<_>>())
            }
        };
        // The flags of a response: recursion desired, recursion available.
        let mut reply = [&query[..2], &[0x81, 0x80 | code, 0, 1]].concat();
        reply.extend(u16::try_from(records.len()).ok()?.to_be_bytes());
        reply.extend([0; 4]);
        reply.extend(question);
        reply.extend(records.concat());
        Some(reply)
    }
}

/// Returns the name at `at` without a final dot, and the offset after it.
fn read_name(message: &[u8], mut at: usize) -> Option<(String, usize)> {
    let mut labels = Vec::new();
    loop {
        let length = usize::from(*message.get(at)?);
        at += 1;
        if length == 0 {
            return Some((labels.join("."), at));
        }
        labels.push(String::from_utf8_lossy(message.get(at..at + length)?).to_ascii_lowercase());
        at += length;
    }
}

/// Returns an address record for the name in the question.
fn record(address: IpAddr, seconds: u32) -> Vec<u8> {
    let (kind, bytes) = match address {
        IpAddr::V4(ip) => (A, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AAAA, ip.octets().to_vec()),
    };
    // A pointer to the name in the question; the class is IN.
    let mut record = vec![0xc0, 12];
    record.extend(kind.to_be_bytes());
    record.extend([0, 1]);
    record.extend(seconds.to_be_bytes());
    record.extend(u16::try_from(bytes.len()).unwrap_or_default().to_be_bytes());
    record.extend(bytes);
    record
}
