//! Commands that observe a running gateway: `top`, `tap`, `trace-next`, `bundle` and `ui`, also as
//! the plugin, over two replicas.

mod plugin;

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use sluice_testing::program;

use crate::harness::gateway::run;
use crate::harness::manifest::service_with;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, Reply, await_until, config_map, get};

const HOST: &str = "shop.example";

/// Serves a host whose path `/broken` fails.
fn start() -> (Backend, Folder, Gateway) {
    let backend = Backend::with("shop", |request| match request.start.contains("/broken") {
        true => Reply::status(500),
        false => Reply::field("Set-Cookie", "id=hunter2"),
    });
    let objects = Ingress::new("shop").path(HOST, "/", "shop").path(HOST, "/broken", "shop").text()
        + &service_with("shop", &[&backend]);
    let folder = Folder::with(objects);
    let gateway = Gateway::with(&folder, &["--enable-metrics"]);
    (backend, folder, gateway)
}

/// A command that reads live requests.
struct Reader {
    child: Child,
    error: BufReader<std::process::ChildStderr>,
}

impl Reader {
    /// Runs a command and waits until it reads requests.
    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut reader = Self { error: BufReader::new(child.stderr.take().unwrap()), child };
        let mut line = String::new();
        reader.error.read_line(&mut line).unwrap();
        assert!(line.contains("reading requests") || line.contains("waiting for a request"), "{line}");
        reader
    }

    /// Waits for the end of the command, and returns its output.
    fn end(mut self) -> Output {
        let mut stderr = Vec::new();
        self.error.read_to_end(&mut stderr).unwrap();
        Output { stderr, ..self.child.wait_with_output().unwrap() }
    }
}

/// Starts a command of the program at a gateway.
fn read(gateway: &Gateway, words: &[&str]) -> Reader {
    let mut command = Command::new(program::find("sluice").unwrap());
    command.args(words).args(["--admin-address", &gateway.admin.to_string()]);
    Reader::start(command)
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs a command of the program at a gateway to its end.
fn run_at(gateway: &Gateway, words: &[&str]) -> Output {
    run(&[words, &["--admin-address", &gateway.admin.to_string()]].concat())
}

#[test]
fn top_prints_rules_by_their_traffic() {
    let (_backend, _folder, gateway) = start();
    let admin = gateway.admin.to_string();
    let mut command = Command::new(program::find("sluice").unwrap());
    command.args(["top", "-o", "json", "--all", "--interval", "1500ms", "--admin-address", &admin]);
    let top = command.stdout(Stdio::piped()).spawn().unwrap();
    // Requests before and after its first look: some are between its two looks.
    let mut top = Some(top);
    await_until("the end of top", || {
        assert_eq!(get(gateway.http, HOST, "/").status, 200);
        assert_eq!(get(gateway.http, HOST, "/broken").status, 500);
        top.as_mut().is_none_or(|top| top.try_wait().unwrap().is_some())
    });
    let output = top.take().unwrap().wait_with_output().unwrap();
    let figures: Value = serde_json::from_str(&text(&output)).unwrap();
    let rules = figures["rules"].as_array().unwrap();
    let rule = |path: &str| rules.iter().find(|rule| rule["path"] == path).unwrap();
    for path in ["/", "/broken"] {
        let rule = rule(path);
        assert_eq!((&rule["host"], &rule["ingress"]), (&HOST.into(), &"shop".into()));
        assert!(rule["requestsPerSecond"].as_f64().unwrap() > 0.0, "{figures:#}");
        assert!(rule["p50"].as_f64().is_some() && rule["p99"].as_f64().is_some(), "{figures:#}");
    }
    assert_eq!(rule("/")["serverErrors"], 0);
    assert_eq!(rule("/broken")["serverErrors"], rule("/broken")["requests"]);
    assert_eq!(figures["replicas"][0]["name"], "ingress-nginx/sluice-0");

    let table = text(&run_at(&gateway, &["top", "--all", "--interval", "500ms", "--sort", "errors"]));
    let heading = table.lines().nth(1).unwrap_or_default();
    assert!(heading.starts_with("HOST ") && heading.ends_with("P99"), "{table}");
    assert!(table.contains("Ingress default/shop"), "{table}");
}

#[test]
fn top_without_metrics_names_the_flag() {
    let gateway = Gateway::start(&Folder::with(""));
    let table = text(&run_at(&gateway, &["top", "--once", "--interval", "500ms"]));
    assert!(table.starts_with("1 replica, ") && table.contains("--enable-metrics"), "{table}");
}

#[test]
fn tap_prints_the_requests_that_are_wanted_without_secrets() {
    let (backend, _folder, gateway) = start();
    let reader = read(&gateway, &["tap", "--host", HOST, "--status", "5xx", "--count", "1"]);
    get(gateway.http, HOST, "/fine");
    get(gateway.http, "other.example", "/broken");
    get(gateway.http, HOST, "/broken");
    let line = text(&reader.end());
    let line = line.trim_end();
    assert!(line.contains(&format!(" 127.0.0.1 GET {HOST}/broken 500 ")), "{line}");
    assert!(line.ends_with(&format!(" {} (Ingress default/shop /broken)", backend.address)), "{line}");

    let reader = read(&gateway, &["tap", "--path", "/a", "--count", "2", "-o", "json"]);
    let fields = [("Authorization", "Bearer hunter2"), ("Cookie", "id=hunter2")];
    let mut connection = Connection::plain(gateway.http);
    connection.request("GET", HOST, "/a?page=1&access_token=hunter2", &fields, "");
    connection.request("POST", "nobody.example", "/a", &[], "");
    let lines = text(&reader.end());
    assert!(!lines.contains("hunter2"), "{lines}");
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["target"], "/a?page=1&access_token=(hidden)");
    assert_eq!((&lines[0]["status"], &lines[0]["rule"]["path"]), (&200.into(), &"/".into()));
    assert!(lines[0]["millis"].as_f64().unwrap() > 0.0 && lines[0]["attempts"] == 1);
    assert_eq!((&lines[1]["method"], &lines[1]["status"]), (&"POST".into(), &404.into()));
    assert!(lines[1]["rule"].is_null() && lines[1]["endpoint"].is_null());
}

