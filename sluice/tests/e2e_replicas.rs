//! Limits that apply to several replicas together. Three replicas listen on one port of 127.0.0.2
//! to 127.0.0.4. Rates are a few requests per minute, so that none becomes due during a test.

use crate::harness::manifest::{opaque_secret, service, service_with, slice};
use crate::harness::{
    Authority, Backend, Connection, Folder, Gate, Gateway, Ingress, Reply, TestCertificate, await_until,
    config_map, ports,
};

const HOST: &str = "shop.example";
const ADDRESSES: [&str; 3] = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];
const SERVICE: &str = "gateway.default.svc";

/// A site with limits, and the objects of its replicas.
struct Site {
    folder: Folder,
    port: u16,
    backend: Backend,
}

impl Site {
    fn new(backend: Backend, limits: &[(&str, &str)]) -> Self {
        let folder = Folder::with(service_with("shop", &[&backend]));
        let ingress = Ingress::new("shop").path(HOST, "/", "shop").annotations(limits);
        folder.write("shop.yaml", ingress.text());
        let this = Self { folder, port: ports::reserve(), backend };
        this.share(true);
        this.replicas(&ADDRESSES);
        let authority = Authority::new();
        this.identify("replicas", &authority, &authority.issue(&[SERVICE]));
        this
    }

    /// Writes the ConfigMap.
    fn share(&self, across_replicas: bool) {
        let data = [("limit-across-replicas", if across_replicas { "true" } else { "false" })];
        let data = [data[0], ("use-forwarded-headers", "true")];
        self.folder.write("config.yaml", config_map("system/settings", &data));
    }

    /// Writes the endpoints of the replicas.
    fn replicas(&self, addresses: &[&str]) {
        let objects = service("gateway") + &slice("gateway", "gateway", addresses, self.port);
        self.folder.write("gateway.yaml", objects);
    }

    /// Writes the Secret of the replicas.
    fn identify(&self, secret: &str, authority: &Authority, certificate: &TestCertificate) {
        let TestCertificate { pem, key_pem, .. } = certificate;
        let data = [("ca.crt", &*authority.pem()), ("tls.crt", pem), ("tls.key", key_pem)];
        self.folder.write(&format!("{secret}.yaml"), opaque_secret(secret, &data));
    }

    /// Starts the replica with this number.
    fn start(&self, number: usize) -> Gateway {
        self.start_with(number, "replicas")
    }

    fn start_with(&self, number: usize, secret: &str) -> Gateway {
        let flags = [
            "--configmap=system/settings",
            "--replica-service=default/gateway",
            &format!("--replica-secret=default/{secret}"),
            &format!("--replica-address={}:{}", ADDRESSES[number], self.port),
        ];
        Gateway::with(&self.folder, &flags)
    }
}

fn ask(gateway: &Gateway, client: &str) -> u16 {
    Connection::plain(gateway.http).request("GET", HOST, "/", &[("X-Forwarded-For", client)], "").status
}

/// Sends more requests than the limit and returns the number of those that are served.
fn served(gateway: &Gateway, client: &str) -> usize {
    (0..30).filter(|_| ask(gateway, client) == 200).count()
}

#[track_caller]
fn await_heard(gateways: &[&Gateway], heard: u64, known: u64) {
    for gateway in gateways {
        await_until(&format!("{heard} of {known} replicas to be heard"), || {
            gateway.metric("sluice_limit_replicas{state=\"heard\"}") == heard
                && gateway.metric("sluice_limit_replicas{state=\"known\"}") == known
        });
    }
}

/// Waits until a replica has heard of all requests that another one has served.
#[track_caller]
fn await_reported(from: &Gateway, to: &Gateway) {
    let sent = || from.metric("sluice_limit_use_total{direction=\"sent\"}");
    let before = sent();
    // What is sent from now on includes all earlier use.
    ask(from, "192.0.2.250");
    await_until("the use to be sent", || sent() > before);
    let all = sent();
    await_until("the use to be heard", || to.metric("sluice_limit_use_total{direction=\"received\"}") >= all);
}

/// One request and twelve early ones.
const THIRTEEN: [(&str, &str); 2] = [("limit-rpm", "3"), ("limit-burst-multiplier", "4")];

#[test]
fn three_replicas_grant_one_limit_together() {
    let site = Site::new(Backend::echo("shop"), &THIRTEEN);
    let gateways = [0, 1, 2].map(|number| site.start(number));
    let [one, two, three] = &gateways;
    await_heard(&[one, two, three], 3, 3);
    assert_eq!(served(one, "192.0.2.1"), 13);
    for other in [two, three] {
        await_reported(one, other);
        assert_eq!(served(other, "192.0.2.1"), 0, "the first replica has granted all");
    }
    assert_eq!(served(three, "192.0.2.2"), 13, "each client for itself");
    assert!(gateways.iter().all(|gateway| gateway.problems().is_empty()), "{}", one.problems());
}

