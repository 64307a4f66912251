//! Traces: the context that endpoints get, the spans that a collector gets, and what happens while
//! it does not answer.

use sluice_testing::collector::{Behaviour, CollectedSpan, Collector, SpanKind};

use crate::harness::grpc::{GrpcBackend, GrpcClient};
use crate::harness::h2::run;
use crate::harness::manifest::service_with;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, Reply, await_some, await_until, client, config_map,
    get, ports,
};

const HOST: &str = "shop.example";
const NAME: &str = "ingress-nginx/controller";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A gateway with a rule for `/shop`, whose spans go to a collector.
struct Setup {
    folder: Folder,
    gateway: Gateway,
    collector: Collector,
}

impl Setup {
    fn new(ingress: &Ingress, backends: &[&Backend], keys: &[(&str, &str)]) -> Self {
        Self::with(ingress.text() + &service_with("shop", backends), keys)
    }

    fn with(objects: String, keys: &[(&str, &str)]) -> Self {
        let (folder, collector) = (Folder::with(objects), Collector::start());
        configure(&folder, &collector, keys);
        let gateway = Gateway::with(&folder, &["--configmap", NAME]);
        Self { folder, gateway, collector }
    }

    /// Requests a path with these fields of a trace context.
    fn request(&self, path: &str, context: &[(&str, &str)]) -> client::Response {
        Connection::plain(self.gateway.http).request("GET", HOST, path, context, "")
    }

    fn reconfigure(&self, keys: &[(&str, &str)]) {
        let before = self.gateway.generation();
        configure(&self.folder, &self.collector, keys);
        await_until("the new keys", || self.gateway.generation() > before);
    }
}

fn configure(folder: &Folder, collector: &Collector, keys: &[(&str, &str)]) {
    let address = collector.address.to_string();
    let own = [
        ("enable-opentelemetry", "true"),
        ("otlp-collector-host", &*address),
        ("otel-schedule-delay-millis", "20"),
    ];
    let is_given = |name: &str| keys.iter().any(|(given, _)| *given == name);
    let own = own.into_iter().filter(|(name, _)| !is_given(name));
    let all: Vec<(&str, &str)> = own.chain(keys.iter().copied()).collect();
    folder.write("config.yaml", config_map(NAME, &all));
}

fn shop(annotations: &[(&str, &str)]) -> Ingress {
    Ingress::new("shop").path(HOST, "/shop", "shop").annotations(annotations)
}

/// `traceparent` of a caller.
fn caller(is_sampled: bool) -> String {
    format!("00-{TRACE}-{CALLER}-0{}", u8::from(is_sampled))
}

/// The parts of the `traceparent` that the endpoint received: trace, span, flags.
fn received(response: &client::Response) -> [String; 3] {
    let values = response.received("traceparent");
    let [value] = &values[..] else { panic!("one value, not {values:?}") };
    let parts: Vec<&str> = value.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "00"), "{value}");
    [parts[1], parts[2], parts[3]].map(str::to_owned)
}

fn metric(gateway: &Gateway, name: &str) -> u64 {
    let metrics = gateway.metrics();
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("{name}")).parse().unwrap()
}