#[test]
fn a_tap_ends_after_its_time_and_the_number_of_taps_is_limited() {
    let (_backend, _folder, gateway) = start();
    let ended = run_at(&gateway, &["tap", "--for", "1s"]);
    assert!(ended.status.success() && ended.stdout.is_empty());
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("the time is over within 1 s"), "{said}");

    let mut readers: Vec<Reader> = (0..4).map(|_| read(&gateway, &["tap", "--for", "1m"])).collect();
    let refused = run_at(&gateway, &["tap"]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(1) && said.contains("which is the limit"), "{said}");
    // A reader that goes makes room at once.
    let mut gone = readers.pop().unwrap();
    gone.child.kill().unwrap();
    gone.child.wait().unwrap();
    await_until("room for a reader", || run_at(&gateway, &["tap", "--for", "1s"]).status.success());
    for mut reader in readers {
        reader.child.kill().unwrap();
        reader.child.wait().unwrap();
    }
    for (flags, part) in [(["--status", "9"], "such as 5xx"), (["--client", "me"], "a network such as")] {
        let refused = run_at(&gateway, &[&["tap"][..], &flags].concat());
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(1) && said.contains(part), "{said}");
    }
}

/// A browser on the machine could otherwise read them.
#[test]
fn live_requests_can_only_be_read_from_this_machine() {
    let (_backend, _folder, gateway) = start();
    for path in ["/tap", "/trace-next"] {
        let ask = |method: &str, host: &str| {
            let fields = [("Connection", "close")];
            Connection::plain(gateway.admin).request(method, host, path, &fields, "").status
        };
        assert_eq!((ask("GET", "rebound.example"), ask("POST", "localhost")), (421, 405), "{path}");
        assert_eq!(get(gateway.healthz, "localhost", path).status, 404, "{path}");
    }
}

