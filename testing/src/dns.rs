//! A DNS server with the records that a test gives it, over UDP.
//!
//! Its messages are put together by hand: of RFC 1035 a question and the answer to it are all that it needs.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

/// Types of records.
const A: u16 = 1;
const AAAA: u16 = 28;

/// What the server does with questions for a name.
#[derive(Clone, Debug)]
enum Answer {
    /// These addresses hold for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// The server has failed: SERVFAIL.
    Failed,
    /// Nothing.
    Silence,
}

/// A running server; ends with the test.
pub struct DnsServer {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
    folder: TempDir,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<BTreeMap<String, Answer>>,
    /// Names that were asked for, with the type of the record.
    asked: Mutex<Vec<(String, u16)>>,
    stopping: AtomicBool,
}

impl DnsServer {
    /// One that knows no name: to every question it says that there is no such name.
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

    /// From now on the name (without a dot at its end) has these addresses, for so many seconds each time it is asked for.
    pub fn set(&self, name: &str, addresses: &[IpAddr], seconds: u32) {
        self.answer(name, Answer::Addresses(addresses.to_vec(), seconds));
    }

    /// From now on there is no such name.
    pub fn remove(&self, name: &str) {
        self.shared.answers.lock().unwrap().remove(name);
    }

    /// From now on a question for the name is a failure of the server.
    pub fn fail(&self, name: &str) {
        self.answer(name, Answer::Failed);
    }

    /// From now on a question for the name is not answered.
    pub fn silence(&self, name: &str) {
        self.answer(name, Answer::Silence);
    }

    fn answer(&self, name: &str, answer: Answer) {
        self.shared.answers.lock().unwrap().insert(name.to_owned(), answer);
    }

    /// How often the addresses of this name were asked for.
    pub fn asked(&self, name: &str) -> usize {
        self.shared.asked.lock().unwrap().iter().filter(|(asked, kind)| asked == name && *kind == A).count()
    }

    /// A resolv.conf that names this server, followed by these lines.
    ///
    /// # Panics
    /// It cannot be written.
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
        // An answer, to a question that wished for recursion, which is available.
        let mut reply = [&query[..2], &[0x81, 0x80 | code, 0, 1]].concat();
        reply.extend(u16::try_from(records.len()).ok()?.to_be_bytes());
        reply.extend([0; 4]);
        reply.extend(question);
        reply.extend(records.concat());
        Some(reply)
    }
}

/// The name at `at`, without a dot at its end, and where it ends.
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

/// An address of the name that the question has.
fn record(address: IpAddr, seconds: u32) -> Vec<u8> {
    let (kind, bytes) = match address {
        IpAddr::V4(ip) => (A, ip.octets().to_vec()),
        IpAddr::V6(ip) => (AAAA, ip.octets().to_vec()),
    };
    // A pointer to the question; its class is IN.
    let mut record = vec![0xc0, 12];
    record.extend(kind.to_be_bytes());
    record.extend([0, 1]);
    record.extend(seconds.to_be_bytes());
    record.extend(u16::try_from(bytes.len()).unwrap_or_default().to_be_bytes());
    record.extend(bytes);
    record
}