#[test]
fn a_request_has_a_span_and_one_for_each_attempt() {
    let closes = Backend::with("closes", |_| Reply::Close);
    let good = Backend::echo("good");
    let annotations = [("rewrite-target", "/inner/$1"), ("use-regex", "true")];
    let ingress = annotations
        .iter()
        .fold(Ingress::new("shop"), |ingress, (name, value)| ingress.annotation(name, value))
        .typed_path(HOST, "/shop/(.*)", "ImplementationSpecific", "shop");
    let setup = Setup::new(&ingress, &[&closes, &good], &[("otel-service-name", "edge")]);
    let fields = [("User-Agent", "tester/1"), ("Authorization", "Bearer secret"), ("X-Request-ID", "the-id")];
    // One of two requests goes to the failing endpoint first.
    let (server, attempts, response) = await_some("a request with two attempts", || {
        let response = setup.request("/shop/cart?token=secret", &fields);
        let [_, span, _] = received(&response);
        let spans = await_some("its spans", || {
            let spans = setup.collector.spans();
            spans.iter().any(|one| one.span_id() == span).then_some(spans)
        });
        let last = spans.iter().find(|one| one.span_id() == span)?;
        let server = spans.iter().find(|one| one.span_id() == last.parent_id())?.clone();
        let attempts: Vec<CollectedSpan> =
            spans.iter().filter(|one| one.parent_id() == server.span_id()).cloned().collect();
        (attempts.len() == 2).then_some((server, attempts, response))
    });
    let [trace, span, flags] = received(&response);
    assert_eq!((server.trace_id(), &*flags), (trace, "01"));
    assert_eq!((&*server.service, &*server.span.name, &*server.parent_id()), ("edge", "/shop/(.*)", ""));
    assert_eq!(server.span.kind(), SpanKind::Server);
    for expected in [
        "http.request.method=GET",
        "http.response.status_code=200",
        "http.route=/shop/(.*)",
        "url.scheme=http",
        "url.path=/shop/cart",
        "server.address=shop.example",
        "client.address=127.0.0.1",
        "network.protocol.version=1.1",
        "user_agent.original=tester/1",
        "sluice.object=Ingress default/shop",
        "sluice.service=default-shop-80",
        "sluice.request_id=the-id",
    ] {
        assert!(server.attributes().contains(&expected.to_owned()), "{expected}: {:?}", server.attributes());
    }
    let [first, second] = &attempts[..] else { panic!("{attempts:?}") };
    for (attempt, backend) in [(first, &closes), (second, &good)] {
        assert_eq!(attempt.span.kind(), SpanKind::Client);
        assert_eq!((&*attempt.span.name, attempt.trace_id()), ("GET", server.trace_id()));
        let url = format!("url.full=http://{}/inner/cart", backend.address);
        assert!(attempt.attributes().contains(&url), "{url}: {:?}", attempt.attributes());
        // Its own span is the parent of what the endpoint does.
        let seen = backend.seen();
        let parents = seen.iter().filter_map(|request| request.header("traceparent"));
        assert!(parents.into_iter().any(|parent| parent.contains(&attempt.span_id())));
        assert!(attempt.span.start_time_unix_nano >= server.span.start_time_unix_nano);
        assert!(attempt.span.end_time_unix_nano <= server.span.end_time_unix_nano);
    }
    assert_eq!(first.attribute("error.type").as_deref(), Some("connection_broken"));
    assert_eq!(first.attribute("http.response.status_code"), None, "there was no response");
    assert_eq!(second.attribute("http.request.resend_count").as_deref(), Some("1"));
    assert_eq!(second.attribute("http.response.status_code").as_deref(), Some("200"));
    assert_eq!((second.span_id(), second.attribute("error.type")), (span, None));
    let everything = format!("{:?}", setup.collector.spans());
    assert!(!everything.contains("secret"), "queries and credentials are no part of spans: {everything}");
}

