//! All supported keys of the ConfigMap, changed one after another under load: no change fails a
//! request.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};

use sluice_controller::translate::global_settings::{SettingsBuilder, TABLE};
use sluice_controller::translate::setting::{Setting, Support};

use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gateway, Ingress, TestCertificate, await_until, config_map, pause,
};

const HOST: &str = "shop.example";
const NAME: &str = "ingress-nginx/controller";

/// Values of keys that need a special one: it must not affect the load, or has a format of its own.
const VALUES: &[(&str, &str)] = &[
    ("modsecurity-snippet", "SecRuleEngine DetectionOnly"),
    ("global-auth-cache-duration", "200 5m"),
    ("global-auth-signin", "http://signin.example/start"),
    ("whitelist-source-range", "127.0.0.0/8,::1/128"),
    ("denylist-source-range", "192.0.2.0/24"),
    ("block-cidrs", "192.0.2.0/24"),
    ("block-user-agents", "BadBot/1.0"),
    ("block-referers", "~evil"),
    ("gzip-disable", "no-such-agent"),
    ("custom-http-errors", "418"),
    ("proxy-real-ip-cidr", "10.0.0.0/8"),
    ("large-client-header-buffers", "8 16k"),
    ("body-memory-budget", "64m"),
    ("max-worker-connections", "1000"),
    ("worker-processes", "1"),
    ("limit-rate", "1048576"),
    ("bind-address", "127.0.0.1"),
    ("annotation-value-word-blocklist", "no-such-word"),
    ("proxy-next-upstream", "error"),
    ("log-format-upstream", "$status $request_uri"),
    ("access-log-filter-status", "5xx,404"),
    ("access-log-filter-min-duration", "500ms"),
    ("access-log-sample", "50%"),
    ("otlp-collector-host", "127.0.0.1:9"),
    ("otel-sampler-ratio", "0.5"),
    ("syslog-host", "127.0.0.1"),
    ("ssl-protocols", "TLSv1.3"),
    ("ssl-ciphers", "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256"),
    ("ssl-ecdh-curve", "X25519:P-256"),
    ("ssl-session-ticket-key", TICKET_KEY),
    ("hide-headers", "X-Hidden"),
    ("proxy-cookie-path", "/one /two"),
    ("proxy-cookie-domain", "one.example two.example"),
    ("proxy-redirect-from", "http://one.example/"),
    ("proxy-redirect-to", "http://two.example/"),
    ("add-headers", "default/fields"),
    ("proxy-set-headers", "default/fields"),
    ("global-auth-snippet", "proxy_set_header X-From gateway;"),
    ("server-snippet", "more_set_headers \"X-From: the server\";"),
    ("location-snippet", "more_set_headers \"X-From: the location\";"),
];

/// 48 bytes in base64.
const TICKET_KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYwMTIzNDU2Nzg5YWJjZGVm";

/// Keys that the load would have to support, with the test that changes them under load.
const ELSEWHERE: &[(&str, &str)] = &[
    ("http-snippet", "e2e_snippets: it opens a port"),
    ("global-auth-url", "e2e_external_auth: it needs a service that answers"),
    ("use-proxy-protocol", "e2e_proxy_protocol: clients have to speak it"),
];

/// Returns a value other than the default, according to the type of the key.
fn other(key: &Setting<SettingsBuilder>, logs: &Folder) -> Option<String> {
    if let Some((_, value)) = VALUES.iter().find(|(name, _)| *name == key.name) {
        return Some((*value).to_owned());
    }
    let number = || key.default.trim_end_matches(|c: char| !c.is_ascii_digit()).parse::<u64>();
    let words = &*key.words;
    Some(match words {
        "true or false" => (key.default != "true").to_string(),
        "on or off" => (if key.default == "on" { "off" } else { "on" }).to_owned(),
        _ if words.starts_with("an integer from") || words.starts_with("whole seconds") => {
            let mut range =
                words.split(' ').filter_map(|word| word.trim_end_matches(',').parse::<u64>().ok());
            let last = range.next_back()?;
            let default = number().unwrap_or(1);
            (if default < last { default + 1 } else { default - 1 }).to_string()
        }
        _ if words.starts_with("bytes") => format!("{}m", number().unwrap_or(1) + 1),
        _ if words.starts_with("a time") => "77s".to_owned(),
        _ if words.starts_with("one of ") => {
            let options = words["one of ".len()..].split(", ");
            options.filter(|option| !option.eq_ignore_ascii_case(key.default)).last()?.to_owned()
        }
        _ if words.starts_with("an absolute path") => logs.file(key.name).to_str()?.to_owned(),
        _ if words.contains("media types") => "text/css".to_owned(),
        _ if words.contains("header name") || words.contains("name of a header field") => {
            "X-Other".to_owned()
        }
        _ if words.contains("networks") || words.contains("addresses") => "127.0.0.1".to_owned(),
        _ if words.starts_with("comma-separated list") => "no-such-thing".to_owned(),
        _ if words.starts_with("text") || words.starts_with("a name") => "other".to_owned(),
        _ => return None,
    })
}