#[test]
fn a_replica_that_is_away_keeps_its_share_and_is_named() {
    let site = Site::new(Backend::echo("shop"), &THIRTEEN);
    let [one, two] = [0, 1].map(|number| site.start(number));
    await_heard(&[&one, &two], 2, 3);
    assert_eq!(served(&one, "192.0.2.1"), 9, "twelve early requests at two thirds of the rate");
    let away = format!("Replica /{}:{}", ADDRESSES[2], site.port);
    await_until("the problem", || one.problems().contains(&away));
    let three = site.start(2);
    await_heard(&[&one, &two, &three], 3, 3);
    await_until("no problem", || one.problems().is_empty());
    assert_eq!(served(&three, "192.0.2.2"), 13);
    drop(three);
    await_heard(&[&one, &two], 2, 3);
    site.replicas(&ADDRESSES[..2]);
    await_heard(&[&one, &two], 2, 2);
    assert_eq!(served(&one, "192.0.2.3"), 13);
}

#[test]
fn without_a_secret_each_replica_has_an_equal_share() {
    let site = Site::new(Backend::echo("shop"), &THIRTEEN);
    let gateway = site.start_with(0, "missing");
    await_heard(&[&gateway], 1, 3);
    assert_eq!(served(&gateway, "192.0.2.1"), 5, "never none, and never all");
    let problems = gateway.problems();
    assert!(problems.contains("Secret default/missing does not exist"), "{problems}");
    assert!(problems.contains("each replica has an equal share of every limit"), "{problems}");
    let authority = Authority::new();
    site.identify("missing", &authority, &authority.issue(&[SERVICE]));
    site.replicas(&ADDRESSES[..1]);
    await_heard(&[&gateway], 1, 1);
    assert_eq!(served(&gateway, "192.0.2.2"), 13, "there is no other");
}

#[test]
fn a_replica_of_another_authority_or_name_is_not_heard() {
    let site = Site::new(Backend::echo("shop"), &THIRTEEN);
    let (own, foreign) = (Authority::new(), Authority::new());
    site.identify("replicas", &own, &own.issue(&[SERVICE]));
    site.identify("foreign", &foreign, &foreign.issue(&[SERVICE]));
    site.identify("renamed", &own, &own.issue(&["other.default.svc"]));
    let _others = [site.start_with(1, "foreign"), site.start_with(2, "renamed")];
    let gateway = site.start(0);
    let names = |number: usize| format!("Replica /{}:{}", ADDRESSES[number], site.port);
    await_until("both problems", || {
        let problems = gateway.problems();
        problems.contains(&names(1)) && problems.contains(&names(2))
    });
    await_heard(&[&gateway], 1, 3);
    assert!(gateway.problems().contains("UnknownIssuer"), "{}", gateway.problems());
}

#[test]
fn the_key_is_followed_live_and_concurrent_requests_are_divided() {
    let gate = Gate::default();
    let inside = gate.clone();
    let backend = Backend::with("shop", move |_| {
        inside.wait();
        Reply::Echo
    });
    let site = Site::new(backend, &[("limit-connections", "7")]);
    let gateway = site.start(0);
    await_heard(&[&gateway], 1, 3);
    let begin = || {
        let mut connection = Connection::plain(gateway.http);
        connection.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
        connection
    };
    let mut held = vec![begin(), begin()];
    await_until("two requests", || site.backend.requests() == 2);
    assert_eq!(ask(&gateway, "127.0.0.1"), 503, "a third of seven is two");
    site.share(false);
    await_heard(&[&gateway], 0, 0);
    held.extend((0..5).map(|_| begin()));
    await_until("seven requests", || site.backend.requests() == 7);
    assert_eq!(ask(&gateway, "127.0.0.1"), 503);
    gate.open();
    assert!(held.iter_mut().all(|connection| connection.response().status == 200));
}

#[test]
fn what_is_missing_is_named_and_each_replica_applies_the_limits() {
    let backend = Backend::echo("shop");
    let site = Site::new(backend, &THIRTEEN);
    let gateway = Gateway::with(&site.folder, &["--configmap=system/settings"]);
    assert!(gateway.problems().contains("--replica-service is not set"), "{}", gateway.problems());
    assert_eq!(served(&gateway, "192.0.2.1"), 13);
    site.folder.remove("gateway.yaml");
    let gateway = site.start(0);
    let problems = gateway.problems();
    assert!(problems.contains("default/gateway: this Service has no endpoints"), "{problems}");
    assert_eq!(served(&gateway, "192.0.2.1"), 13);
}