#[test]
fn the_trace_of_the_caller_is_continued_only_if_it_is_trusted_and_valid() {
    let backend = Backend::echo("shop");
    let setup = Setup::new(&shop(&[]), &[&backend], &[]);
    let (parent, state) = (caller(true), ("tracestate", "vendor=1"));
    let continued = setup.request("/shop/continued", &[("traceparent", &parent), state]);
    let [trace, span, flags] = received(&continued);
    assert_eq!((&*trace, &*flags), (TRACE, "01"));
    assert_eq!(continued.received("tracestate"), ["vendor=1"]);
    let (server, attempts) = setup.collector.await_request("/shop/continued");
    assert_eq!((server.trace_id(), server.parent_id()), (TRACE.to_owned(), CALLER.to_owned()));
    assert_eq!(server.span.trace_state, "vendor=1");
    assert_eq!(attempts[0].span_id(), span);

    for (name, bad) in
        [("short", "00-1-2-01"), ("zeros", "00-00000000000000000000000000000000-b7ad6b7169203331-01")]
    {
        let path = format!("/shop/{name}");
        let begun = setup.request(&path, &[("traceparent", bad), state]);
        assert_ne!(received(&begun)[0], TRACE);
        assert!(begun.received("tracestate").is_empty(), "it belongs to the other trace");
        assert_eq!(setup.collector.await_request(&path).0.parent_id(), "");
    }

    setup.reconfigure(&[("opentelemetry-trust-incoming-span", "false")]);
    let replaced = setup.request("/shop/replaced", &[("traceparent", &parent), state]);
    assert_ne!(received(&replaced)[0], TRACE);
    assert!(replaced.received("tracestate").is_empty());
    assert_eq!(setup.collector.await_request("/shop/replaced").0.parent_id(), "");

    let trusts = [("enable-opentelemetry", "true"), ("opentelemetry-trust-incoming-span", "true")];
    let before = setup.gateway.generation();
    setup.folder.write("objects.yaml", shop(&trusts).text() + &service_with("shop", &[&backend]));
    await_until("the annotation", || setup.gateway.generation() > before);
    let own = setup.request("/shop/own", &[("traceparent", &parent)]);
    assert_eq!(received(&own)[0], TRACE, "the rule overrides the key");
}

#[test]
fn samplers_decide_which_requests_have_spans() {
    let backend = Backend::echo("shop");
    let setup = Setup::new(&shop(&[]), &[&backend], &[]);
    let ratio = |ratio| [("otel-sampler", "TraceIdRatioBased"), ("otel-sampler-ratio", ratio)];
    let alone = ("otel-sampler-parent-based", "false");
    for (number, (keys, parent, is_sampled)) in [
        (vec![("otel-sampler", "AlwaysOff")], None, false),
        (ratio("0").to_vec(), None, false),
        (ratio("1").to_vec(), None, true),
        (ratio("0").to_vec(), Some(true), true),
        (ratio("1").to_vec(), Some(false), false),
        ([&ratio("0")[..], &[alone]].concat(), Some(true), false),
        ([&ratio("1")[..], &[alone]].concat(), Some(false), true),
    ]
    .into_iter()
    .enumerate()
    {
        setup.reconfigure(&keys);
        let (path, parent) = (format!("/shop/{number}"), parent.map(caller));
        let context = parent.as_ref().map(|parent| ("traceparent", &**parent));
        let response = setup.request(&path, context.as_slice());
        let [trace, _, flags] = received(&response);
        assert_eq!(trace == TRACE, parent.is_some());
        assert_eq!(flags, if is_sampled { "01" } else { "00" }, "{keys:?} {parent:?}");
        if is_sampled {
            setup.collector.await_request(&path);
        }
    }
    let sampled = setup.collector.spans().into_iter().filter(|span| span.span.kind() == SpanKind::Server);
    assert_eq!(sampled.count(), 3);
}

#[test]
fn an_ingress_switches_traces_on_and_off() {
    let backend = Backend::echo("shop");
    let off = Ingress::new("off").path(HOST, "/off", "shop").annotation("enable-opentelemetry", "false");
    let on = shop(&[("enable-opentelemetry", "true"), ("opentelemetry-operation-name", "the_shop")]);
    let other = Ingress::new("other").path(HOST, "/other", "shop");
    let objects = [&off, &on, &other].map(Ingress::text).concat() + &service_with("shop", &[&backend]);
    let setup = Setup::with(objects, &[]);
    let context = ("traceparent", &*caller(true));
    let untouched = setup.request("/off/1", &[context]);
    assert_eq!(untouched.received("traceparent"), [context.1], "it is any field of the client");
    setup.request("/shop/1", &[]);
    setup.request("/other/1", &[]);
    assert_eq!(setup.collector.await_request("/shop/1").0.span.name, "the_shop");
    assert_eq!(setup.collector.await_request("/other/1").0.span.name, "/other");
    get(setup.gateway.http, "unknown.example", "/healthz");
    get(setup.gateway.http, "unknown.example", "/unknown");
    let unknown = setup.collector.await_request("/unknown").0;
    assert_eq!(
        (&*unknown.span.name, unknown.attribute("http.response.status_code")),
        ("/", Some("404".into()))
    );
    let paths: Vec<_> =
        setup.collector.spans().iter().filter_map(|span| span.attribute("url.path")).collect();
    assert!(!paths.iter().any(|path| path == "/off/1" || path == "/healthz"), "{paths:?}");

    setup.reconfigure(&[("enable-opentelemetry", "false")]);
    assert_eq!(received(&setup.request("/shop/2", &[]))[2], "01", "the annotation holds");
    assert!(setup.request("/other/2", &[]).received("traceparent").is_empty());
    setup.collector.await_request("/shop/2");
}

