//! The real program as a child process.

use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::client::{Connection, Response};
use crate::folder::Folder;
use crate::wait::{PATIENCE, await_some, pause};
use crate::{ports, program};

/// How often a start is tried again when somebody else took a port in between.
const STARTS: usize = 3;

type Lines = Arc<Mutex<Vec<String>>>;

/// A running gateway; killed at the end of the test if it still runs.
pub struct Gateway {
    /// Plain HTTP.
    pub http: SocketAddr,
    /// TLS.
    pub https: SocketAddr,
    /// `/healthz`, `/livez` and `/metrics`.
    pub healthz: SocketAddr,
    /// Introspection.
    pub admin: SocketAddr,
    child: Child,
    access_log: Lines,
    program_log: Lines,
    /// Outlives the process that watches it.
    _folder: Folder,
}

impl Gateway {
    /// Serves a folder, and is ready.
    #[track_caller]
    pub fn start(folder: &Folder) -> Self {
        Self::with(folder, &[])
    }

    /// Serves a folder with more flags, and is ready.
    #[track_caller]
    pub fn with(folder: &Folder, flags: &[&str]) -> Self {
        Self::starts(folder, flags, || Command::new(program()))
    }

    /// Serves a folder with an environment variable more, and is ready.
    #[track_caller]
    pub fn with_environment(folder: &Folder, name: &str, value: &str) -> Self {
        Self::starts(folder, &[], || {
            let mut command = Command::new(program());
            command.env(name, value);
            command
        })
    }

    /// Serves a folder with so many open files, and is ready.
    #[track_caller]
    pub fn with_descriptors(folder: &Folder, limit: usize) -> Self {
        Self::starts(folder, &[], || {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("ulimit -n {limit} && exec \"$0\" \"$@\"")).arg(program());
            command
        })
    }

    #[track_caller]
    fn starts(folder: &Folder, flags: &[&str], program: impl Fn() -> Command) -> Self {
        for _ in 0..STARTS {
            if let Some(gateway) = Self::try_start(folder, flags, program()) {
                return gateway;
            }
        }
        panic!("no start in {STARTS} found its ports free");
    }

    /// `None` when a port was taken meanwhile.
    #[track_caller]
    fn try_start(folder: &Folder, flags: &[&str], mut program: Command) -> Option<Self> {
        let [http, https, healthz, admin] =
            [(); 4].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, ports::reserve())));
        let mut child = program
            .arg("serve")
            .arg("--manifests")
            .arg(folder.path())
            .args(["--http-port", &http.port().to_string()])
            .args(["--https-port", &https.port().to_string()])
            .args(["--healthz-port", &healthz.port().to_string()])
            .args(["--admin-address", &admin.to_string()])
            .args(driver())
            .args(flags)
            .env_remove("RUST_LOG")
            .env("POD_NAME", "sluice-0")
            .env("POD_NAMESPACE", "ingress-nginx")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let access_log = collect(child.stdout.take().unwrap());
        let program_log = collect(child.stderr.take().unwrap());
        let mut gateway =
            Self { http, https, healthz, admin, child, access_log, program_log, _folder: folder.clone() };
        let deadline = Instant::now() + PATIENCE;
        let path =
            flags.iter().skip_while(|flag| **flag != "--health-check-path").nth(1).unwrap_or(&"/healthz");
        while gateway.probe(path).map(|response| response.status) != Some(200) {
            if let Some(status) = gateway.child.try_wait().unwrap() {
                let log = gateway.program_log().join("\n");
                assert!(log.contains("already in use"), "the gateway ended with {status}:\n{log}");
                return None;
            }
            assert!(Instant::now() < deadline, "not ready: {}", gateway.program_log().join("\n"));
            pause();
        }
        Some(gateway)
    }

    /// Serves a folder with these flags and no others. Its only address is that of health.
    pub fn unready(folder: &Folder, flags: &[String], healthz: SocketAddr) -> Self {
        let mut command = Command::new(program());
        command.arg("--manifests").arg(folder.path()).args(flags).env_remove("RUST_LOG");
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let access_log = collect(child.stdout.take().unwrap());
        let program_log = collect(child.stderr.take().unwrap());
        let none = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (http, https, admin) = (none, none, none);
        Self { http, https, healthz, admin, child, access_log, program_log, _folder: folder.clone() }
    }

    /// Status of `/healthz`; `None` when nobody answers.
    pub fn health(&self) -> Option<u16> {
        self.probe("/healthz").map(|response| response.status)
    }

    /// A path of the health listener; `None` when nobody answers.
    pub fn probe(&self, path: &str) -> Option<Response> {
        let mut connection = Connection::try_plain(self.healthz).ok()?;
        connection.try_request("GET", "probe", path, &[("Connection", "close")], "").ok()?
    }

    /// The metrics.
    #[track_caller]
    pub fn metrics(&self) -> String {
        self.probe("/metrics").expect("no metrics").text()
    }

    /// A path of the admin listener.
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

    /// The problems, one line each: `Kind namespace/name: field: message; remedy`.
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

    /// Lines of the access log so far.
    pub fn access_log(&self) -> Vec<String> {
        self.access_log.lock().unwrap().clone()
    }

    /// Lines of the program log so far.
    pub fn program_log(&self) -> Vec<String> {
        self.program_log.lock().unwrap().clone()
    }

    /// The first line of the access log that contains this text, once it is there.
    #[track_caller]
    pub fn await_access(&self, text: &str) -> String {
        await_some(&format!("an access log line with {text:?}"), || {
            self.access_log().into_iter().find(|line| line.contains(text))
        })
    }

    /// CPU time that it has used.
    pub fn cpu_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // After the name in brackets: user time is the 12th field, system time the 13th, in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Whether the process still runs.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// How it ended, once it has.
    #[track_caller]
    pub fn await_exit(&mut self) -> ExitStatus {
        await_some("the end of the gateway", || self.child.try_wait().unwrap())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("program log:\n{}", self.program_log().join("\n"));
            eprintln!("access log:\n{}", self.access_log().join("\n"));
        }
    }
}

/// The driver that the environment asks for: every test holds for each, and `make test` runs them all with both.
fn driver() -> Vec<String> {
    let driver = std::env::var("SLUICE_DRIVER").ok();
    driver.map(|driver| vec!["--driver".into(), driver]).unwrap_or_default()
}

/// The program under test.
fn program() -> PathBuf {
    program::find("sluice").unwrap()
}

/// Runs the program to its end.
pub fn run(words: &[&str]) -> Output {
    Command::new(program()).args(words).env_remove("RUST_LOG").output().unwrap()
}

/// Gathers lines on a thread that ends with the stream.
fn collect(stream: impl Read + Send + 'static) -> Lines {
    let lines = Lines::default();
    let copy = lines.clone();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            copy.lock().unwrap().push(line);
        }
    });
    lines
}
