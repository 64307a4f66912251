//! Bodies of gRPC calls to HTTP/2 endpoints.

use super::agent::Agent;
use super::{CONFIG, HOST, ON, SNIPPETS, count};
use crate::harness::grpc::{GrpcBackend, GrpcClient, message};
use crate::harness::h2::run;
use crate::harness::{Connection, Folder, Gateway, Ingress, await_until, config_map};

/// gRPC's `PERMISSION_DENIED`, which stands for 403.
const DENIED: Option<&str> = Some("7");
/// gRPC's `UNKNOWN`, which stands for 408 and 413.
const UNKNOWN: Option<&str> = Some("2");
const OK: Option<&str> = Some("0");

/// Refuses messages with a word.
const RULES: &str = "SecRule REQUEST_HEADERS:Content-Type \"@beginsWith application/grpc\" \
                     \"id:1,phase:1,pass,nolog,ctl:requestBodyProcessor=RAW\"\n\
                     SecRule REQUEST_BODY \"@contains evil\" \"id:2,phase:2,log,deny\"";
/// Excludes a method that streams.
const EXCLUDED: &str = "SecRule REQUEST_FILENAME \"@streq /echo/Chat\" \
                        \"id:3,phase:1,pass,nolog,ctl:requestBodyAccess=Off\"";

struct Calls {
    gateway: Gateway,
    backend: GrpcBackend,
}

impl Calls {
    /// Serves calls that are inspected with these directives.
    fn start(agent: &Agent, directives: &str, annotations: &[(&str, &str)]) -> Self {
        let backend = GrpcBackend::plain();
        let ingress = Ingress::new("grpc")
            .path(HOST, "/", "grpc")
            .annotation("backend-protocol", "GRPC")
            .annotation("enable-modsecurity", "true")
            .annotation("modsecurity-snippet", directives)
            .annotations(annotations);
        let folder = Folder::with(ingress.text() + &backend.service("grpc"));
        let keys = [&SNIPPETS[..], &[("client-body-timeout", "2")]].concat();
        folder.write("config.yaml", config_map(CONFIG, &keys));
        // A busy machine may compile the directives slowly.
        let flags = ["--configmap", CONFIG, &*agent.flag(), "--waf-timeout=10s"];
        let gateway = Gateway::with(&folder, &flags);
        assert_eq!(gateway.problems(), "");
        Self { gateway, backend }
    }

    async fn client(&self) -> GrpcClient {
        GrpcClient::plain(self.gateway.http, HOST).await
    }

    /// Holds a conversation in which each message waits for the reply to the one before. The second
    /// message is refused by the rules. Returns the status of the call.
    async fn chat(&self) -> String {
        let mut call = self.client().await.call("/echo/Chat").await;
        call.send(message(b"hello")).await.unwrap();
        let (head, mut body, mut stream) = call.head().await.unwrap();
        if let Some(status) = head.headers().get("grpc-status") {
            return status.to_str().unwrap().to_owned();
        }
        assert_eq!(body.data().await.unwrap().unwrap(), message(b"hello"));
        stream.send_data(message(b"evil"), true).unwrap();
        assert_eq!(body.data().await.unwrap().unwrap(), message(b"evil"));
        assert!(body.data().await.is_none());
        body.trailers().await.unwrap().unwrap()["grpc-status"].to_str().unwrap().to_owned()
    }
}

#[test]
fn a_call_is_inspected_whole_before_an_endpoint_gets_it() {
    let Some(agent) = Agent::start() else { return };
    let rules = format!("{ON}\n{RULES}");
    let calls = Calls::start(&agent, &rules, &[]);
    run(async {
        let client = calls.client().await;
        let reply = client.unary("/echo/Unary", b"this is evil").await.unwrap();
        assert_eq!((reply.http, reply.status(), reply.body.len()), (200, DENIED, 0), "{reply:?}");
        let mut call = client.call("/echo/Collect").await;
        call.send(message(b"this is good")).await.unwrap();
        call.send(message(b"this is evil")).await.unwrap();
        call.finish().unwrap();
        assert_eq!(call.reply().await.unwrap().status(), DENIED, "the second message of a stream");
        assert!(calls.backend.seen().is_empty(), "no endpoint gets a refused call");

        let reply = client.unary("/echo/Unary", b"this is good").await.unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (OK, &message(b"this is good")[..]));
        let mut call = client.call("/echo/Collect").await;
        for _ in 0..100 {
            call.send(message(&[b'x'; 5_000])).await.unwrap();
        }
        let mut trailers = http::HeaderMap::new();
        trailers.insert("x-sum", "3".parse().unwrap());
        call.finish_with(trailers).unwrap();
        let reply = call.reply().await.unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (OK, &message(b"500500")[..]));
    });
    assert!(calls.gateway.await_access("/echo/Unary").contains(" 403 "));
    // A client chooses its content type freely.
    let fields = [("Content-Type", "application/grpc")];
    let response =
        Connection::plain(calls.gateway.http).request("POST", HOST, "/echo/Unary", &fields, "evil");
    assert_eq!(response.status, 403, "over HTTP/1.1");
}