#[test]
fn span_names_have_variables_of_request_and_response() {
    let backend = Backend::with("shop", |_| Reply::field("X-Version", "7"));
    let name = "HTTP $request_method $service_name $uri $status $sent_http_x_version $opentelemetry_sampled";
    let setup = Setup::new(&shop(&[]), &[&backend], &[("opentelemetry-operation-name", name)]);
    setup.request("/shop/a%20b?x=y", &[]);
    let (server, _) = setup.collector.await_request("/shop/a%20b");
    assert_eq!(server.span.name, "HTTP GET shop /shop/a b 200 7 1");
}

#[test]
fn logs_and_fields_name_the_trace() {
    let backend = Backend::echo("shop");
    let fields = "X-Trace: $opentelemetry_trace_id\nX-Context: $opentelemetry_context_traceparent";
    let off = Ingress::new("off").path(HOST, "/off", "shop").annotation("enable-opentelemetry", "false");
    let objects = shop(&[("sluice.dev/set-request-headers", fields)]).text() + &off.text();
    let objects = objects + &service_with("shop", &[&backend]);
    let format = "$uri <$opentelemetry_trace_id> <$opentelemetry_span_id> <$opentelemetry_sampled>";
    let setup = Setup::with(objects, &[("log-format-upstream", format)]);
    let response = setup.request("/shop/logged", &[]);
    let (server, _) = setup.collector.await_request("/shop/logged");
    let (trace, span) = (server.trace_id(), server.span_id());
    assert_eq!(setup.gateway.await_access("/shop/logged"), format!("/shop/logged <{trace}> <{span}> <1>"));
    assert_eq!(response.received("x-trace"), [&*trace]);
    assert_eq!(response.received("x-context"), [format!("00-{trace}-{span}-01")]);
    setup.request("/off/1", &[]);
    assert_eq!(setup.gateway.await_access("/off/1"), "/off/1 <-> <-> <->");
}

#[test]
fn grpc_requests_carry_the_context_and_have_spans() {
    let backend = GrpcBackend::plain();
    let ingress = Ingress::new("grpc").path(HOST, "/echo", "grpc").annotation("backend-protocol", "GRPC");
    let setup = Setup::with(ingress.text() + &backend.service("grpc"), &[]);
    run(async {
        let client = GrpcClient::plain(setup.gateway.http, HOST).await;
        client.unary("/echo/Unary", b"hello").await.unwrap();
    });
    let (server, attempts) = setup.collector.await_request("/echo/Unary");
    assert_eq!(server.attribute("network.protocol.version").as_deref(), Some("2"));
    let seen = backend.seen();
    let parent = seen[0].headers["traceparent"].to_str().unwrap();
    assert_eq!(parent, format!("00-{}-{}-01", server.trace_id(), attempts[0].span_id()));
}