#[test]
fn trace_next_prints_every_step_of_a_request() {
    let backend = Backend::echo("shop");
    let objects = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("allowlist-source-range", "127.0.0.0/8")
        .annotation("limit-rps", "50")
        .text()
        + &Ingress::new("private")
            .path("private.example", "/", "shop")
            .annotation("allowlist-source-range", "192.0.2.0/24")
            .text()
        + &service_with("shop", &[&backend]);
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);

    let reader = read(&gateway, &["trace-next", "--host", HOST]);
    get(gateway.http, "private.example", "/");
    let fields = [("Authorization", "Bearer hunter2"), ("X-Own", "1")];
    Connection::plain(gateway.http).request("GET", HOST, "/cart?token=hunter2", &fields, "");
    let shown = text(&reader.end());
    assert!(!shown.contains("hunter2"), "{shown}");
    for part in [
        "\nGET http://shop.example/cart?token=(hidden)\n",
        "\n  authorization: (hidden)\n",
        "\ntaken by Ingress default/shop: Prefix /\n",
        "\n  x-real-ip: 127.0.0.1\n",
        "\nattempts, with times in ms:\n",
        "\nanswered with 200 after ",
        &format!("\n{} ", backend.address),
        " receives: GET /cart?token=(hidden)\n",
    ] {
        assert!(shown.to_lowercase().contains(&part.to_lowercase()), "{part}: {shown}");
    }
    let outcome = |name: &str, shown: &str| {
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line[name.len().min(line.len())..].trim_start().to_owned()
    };
    assert!(outcome("address lists", &shown).starts_with("passes  "), "{shown}");
    assert!(outcome("limits", &shown).starts_with("passes  "), "{shown}");

    let reader = read(&gateway, &["trace-next", "--status", "403", "-o", "json"]);
    get(gateway.http, HOST, "/");
    get(gateway.http, "private.example", "/");
    let traced: Value = serde_json::from_str(&text(&reader.end())).unwrap();
    let checks = traced["taken"]["checks"].as_array().unwrap();
    let outcome = |name: &str| &checks.iter().find(|check| check["check"] == name).unwrap()["outcome"];
    assert_eq!(outcome("address lists"), "stops here", "{traced:#}");
    assert_eq!((outcome("backend"), outcome("loop")), (&"passes".into(), &"not reached".into()));
    assert!(traced["taken"]["sent"].is_null() && traced["attemptDetails"].as_array().unwrap().is_empty());
    let none = run_at(&gateway, &["trace-next", "--for", "1s"]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(none.status.code() == Some(1) && said.contains("no such request ended within 1 s"), "{said}");
}

#[test]
fn trace_next_shows_the_fields_of_a_compressed_response() {
    let backend = Backend::with("shop", |_| {
        let fields = vec![("Content-Type".to_owned(), "text/html".to_owned())];
        Reply::Answer(200, fields, "x".repeat(1000))
    });
    let config = config_map("ingress-nginx/controller", &[("use-gzip", "true")]);
    let objects = Ingress::new("shop").path(HOST, "/", "shop").text() + &service_with("shop", &[&backend]);
    let folder = Folder::with(objects + &config);
    let gateway = Gateway::with(&folder, &["--configmap", "ingress-nginx/controller"]);
    let reader = read(&gateway, &["trace-next"]);
    Connection::plain(gateway.http).request("GET", HOST, "/", &[("Accept-Encoding", "gzip")], "");
    let shown = text(&reader.end()).to_lowercase();
    let (_, answer) = shown.split_once("\nanswered with 200 ").unwrap();
    for (field, is_shown) in [("content-encoding: gzip", true), ("vary: ", true), ("content-length", false)] {
        assert_eq!(answer.contains(&format!("\n  {field}")), is_shown, "{field}: {shown}");
    }
}