#[test]
fn a_call_beyond_a_bound_is_refused() {
    let Some(agent) = Agent::start() else { return };
    let limit =
        "SecRequestBodyLimit 100000\nSecRequestBodyNoFilesLimit 100000\nSecRequestBodyLimitAction Reject";
    let rules = format!("{ON}\n{RULES}\n{limit}");
    let calls = Calls::start(&agent, &rules, &[("proxy-body-size", "300k")]);
    run(async {
        let client = calls.client().await;
        for (length, status) in [(90_000, OK), (200_000, UNKNOWN), (400_000, UNKNOWN)] {
            let reply = client.unary("/echo/Collect", &vec![b'x'; length]).await.unwrap();
            assert_eq!((reply.http, reply.status()), (200, status), "{length}");
        }
    });
    assert_eq!(calls.backend.seen().len(), 1);
}

#[test]
fn a_stream_that_waits_for_replies_needs_an_exception_under_enforcement() {
    let Some(agent) = Agent::start() else { return };
    let held = Calls::start(&agent, &format!("{ON}\n{RULES}"), &[]);
    run(async { assert_eq!(Some(&*held.chat().await), UNKNOWN) });
    assert!(held.gateway.await_access("/echo/Chat").contains(" 408 "));
    assert!(held.backend.seen().is_empty());
    let excluded = Calls::start(&agent, &format!("{ON}\n{RULES}\n{EXCLUDED}"), &[]);
    run(async {
        assert_eq!(Some(&*excluded.chat().await), OK);
        let reply = excluded.client().await.unary("/echo/Unary", b"this is evil").await.unwrap();
        assert_eq!(reply.status(), DENIED, "other methods are inspected");
    });
}

#[test]
fn a_call_that_its_client_broke_off_was_not_inspected() {
    let Some(agent) = Agent::start() else { return };
    let calls = Calls::start(&agent, RULES, &[]);
    await_until("the directives at the agent", || {
        run(async { assert_eq!(Some(&*calls.chat().await), OK) });
        agent.log().contains("\"rule\":2")
    });
    let (passed, logged) = (count(&calls.gateway, "passed"), agent.log().len());
    run(async {
        let mut call = calls.client().await.call("/echo/Chat").await;
        call.send(message(b"this is evil")).await.unwrap();
        let (_, mut body, _) = call.head().await.unwrap();
        assert_eq!(body.data().await.unwrap().unwrap(), message(b"this is evil"));
    });
    await_until("the call counted", || count(&calls.gateway, "passed") > passed);
    // The count may still be that of a call before.
    await_until("the call in the agent's log", || agent.log()[logged..].contains("/echo/Chat"));
}

#[test]
fn streams_are_inspected_while_they_pass_if_the_rules_only_detect() {
    let Some(agent) = Agent::start() else { return };
    let calls = Calls::start(&agent, RULES, &[]);
    await_until("the directives at the agent", || {
        run(async { assert_eq!(Some(&*calls.chat().await), OK) });
        agent.log().contains("\"rule\":2")
    });
    let (passed, logged) = (count(&calls.gateway, "passed"), agent.log().len());
    run(async {
        let reply = calls.client().await.unary("/echo/Unary", b"this is evil").await.unwrap();
        assert_eq!((reply.status(), &reply.body[..]), (OK, &message(b"this is evil")[..]));
    });
    // The count alone may still be that of the call before.
    await_until("the call counted and logged", || {
        count(&calls.gateway, "passed") > passed && agent.log()[logged..].contains("/echo/Unary")
    });
    // A stream that pauses is evaluated, and so is one that the gateway ends for its pause.
    let (passed, logged) = (count(&calls.gateway, "passed"), agent.log().len());
    run(async {
        let mut call = calls.client().await.call("/echo/Chat").await;
        call.send(message(b"this is evil")).await.unwrap();
        let (_, mut body, _stream) = call.head().await.unwrap();
        assert_eq!(body.data().await.unwrap().unwrap(), message(b"this is evil"));
        crate::harness::until("the paused stream counted and logged", || {
            count(&calls.gateway, "passed") > passed && agent.log()[logged..].contains("/echo/Chat")
        })
        .await;
    });
}
