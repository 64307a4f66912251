//! The output of the access log: standard output, a file or a syslog server. Only the thread of the
//! log uses it.
//!
//! An output that cannot be opened is retried every second. Until then, lines go to standard
//! output, so that none is lost and the container's log has them. Lines that could not be written
//! are counted, and a partially written line is ended before the next one: a full disk leaves no
//! two lines joined in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::{ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use sluice_config::LogOutput;

use crate::variable::{HOSTNAME, clock};

/// Interval between two attempts to open the output.
const AGAIN: Duration = Duration::from_secs(1);
/// Maximum size of a syslog message in bytes, which must fit a datagram.
const LONGEST_MESSAGE: usize = 8 * 1024;

/// Reason why lines go to standard output instead of the configured output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFault {
    /// The configured output.
    pub place: String,
    /// The error of that output.
    pub reason: String,
}

/// The output of the log.
pub(super) struct Sink {
    standard: Box<dyn Write + Send>,
    wanted: LogOutput,
    place: Destination,
    /// Time of the next attempt to open the output, if the last one failed.
    again: Option<Instant>,
    /// Whether the last write ended within a line.
    torn: bool,
}

enum Destination {
    Standard,
    StandardError,
    File(File),
    Syslog { socket: UdpSocket, machine: String },
}

impl Sink {
    /// Creates a sink that writes to `standard` until [`turn_to`](Self::turn_to) selects another
    /// output, and whenever that output cannot be opened.
    pub(super) fn new(standard: impl Write + Send + 'static) -> Self {
        Self {
            standard: Box::new(standard),
            wanted: LogOutput::Standard,
            place: Destination::Standard,
            again: None,
            torn: false,
        }
    }

    /// Changes the output.
    ///
    /// # Errors
    /// The output cannot be opened; it will be retried.
    pub(super) fn turn_to(&mut self, wanted: LogOutput) -> Result<(), LogFault> {
        self.wanted = wanted;
        self.open()
    }

    /// Reopens the output, after log rotation renamed or removed the file.
    ///
    /// # Errors
    /// Same as [`turn_to`](Self::turn_to).
    pub(super) fn open(&mut self) -> Result<(), LogFault> {
        self.torn = false;
        let (place, result) = match Destination::open(&self.wanted) {
            Ok(place) => (place, Ok(())),
            Err(error) => (Destination::Standard, Err(LogFault::new(&self.wanted, &error))),
        };
        self.place = place;
        self.again = result.is_err().then(|| Instant::now() + AGAIN);
        result
    }

    /// Returns the time until the output must be reopened.
    pub(super) fn due(&self) -> Option<Duration> {
        self.again.map(|again| again.saturating_duration_since(Instant::now()))
    }

    /// Writes whole lines and returns how many of them were lost.
    pub(super) fn write(&mut self, lines: &[u8], count: u64) -> u64 {
        let written = match &mut self.place {
            Destination::Standard => put(&mut self.standard, lines, &mut self.torn),
            Destination::StandardError => put(&mut io::stderr(), lines, &mut self.torn),
            Destination::File(file) => put(file, lines, &mut self.torn),
            Destination::Syslog { socket, machine } => return send(socket, machine, lines),
        };
        match written == lines.len() {
            true => 0,
            // The format itself can contain newlines, so the number of lost lines is an estimate
            // between 1 and `count`.
            false => newlines(&lines[written..]).clamp(1, count.max(1)),
        }
    }
}

impl LogFault {
    fn new(wanted: &LogOutput, error: &io::Error) -> Self {
        let place = match wanted {
            LogOutput::Standard => "standard output".to_owned(),
            LogOutput::StandardError => "standard error".to_owned(),
            LogOutput::File(path) => path.to_string(),
            LogOutput::Syslog { host, port } => format!("{host}:{port}"),
        };
        Self { place, reason: error.to_string() }
    }
}

impl Destination {
    #[expect(clippy::disallowed_methods, reason = "the thread of the log; no request waits")]
    fn open(wanted: &LogOutput) -> io::Result<Self> {
        match wanted {
            LogOutput::Standard => Ok(Self::Standard),
            LogOutput::StandardError => Ok(Self::StandardError),
            LogOutput::File(path) => {
                OpenOptions::new().append(true).create(true).open(Path::new(&**path)).map(Self::File)
            }
            LogOutput::Syslog { host, port } => {
                let addresses = (&**host, *port).to_socket_addrs()?;
                let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
                for address in addresses {
                    let any: &str = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                    match UdpSocket::bind(any).and_then(|socket| socket.connect(address).map(|()| socket)) {
                        Ok(socket) => return Ok(Self::Syslog { socket, machine: HOSTNAME.clone() }),
                        Err(error) => last = error,
                    }
                }
                Err(last)
            }
        }
    }
}