#[test]
fn trace_next_records_replies_of_services_and_failed_attempts() {
    let auth = Backend::with("auth", |_| Reply::field("X-User", "ann"));
    let backends = [502, 200].map(|status| Backend::with("shop", move |_| Reply::status(status)));
    let objects = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("auth-url", &format!("http://{}/check", auth.address))
        .annotation("auth-response-headers", "X-User")
        .annotation("proxy-next-upstream", "http_502")
        .text()
        + &service_with("shop", &backends.each_ref());
    let folder = Folder::with(objects);
    let gateway = Gateway::start(&folder);
    let trace = || {
        let reader = read(&gateway, &["trace-next", "-o", "json"]);
        assert_eq!(get(gateway.http, HOST, "/").status, 200);
        serde_json::from_str::<Value>(&text(&reader.end())).unwrap()
    };
    // One of two requests begins at the endpoint that fails.
    let statuses = |traced: &Value| {
        let attempts = traced["attemptDetails"].as_array().unwrap();
        attempts.iter().map(|attempt| attempt["status"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let traced = [trace(), trace()].into_iter().find(|traced| statuses(traced).len() == 2).unwrap();
    assert_eq!(statuses(&traced), [502, 200], "{traced:#}");
    let checks = traced["taken"]["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["check"] == "authorisation").unwrap();
    assert_eq!(check["outcome"], "passes", "{traced:#}");
    assert!(check["says"].as_str().unwrap().contains("the reply took"), "{traced:#}");
    assert!(traced["taken"]["sent"]["fields"].to_string().contains("ann"), "{traced:#}");
}

/// Returns the names and contents of the files of an archive.
fn files(path: &std::path::Path) -> Vec<(String, String)> {
    let archive = flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap());
    let mut archive = tar::Archive::new(archive);
    let read = |entry: std::io::Result<tar::Entry<'_, _>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        (name.split_once('/').unwrap().1.to_owned(), content)
    };
    archive.entries().unwrap().map(read).collect()
}

#[test]
fn a_bundle_holds_the_state_and_the_log_without_secrets() {
    use std::os::unix::fs::PermissionsExt;

    use crate::harness::manifest::{config_map, opaque_secret};

    let backend = Backend::echo("shop");
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("access.log").display().to_string();
    let objects = Ingress::new("shop")
        .path(HOST, "/", "shop")
        .annotation("auth-type", "basic")
        .annotation("auth-secret", "users")
        .text()
        + &Ingress::new("lost").path("lost.example", "/", "missing").text()
        + &service_with("shop", &[&backend])
        + &opaque_secret("users", &[("auth", "ann:{PLAIN}hunter2")])
        + &config_map(
            "default/settings",
            &[("access-log-path", &*log), ("ssl-session-ticket-key", "hunter2")],
        );
    let manifests = Folder::with(objects);
    let gateway = Gateway::with(&manifests, &["--configmap=default/settings"]);
    get(gateway.http, HOST, "/cart?token=hunter2");
    await_until("the log", || std::fs::read_to_string(&log).is_ok_and(|text| text.contains("/cart")));

    let path = folder.path().join("bundle.tar.gz");
    let said = text(&run_at(&gateway, &["bundle", "-o", path.to_str().unwrap()]));
    assert!(said.contains("9 documents"), "{said}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let files = files(&path);
    let file = |name: &str| &files.iter().find(|(other, _)| other == name).expect(name).1;
    for (name, part) in [
        ("gateway/generation.json", env!("CARGO_PKG_VERSION")),
        ("gateway/settings.json", "access-log-path"),
        ("gateway/problems.json", "missing"),
        ("gateway/routes.json", HOST),
        ("gateway/backends.json", "127.0.0.1"),
        ("gateway/certificates.json", "["),
        ("gateway/changes.json", "generation"),
        ("gateway/traffic.json", "rules"),
        ("gateway/metrics.txt", "process_resident_memory_bytes"),
        ("gateway/log.txt", "/cart?token=(hidden)"),
        ("versions.txt", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(file(name).contains(part), "{name}: {}", file(name));
    }
    for (name, content) in &files {
        assert!(!content.contains("hunter2") && !content.contains("PRIVATE KEY"), "{name}: {content}");
    }
    let nowhere = run_at(&gateway, &["bundle", "-o", "/nowhere/b.tar.gz"]);
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("name another file with -o"));
}

#[test]
fn a_bundle_for_standard_output_became_a_file_with_the_name_of_a_dash() {
    let gateway = Gateway::start(&Folder::with(""));
    let folder = tempfile::tempdir().unwrap();
    let admin = gateway.admin.to_string();
    let bundle = |admin: &str| {
        let mut command = Command::new(program::find("sluice").unwrap());
        command.current_dir(&folder).args(["bundle", "-o", "-", "--admin-address", admin]).output().unwrap()
    };
    let output = bundle(&admin);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("9 documents"), "{said}");
    let path = folder.path().join("b.tar.gz");
    std::fs::write(&path, &output.stdout).unwrap();
    assert!(files(&path).iter().any(|(name, _)| name == "gateway/generation.json"));
    let free = sluice_testing::ports::addresses::<1>()[0].to_string();
    let failed = bundle(&free);
    assert_eq!((failed.status.code(), &*failed.stdout), (Some(1), &b""[..]), "nothing that looks complete");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn ui_prints_the_address_of_the_page() {
    let gateway = Gateway::start(&Folder::with(""));
    let said = text(&run_at(&gateway, &["ui"]));
    assert_eq!(said, format!("http://{}/ui/\n", gateway.admin));
    drop(gateway);
    let free = sluice_testing::ports::addresses::<1>()[0].to_string();
    assert_eq!(run(&["ui", "--admin-address", &free]).status.code(), Some(1));
}