#[test]
fn a_client_that_leaves_is_no_error_of_the_server() {
    let gate = Gate::default();
    let waits = gate.clone();
    let backend = Backend::with("slow", move |_| {
        waits.wait();
        Reply::Echo
    });
    let setup = Setup::new(&shop(&[]), &[&backend], &[]);
    let mut leaving = Connection::plain(setup.gateway.http);
    leaving.send(format!("GET /shop/left HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    await_until("the request to reach its endpoint", || backend.requests() == 1);
    drop(leaving);
    let (server, attempts) = setup.collector.await_request("/shop/left");
    for span in [&server, &attempts[0]] {
        assert_eq!(span.attribute("error.type").as_deref(), Some("client_closed_request"));
        assert_eq!(span.attribute("http.response.status_code"), None);
        assert_eq!(span.span.status.as_ref().map(|status| status.code), Some(0), "unset");
    }
    gate.open();
}

#[test]
fn spans_arrive_over_http_too() {
    let backend = Backend::echo("shop");
    let setup = Setup::new(&shop(&[]), &[&backend], &[]);
    let url = |path: &str| format!("http://{}{path}", setup.collector.address);
    for (request, collector, path) in [
        ("/shop/default", url("/"), "/v1/traces"),
        ("/shop/path", url("/otlp"), "/otlp/v1/traces"),
        ("/shop/grpc", url(""), "/opentelemetry.proto.collector.trace.v1.TraceService/Export"),
    ] {
        setup.reconfigure(&[("otlp-collector-host", &collector)]);
        setup.request(request, &[]);
        assert_eq!(setup.collector.await_request(request).0.path, path);
    }
    await_until("the counter", || metric(&setup.gateway, "sluice_otel_spans_exported_total") == 6);
    assert_eq!(setup.gateway.problems(), "");
}

#[test]
fn batches_have_at_most_the_configured_size() {
    let backend = Backend::echo("shop");
    let keys = [("otel-max-export-batch-size", "3"), ("otel-schedule-delay-millis", "600000")];
    let setup = Setup::new(&shop(&[]), &[&backend], &keys);
    // Each request has two spans, and no delay passes.
    for number in 0..6 {
        setup.request(&format!("/shop/{number}"), &[]);
    }
    await_until("the spans", || setup.collector.spans().len() >= 9);
    assert!(setup.collector.batches().iter().all(|batch| batch.len() <= 3));
    setup.reconfigure(&[]);
    await_until("the rest, after the delay has changed", || setup.collector.spans().len() == 12);
}

#[test]
fn a_collector_that_is_away_or_hangs_delays_no_request() {
    let backend = Backend::echo("shop");
    let [free] = ports::addresses();
    let keys = [("otlp-collector-host", &*free.to_string()), ("otel-max-queuesize", "8")];
    let setup = Setup::new(&shop(&[]), &[&backend], &keys);
    let full = "sluice_otel_spans_dropped_total{reason=\"queue_full\"}";
    let load = |count: usize| {
        for number in 0..count {
            assert_eq!(setup.request(&format!("/shop/{number}"), &[]).status, 200);
        }
    };
    load(20);
    await_until("a problem", || setup.gateway.problems().contains("Collector "));
    let problems = setup.gateway.problems();
    assert!(
        problems
            .contains(&format!("Collector /{free}: otlp-collector-host: the collector cannot be reached"))
    );
    load(20);
    await_until("dropped spans", || metric(&setup.gateway, full) > 0);
    assert!(metric(&setup.gateway, "sluice_otel_spans_waiting") <= 8);

    // It comes back at the same address: what has waited arrives, and the problem ends.
    let collector = Collector::at(free);
    await_until("the spans that have waited", || !collector.spans().is_empty());
    await_until("no problem", || setup.gateway.problems().is_empty());

    collector.set(Behaviour::Hang);
    let dropped = metric(&setup.gateway, full);
    load(40);
    await_until("more dropped spans", || metric(&setup.gateway, full) > dropped);

    // Another collector takes over live, with the batch that hangs.
    setup.reconfigure(&[("otel-max-queuesize", "8")]);
    load(1);
    await_until("spans at the other collector", || !setup.collector.spans().is_empty());
}

#[test]
fn refused_spans_are_counted_and_reported() {
    let backend = Backend::echo("shop");
    let setup = Setup::new(&shop(&[]), &[&backend], &[]);
    let rejected = "sluice_otel_spans_dropped_total{reason=\"rejected\"}";
    // INVALID_ARGUMENT of gRPC.
    setup.collector.set(Behaviour::Refuse(3));
    setup.request("/shop/refused", &[]);
    await_until("refused spans", || metric(&setup.gateway, rejected) == 2);
    assert!(
        setup.gateway.problems().contains("answers with the gRPC status 3"),
        "{}",
        setup.gateway.problems()
    );
    setup.collector.set(Behaviour::Reject(1));
    setup.request("/shop/partly", &[]);
    await_until("a rejected span", || metric(&setup.gateway, rejected) == 3);
    assert!(setup.gateway.problems().contains("some spans are too old"), "{}", setup.gateway.problems());
    setup.collector.set(Behaviour::Accept);
    setup.request("/shop/accepted", &[]);
    setup.collector.await_request("/shop/accepted");
    await_until("no problem", || setup.gateway.problems().is_empty());
}

#[test]
fn lines_of_the_access_log_arrive_with_the_ids_of_the_trace() {
    let backend = Backend::echo("shop");
    let off = Ingress::new("off").path(HOST, "/off", "shop").annotation("enable-opentelemetry", "false");
    let objects = shop(&[]).text() + &off.text() + &service_with("shop", &[&backend]);
    let keys = [("otlp-access-log", "true"), ("log-format-upstream", "$request $status")];
    let setup = Setup::with(objects, &keys);
    setup.request("/shop/logged", &[]);
    setup.request("/off/logged", &[]);
    await_until("the lines", || setup.collector.lines().len() == 2);
    let (server, _) = setup.collector.await_request("/shop/logged");
    let line = |path: &str| {
        let lines = setup.collector.lines();
        let found = lines.into_iter().find(|one| one.line == format!("GET {path} HTTP/1.1 200"));
        found.unwrap_or_else(|| panic!("{path}: {:?}", setup.collector.lines()))
    };
    let traced = line("/shop/logged");
    assert_eq!((traced.trace_id, traced.span_id), (server.trace_id(), server.span_id()));
    assert_eq!(line("/off/logged").trace_id, "");
    setup.gateway.await_access("GET /off/logged");
    await_until("the counter", || metric(&setup.gateway, "sluice_otel_log_records_exported_total") == 2);

    setup.reconfigure(&[("log-format-upstream", "$request $status")]);
    setup.request("/shop/again", &[]);
    setup.collector.await_request("/shop/again");
    assert_eq!(setup.collector.lines().len(), 2);
}

#[test]
fn the_last_spans_are_sent_at_the_end() {
    let backend = Backend::echo("shop");
    let mut setup = Setup::new(&shop(&[]), &[&backend], &[("otel-schedule-delay-millis", "600000")]);
    setup.request("/shop/last", &[]);
    setup.gateway.terminate();
    assert_eq!(setup.gateway.await_exit().code(), Some(0));
    setup.collector.await_request("/shop/last");
}

#[test]
fn bad_values_are_problems_and_the_defaults_apply() {
    let backend = Backend::echo("shop");
    let bad = [("otel-sampler", "Sometimes"), ("otel-sampler-ratio", "2"), ("otel-max-queuesize", "0")];
    let ingress = shop(&[("enable-opentelemetry", "true"), ("opentelemetry-operation-name", "a b $uri")]);
    let setup = Setup::new(&ingress, &[&backend], &bad);
    let problems = setup.gateway.problems();
    for text in [
        "data[otel-sampler]: the value \"Sometimes\" must be one of AlwaysOn, AlwaysOff, TraceIdRatioBased",
        "data[otel-sampler-ratio]: the value \"2\" must be a number from 0 to 1",
        "data[otel-max-queuesize]: the value \"0\" must be an integer from 1 to 2147483647",
        "opentelemetry-operation-name]: the value \"a b $uri\"",
    ] {
        assert!(problems.contains(text), "{text}: {problems}");
    }
    setup.request("/shop/served", &[]);
    assert_eq!(setup.collector.await_request("/shop/served").0.span.name, "/shop");
    for (host, text) in
        [("https://collector.example", "spans are sent without TLS"), ("", "has no otlp-collector-host")]
    {
        configure(&setup.folder, &setup.collector, &[("otlp-collector-host", host)]);
        await_until("the problem", || setup.gateway.problems().contains(text));
    }
    assert_eq!(received(&setup.request("/shop/context", &[]))[2], "01", "the context is passed on");
}
