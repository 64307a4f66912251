//! The real program as a child process. [`Gateway::start`] and similar functions are for tests:
//! they serve a folder and record all output. [`Gateway::launch`] is for programs that provide the
//! command themselves.

use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, fs};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::client::{Connection, Response};
use crate::epoll::{self, TcpState};
use crate::folder::Folder;
use crate::memory;
use crate::ports;
use crate::program;
use crate::wait::{START_PATIENCE, await_some, pause};

/// Maximum number of attempts to start if another process takes a port in between.
const STARTS: usize = 3;

/// The addresses of a gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Plain HTTP.
    pub http: SocketAddr,
    /// TLS.
    pub https: SocketAddr,
    /// `/healthz`, `/livez` and `/metrics`.
    pub healthz: SocketAddr,
    /// Introspection.
    pub admin: SocketAddr,
}

/// Source of a gateway's objects.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// A folder of manifests.
    Manifests(&'a Path),
    /// The API of a cluster.
    Kubeconfig(&'a Path),
}

/// Reason why a gateway did not become ready, with its log.
#[derive(Debug)]
pub struct NotReady {
    /// Whether another process uses one of its ports.
    pub port_taken: bool,
    message: String,
}

/// Output of a process, collected by a thread that ends with the stream.
#[derive(Debug, Default)]
struct Log {
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
}

/// A running gateway. It is killed on drop if it still runs.
#[derive(Debug)]
pub struct Gateway {
    /// Plain HTTP.
    pub http: SocketAddr,
    /// TLS.
    pub https: SocketAddr,
    /// `/healthz`, `/livez` and `/metrics`.
    pub healthz: SocketAddr,
    /// Introspection.
    pub admin: SocketAddr,
    /// Time from the start until it was ready.
    pub start: Duration,
    child: Child,
    access_log: Log,
    program_log: Log,
    /// The folder must exist for as long as the process watches it.
    _folder: Option<Folder>,
}

impl Addresses {
    /// Reserves four free ports of 127.0.0.1.
    ///
    /// # Panics
    /// There are not enough free ports.
    pub fn reserve() -> Self {
        let [http, https, healthz, admin] = ports::addresses();
        Self { http, https, healthz, admin }
    }

    /// Returns the flags for these addresses.
    pub fn flags(&self) -> [String; 4] {
        [
            format!("--http-port={}", self.http.port()),
            format!("--https-port={}", self.https.port()),
            format!("--healthz-port={}", self.healthz.port()),
            format!("--admin-address={}", self.admin),
        ]
    }
}

/// Configures a program to serve a source, with both logs captured and without settings from the
/// environment.
pub fn serve(mut program: Command, source: Source<'_>, addresses: &Addresses) -> Command {
    let (flag, path) = match source {
        Source::Manifests(folder) => ("--manifests", folder),
        Source::Kubeconfig(file) => ("--kubeconfig", file),
    };
    program
        .args(["serve", flag])
        .arg(path)
        .args(addresses.flags())
        .env_remove("RUST_LOG")
        // As in the image: memory that is free for 10 ms is returned to the system.
        .env("MIMALLOC_PURGE_DELAY", "10")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    program
}

impl Gateway {
    /// Serves a folder and waits until the gateway is ready.
    #[track_caller]
    pub fn start(folder: &Folder) -> Self {
        Self::with(folder, &[])
    }

    /// Serves a folder with additional flags and waits until the gateway is ready.
    #[track_caller]
    pub fn with(folder: &Folder, flags: &[&str]) -> Self {
        Self::starts(folder, flags, Stdio::piped, || Command::new(program()))
    }

    /// Serves a folder with another standard error, which is not recorded, and waits until the
    /// gateway is ready.
    #[track_caller]
    pub fn with_standard_error(folder: &Folder, stderr: impl Fn() -> Stdio) -> Self {
        Self::starts(folder, &[], stderr, || Command::new(program()))
    }

    /// Serves a folder with an additional environment variable and waits until the gateway is
    /// ready.
    #[track_caller]
    pub fn with_environment(folder: &Folder, name: &str, value: &str) -> Self {
        Self::starts(folder, &[], Stdio::piped, || {
            let mut command = Command::new(program());
            command.env(name, value);
            command
        })
    }

    /// Serves a folder with a limit of open files and waits until the gateway is ready.
    #[track_caller]
    pub fn with_descriptors(folder: &Folder, limit: usize) -> Self {
        Self::starts(folder, &[], Stdio::piped, || {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\"")).arg(program());
            command
        })
    }

    #[track_caller]
    fn starts(
        folder: &Folder,
        flags: &[&str],
        stderr: impl Fn() -> Stdio,
        program: impl Fn() -> Command,
    ) -> Self {
        let health = flags.iter().skip_while(|flag| **flag != "--health-check-path").nth(1);
        for _ in 0..STARTS {
            let addresses = Addresses::reserve();
            let mut command = serve(program(), Source::Manifests(folder.path()), &addresses);
            command
                .args(driver())
                .args(flags)
                .stderr(stderr())
                .env("POD_NAME", "sluice-0")
                .env("POD_NAMESPACE", "ingress-nginx")
                .env("NODE_NAME", "node-1");
            let mut gateway = Self::spawn(command, addresses, Some(folder)).unwrap();
            match gateway.await_ready(health.unwrap_or(&"/healthz"), START_PATIENCE) {
                Ok(()) => return gateway,
                Err(error) if error.port_taken => {}
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no start in {STARTS} found its ports free");
    }

    /// Serves a folder with exactly these flags, without waiting. Only its health address is
    /// available.
    pub fn unready(folder: &Folder, flags: &[String], healthz: SocketAddr) -> Self {
        let mut command = Command::new(program());
        command.arg("--manifests").arg(folder.path()).args(flags).env_remove("RUST_LOG");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let none = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let addresses = Addresses { http: none, https: none, healthz, admin: none };
        Self::spawn(command, addresses, Some(folder)).unwrap()
    }

    /// Runs a command that serves on these addresses, and waits until it is ready. Its output is
    /// recorded if the command pipes it, as [`serve`] does.
    ///
    /// # Errors
    /// The command cannot be started, ends, or is not ready in time. The error contains its log.
    pub fn launch(command: Command, addresses: Addresses, patience: Duration) -> Result<Self, NotReady> {
        let mut gateway = Self::spawn(command, addresses, None)
            .map_err(|error| NotReady { port_taken: false, message: error.to_string() })?;
        gateway.await_ready("/healthz", patience)?;
        Ok(gateway)
    }

    fn spawn(mut command: Command, addresses: Addresses, folder: Option<&Folder>) -> io::Result<Self> {
        let program = command.get_program().display().to_string();
        let mut child = command
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("cannot start {program}: {error}")))?;
        let access_log = child.stdout.take().map(Log::of).unwrap_or_default();
        let program_log = child.stderr.take().map(Log::of).unwrap_or_default();
        let Addresses { http, https, healthz, admin } = addresses;
        let (start, folder) = (Duration::ZERO, folder.cloned());
        Ok(Self { http, https, healthz, admin, start, child, access_log, program_log, _folder: folder })
    }

    fn await_ready(&mut self, path: &str, patience: Duration) -> Result<(), NotReady> {
        let started = Instant::now();
        while self.probe(path).map(|response| response.status) != Some(200) {
            let ended = self.child.try_wait().unwrap_or_default();
            if ended.is_some() || started.elapsed() > patience {
                if ended.is_some() {
                    self.program_log.await_end();
                }
                let log = self.program_log().join("\n");
                let message = match ended {
                    Some(status) => format!("the gateway ended with {status}:\n{log}"),
                    None => format!("the gateway is not ready after {patience:?}:\n{log}"),
                };
                return Err(NotReady { port_taken: log.contains("already in use"), message });
            }
            pause();
        }
        self.start = started.elapsed();
        Ok(())
    }

    /// Returns the status of `/healthz`; `None` without a response.
    pub fn health(&self) -> Option<u16> {
        self.probe("/healthz").map(|response| response.status)
    }

    /// Requests a path of the health listener; returns `None` without a response.
    pub fn probe(&self, path: &str) -> Option<Response> {
        let mut connection = Connection::try_plain(self.healthz).ok()?;
        connection.try_request("GET", "probe", path, &[("Connection", "close")], "").ok()?
    }

    /// Returns the metrics page.
    #[track_caller]
    pub fn metrics(&self) -> String {
        self.probe("/metrics").expect("no metrics").text()
    }

    /// Returns the value of a series, given as on the metrics page.
    ///
    /// # Panics
    /// There is no such series, or its value is not a number without a fraction.
    #[track_caller]
    pub fn metric(&self, series: &str) -> u64 {
        let metrics = self.metrics();
        let value = metrics.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {series}")).parse().unwrap()
    }

    /// Returns the generation of the current configuration, which increases with each change.
    pub fn generation(&self) -> u64 {
        self.metric("sluice_generation")
    }

    /// Requests a path of the admin listener.
    #[track_caller]
    pub fn ask(&self, path: &str) -> Response {
        Connection::plain(self.admin).request(
            "GET",
            &self.admin.to_string(),
            path,
            &[("Connection", "close")],
            "",
        )
    }

    /// Returns the problems, one line each: `Kind namespace/name: field: message; remedy`.
    #[track_caller]
    pub fn problems(&self) -> String {
        let answer = self.ask("/problems").json();
        let problems = answer.as_array().expect("an array of problems").iter();
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let line = |problem: &serde_json::Value| {
            let [kind, namespace, name] =
                ["kind", "namespace", "name"].map(|part| text(&problem["object"][part]));
            let [field, message, remedy] = ["field", "message", "remedy"].map(|part| text(&problem[part]));
            format!("{kind} {namespace}/{name}: {field}: {message}; {remedy}\n")
        };
        problems.map(line).collect()
    }

    /// Returns the lines of the access log so far.
    pub fn access_log(&self) -> Vec<String> {
        self.access_log.lines()
    }

    /// Returns the lines of the program log so far.
    pub fn program_log(&self) -> Vec<String> {
        self.program_log.lines()
    }

    /// Waits for a line of the access log that contains `text`, and returns the first one.
    #[track_caller]
    pub fn await_access(&self, text: &str) -> String {
        await_some(&format!("an access log line with {text:?}"), || {
            self.access_log().into_iter().find(|line| line.contains(text))
        })
    }

    /// Returns the CPU time of all threads so far.
    ///
    /// # Panics
    /// The system is not Linux.
    pub fn cpu_time(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // After the name in brackets, user time is the 12th field and system time the 13th, in
        // hundredths of a second.
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Returns how many sockets of a local address each of the process's epoll instances watches.
    ///
    /// # Panics
    /// The system is not Linux.
    pub fn watched(&self, local: SocketAddr, state: TcpState) -> Vec<usize> {
        epoll::watched(self.child.id(), local, state)
    }

    /// Returns the resident memory in bytes.
    ///
    /// # Errors
    /// The process has ended, or the system is not Linux.
    pub fn resident(&self) -> io::Result<u64> {
        memory::resident(self.child.id())
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Sends SIGHUP.
    pub fn hang_up(&self) {
        self.signal(Signal::HUP);
    }

    /// Suspends the process (SIGSTOP) and waits until all its threads have stopped: what is sent to
    /// it waits in the kernel.
    ///
    /// # Panics
    /// The process has ended.
    pub fn suspend(&self) {
        suspend(&self.child);
    }

    /// Continues the suspended process (SIGCONT).
    pub fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// Signals that its log files have been renamed (SIGUSR1).
    pub fn rotate_logs(&self) {
        self.signal(Signal::USR1);
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns whether the process is running.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of the process and returns its status.
    #[track_caller]
    pub fn await_exit(&mut self) -> ExitStatus {
        await_some("the end of the gateway", || self.child.try_wait().unwrap())
    }

    /// Returns the last lines of the program log.
    pub fn log(&self) -> String {
        let lines = self.program_log();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    /// Terminates the gateway as Kubernetes does, and waits for its end.
    ///
    /// # Errors
    /// The gateway does not end in time or fails. The error contains the last lines of its log.
    pub fn stop(mut self, patience: Duration) -> io::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let asked = Instant::now();
        loop {
            let outcome = match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => format!("ended with {status}"),
                None if asked.elapsed() > patience => format!("does not end within {patience:?}"),
                None => {
                    pause();
                    continue;
                }
            };
            return Err(io::Error::other(format!("the gateway {outcome}:\n{}", self.log())));
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("program log:\n{}", self.program_log().join("\n"));
            eprintln!("access log:\n{}", self.access_log().join("\n"));
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for NotReady {}

/// Returns the flags for the engine that the environment selects. `make test` runs all tests whose
/// requests reach an engine with each of them.
fn driver() -> Vec<String> {
    let driver = std::env::var("SLUICE_DRIVER").ok();
    driver.map(|driver| vec!["--driver".into(), driver]).unwrap_or_default()
}

/// Returns the path of the program under test.
fn program() -> PathBuf {
    program::find("sluice").unwrap()
}

/// Runs the program to its end.
pub fn run(words: &[&str]) -> Output {
    run_with_standard_error(words, Stdio::piped())
}

/// Runs the program to its end with another standard error.
pub fn run_with_standard_error(words: &[&str], stderr: Stdio) -> Output {
    Command::new(program()).args(words).env_remove("RUST_LOG").stderr(stderr).output().unwrap()
}

impl Log {
    fn of(stream: impl Read + Send + 'static) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let copy = lines.clone();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                copy.lock().unwrap().push(line);
            }
        });
        Self { lines, reader: Some(reader) }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    /// Waits for the last line of a process that has ended.
    fn await_end(&mut self) {
        // A reader that has panicked reads no more lines.
        let _ = self.reader.take().map(JoinHandle::join);
    }
}

/// Suspends a child process (SIGSTOP) and waits until all its threads have stopped. It must run.
///
/// # Panics
/// The process has ended.
pub fn suspend(child: &Child) {
    let pid = Pid::from_child(child);
    kill_process(pid, Signal::STOP).unwrap();
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped(), "{status:?}");
}