/// Writes as many bytes as possible and returns their number.
fn put(to: &mut impl Write, lines: &[u8], torn: &mut bool) -> usize {
    if *torn && to.write_all(b"\n").is_err() {
        return 0;
    }
    *torn = false;
    let mut written = 0;
    while written < lines.len() {
        match to.write(&lines[written..]) {
            Ok(count @ 1..) => written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => {
                *torn = written > 0 && lines[written - 1] != b'\n';
                return written;
            }
        }
    }
    match to.flush() {
        Ok(()) => written,
        Err(_) => 0,
    }
}

/// Sends each line as a message with facility local7, severity info and a tag, as nginx does.
/// Returns the number of lost messages.
fn send(socket: &UdpSocket, machine: &str, lines: &[u8]) -> u64 {
    const PRIORITY: &[u8] = b"<190>";
    let mut lost = 0;
    let mut message = Vec::with_capacity(1024);
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        message.clear();
        message.extend_from_slice(PRIORITY);
        message.extend_from_slice(&clock::now().syslog);
        message.push(b' ');
        message.extend_from_slice(machine.as_bytes());
        message.extend_from_slice(b" nginx: ");
        message.extend_from_slice(&line[..line.len().min(LONGEST_MESSAGE)]);
        lost += u64::from(socket.send(&message).is_err());
    }
    lost
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Accepts a limited number of bytes.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut disk = self.0.lock().unwrap();
            let taken = bytes.len().min(disk.1);
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            disk.0.extend_from_slice(&bytes[..taken]);
            disk.1 -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_loses_lines_and_leaves_none_torn_in_the_middle() {
        let disk = Disk(Arc::new(Mutex::new((Vec::new(), 11))));
        let mut sink = Sink::new(disk.clone());
        assert_eq!(sink.write(b"one\ntwo\nthree\nfour\n", 4), 2);
        assert_eq!(sink.write(b"five\n", 1), 1);
        disk.0.lock().unwrap().1 = 100;
        assert_eq!(sink.write(b"six\n", 1), 0);
        assert_eq!(disk.0.lock().unwrap().0, b"one\ntwo\nthr\nsix\n");
    }

    #[test]
    fn a_file_is_appended_to_and_opened_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("access.log");
        let moved = folder.path().join("access.log.1");
        let standard = Disk(Arc::new(Mutex::new((Vec::new(), 100))));
        let mut sink = Sink::new(standard.clone());
        let file = LogOutput::File(path.to_str().unwrap().into());
        sink.turn_to(file.clone()).unwrap();
        sink.write(b"one\n", 1);
        fs::rename(&path, &moved).unwrap();
        sink.write(b"two\n", 1);
        sink.open().unwrap();
        sink.write(b"three\n", 1);
        assert_eq!(fs::read(&moved).unwrap(), b"one\ntwo\n");
        assert_eq!(fs::read(&path).unwrap(), b"three\n");
        // Lines go to standard output if the output cannot be opened.
        let nowhere = folder.path().join("none/access.log");
        let fault = sink.turn_to(LogOutput::File(nowhere.to_str().unwrap().into())).unwrap_err();
        assert!(fault.place.ends_with("none/access.log") && sink.due().is_some(), "{fault:?}");
        sink.write(b"four\n", 1);
        assert_eq!(standard.0.lock().unwrap().0, b"four\n");
        fs::create_dir(folder.path().join("none")).unwrap();
        sink.open().unwrap();
        assert!(sink.due().is_none());
        sink.write(b"five\n", 1);
        assert_eq!(fs::read(nowhere).unwrap(), b"five\n");
    }

    #[test]
    fn each_line_is_a_message_to_a_syslog_server() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let mut sink = Sink::new(io::sink());
        let port = server.local_addr().unwrap().port();
        sink.turn_to(LogOutput::Syslog { host: "127.0.0.1".into(), port }).unwrap();
        assert_eq!(sink.write(b"one\ntwo\n", 2), 0);
        for line in ["one", "two"] {
            let mut message = [0; 1024];
            let length = server.recv(&mut message).unwrap();
            let message = str::from_utf8(&message[..length]).unwrap();
            assert!(
                message.starts_with("<190>") && message.ends_with(&format!(" nginx: {line}")),
                "{message}"
            );
        }
    }
}