/// Clients that send requests sequentially and count the successful responses.
struct Load {
    stop: Arc<AtomicBool>,
    served: Vec<Arc<AtomicUsize>>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(gateway: &Gateway) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let (http, https) = (gateway.http, gateway.https);
        let kinds = [(http, false, ""), (https, true, ""), (https, true, "some content of a request")];
        let (served, clients) = kinds
            .into_iter()
            .map(|(address, tls, body)| {
                let served = Arc::<AtomicUsize>::default();
                let (stop, count) = (stop.clone(), served.clone());
                (served, thread::spawn(move || client(address, tls, body, &stop, &count)))
            })
            .unzip();
        Self { stop, served, clients }
    }

    /// Waits until each client has received `more` further responses.
    fn await_answers(&self, more: usize) {
        let before: Vec<usize> = self.served.iter().map(|count| count.load(SeqCst)).collect();
        await_until("more answers", || {
            self.clients.iter().all(|client| !client.is_finished())
                && self.served.iter().zip(&before).all(|(count, before)| count.load(SeqCst) >= before + more)
        });
    }

    fn finish(self) -> usize {
        self.stop.store(true, SeqCst);
        self.clients.into_iter().for_each(|client| client.join().expect("every request is answered well"));
        self.served.iter().map(|count| count.load(SeqCst)).sum()
    }
}

fn client(address: SocketAddr, tls: bool, body: &str, stop: &AtomicBool, served: &AtomicUsize) {
    let connect = || if tls { Connection::tls(address, HOST) } else { Connection::plain(address) };
    let mut connection = connect();
    while !stop.load(SeqCst) {
        let method = if body.is_empty() { "GET" } else { "POST" };
        let answer = connection.request(method, HOST, "/", &[("Accept-Encoding", "gzip, br, zstd")], body);
        assert!(answer.status < 400, "{} after {} answers", answer.status_line(), served.load(SeqCst));
        served.fetch_add(1, SeqCst);
        if answer.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close")) {
            connection = connect();
        }
        pause();
    }
}

#[test]
fn every_key_changes_live_and_fails_no_request() {
    let backends = [Backend::echo("one"), Backend::echo("two")];
    let certificate = TestCertificate::new(&[HOST]);
    let ingress = Ingress::new("shop").path(HOST, "/", "shop").tls(&[HOST], "tls");
    let services = service_with("shop", &[&backends[0], &backends[1]]);
    let fields = config_map("default/fields", &[("X-From", "the ConfigMap")]);
    let folder = Folder::with(ingress.text() + &services + &certificate.secret("tls") + &fields);
    folder.write("config.yaml", config_map(NAME, &[]));
    let logs = Folder::empty();
    let gateway = Gateway::with(&folder, &["--configmap", NAME]);
    let load = Load::start(&gateway);
    let mut changed = 0;
    for key in TABLE.entries().filter(|key| key.support == Support::Served) {
        if ELSEWHERE.iter().any(|(name, _)| *name == key.name) {
            continue;
        }
        let value = other(key, &logs);
        let value = value.unwrap_or_else(|| panic!("give {} ({}) a value in VALUES", key.name, key.words));
        let before = gateway.generation();
        // A second key ensures a change even if the first one has no effect of its own.
        let mark = if changed % 2 == 0 { "61" } else { "62" };
        let mut keys = vec![(key.name, &*value)];
        if key.name != "upstream-keepalive-timeout" {
            keys.push(("upstream-keepalive-timeout", mark));
        }
        folder.write("config.yaml", config_map(NAME, &keys));
        await_until(key.name, || gateway.generation() > before);
        let field = format!("data[{}]", key.name);
        let needs_another = [
            "bind-address",
            "enable-syslog",
            "limit-across-replicas",
            "enable-modsecurity",
            "enable-owasp-modsecurity-crs",
            "modsecurity-snippet",
            "enable-opentelemetry",
            "otlp-access-log",
            "proxy-redirect-from",
            "proxy-redirect-to",
        ]
        .contains(&key.name);
        let problems = gateway.problems();
        assert!(needs_another || !problems.contains(&field), "{problems}");
        load.await_answers(2);
        changed += 1;
    }
    assert!(changed > 80, "{changed} keys");
    folder.write("config.yaml", config_map(NAME, &[]));
    load.await_answers(2);
    let served = load.finish();
    assert!(served > changed * 3, "{served} answers over {changed} changes");
}
