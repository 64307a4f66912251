//! Inspections and directives with an agent of HTTP/2 that answers as each test needs.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use http::{HeaderMap, Request, Response, StatusCode};
use prost::Message;
use sluice_config::{Firewall, FirewallSource, ObjectRef};
use sluice_testing::wait::until;
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::configuration::{ConfigurationState, FirewallConfiguration};
use super::ext_proc::{
    Continue, HeaderMutation, HeaderValue, HeaderValueOption, HttpStatus, ImmediateResponse, ProcessingMode,
    ProcessingRequest, ProcessingResponse, RequestPart, ResponsePart,
};
use super::*;
use crate::connection::drain::Drain;
use crate::message::grpc;

/// Text of a body that the agent denies.
const EVIL: &[u8] = b"evil";

/// What the agent does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Behaviour {
    #[default]
    Usual,
    /// It does not have the method for directives.
    OfOwnRules,
    /// It cannot compile directives.
    Refuses,
    /// It does not know configurations.
    Forgets,
    /// It does not answer.
    Hangs,
}

#[derive(Clone, Default)]
struct FakeAgent {
    behaviour: Arc<Mutex<Behaviour>>,
    /// Bytes of bodies that it has received.
    received: Arc<Mutex<usize>>,
}

impl FakeAgent {
    fn of(behaviour: Behaviour) -> Self {
        Self { behaviour: Arc::new(Mutex::new(behaviour)), ..Self::default() }
    }

    async fn serve(&self) -> (SocketAddr, AbortHandle) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let agent = self.clone();
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let agent = agent.clone();
                connections.spawn(async move {
                    let mut connection = h2::server::handshake(stream).await.unwrap();
                    while let Some(Ok((request, reply))) = connection.accept().await {
                        tokio::spawn(agent.clone().answer(request, reply));
                    }
                });
            }
        });
        (address, task.abort_handle())
    }

    async fn answer(self, request: Request<h2::RecvStream>, mut reply: SendResponse<Bytes>) {
        let behaviour = *self.behaviour.lock().unwrap();
        let is_put = request.uri().path().ends_with("/Put");
        let refusal = match behaviour {
            Behaviour::Hangs => return std::future::pending().await,
            Behaviour::OfOwnRules if is_put => Some((12, "")),
            Behaviour::Refuses if is_put => Some((3, "the directive %22SecNothing%22 is unknown")),
            Behaviour::Forgets if !is_put => Some((9, "")),
            _ => None,
        };
        if let Some((status, message)) = refusal {
            let head = Response::builder().header("grpc-status", status).header("grpc-message", message);
            reply.send_response(head.body(()).unwrap(), true).unwrap();
            return;
        }
        let mut stream = reply.send_response(Response::new(()), false).unwrap();
        let mut body = request.into_body();
        let mut received = BytesMut::new();
        while let Some(data) = body.data().await {
            let Ok(data) = data else { return };
            body.flow_control().release_capacity(data.len()).unwrap();
            received.extend_from_slice(&data);
            if is_put {
                continue;
            }
            while let Some(message) = grpc::take::<ProcessingRequest>(&mut received, 1 << 20).unwrap() {
                let answer = self.decide(message);
                if stream.send_data(grpc::encoded(&answer), false).is_err() {
                    return;
                }
            }
        }
        if is_put {
            stream.send_data(grpc::framed(&"hash".to_owned().encode_to_vec()), false).unwrap();
        }
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        let _ = stream.send_trailers(trailers);
    }

    fn decide(&self, message: ProcessingRequest) -> ProcessingResponse {
        let denied = |code, location: &str| {
            let header = HeaderValue {
                key: "Location".to_owned(),
                value: location.to_owned(),
                raw_value: Bytes::new(),
            };
            let set_headers = vec![HeaderValueOption { header: Some(header) }];
            ResponsePart::Immediate(ImmediateResponse {
                status: Some(HttpStatus { code }),
                headers: (!location.is_empty()).then_some(HeaderMutation { set_headers }),
            })
        };
        let mut needs_response = false;
        let no_body;
        let response = match message.request.unwrap() {
            RequestPart::ResponseHeaders(head) => {
                no_body = head.end_of_stream;
                match head.headers.unwrap().headers.iter().any(|header| header.key == "x-leak") {
                    true => denied(502, ""),
                    false => ResponsePart::ResponseHeaders(Continue {}),
                }
            }
            RequestPart::ResponseBody(body) => {
                no_body = false;
                match body.body.ends_with(EVIL) {
                    true => denied(403, ""),
                    false => ResponsePart::ResponseBody(Continue {}),
                }
            }
            RequestPart::RequestHeaders(head) => {
                no_body = head.end_of_stream;
                let headers = head.headers.unwrap().headers;
                let path = headers.iter().find(|header| header.key == ":path").unwrap().bytes().to_vec();
                needs_response = path.starts_with(b"/response");
                match &*path {
                    b"/teapot" => denied(418, ""),
                    b"/away" => denied(302, "https://other.example/"),
                    b"/odd" => denied(77, ""),
                    _ => ResponsePart::RequestHeaders(Continue {}),
                }
            }
            RequestPart::RequestBody(body) => {
                *self.received.lock().unwrap() += body.body.len();
                no_body = body.body.starts_with(b"enough");
                match body.body.ends_with(EVIL) {
                    true => denied(403, ""),
                    false => ResponsePart::RequestBody(Continue {}),
                }
            }
        };
        let mode = ProcessingMode {
            response_header_mode: i32::from(needs_response),
            request_body_mode: i32::from(!no_body),
            response_body_mode: i32::from(!no_body),
        };
        ProcessingResponse { response: Some(response), mode_override: Some(mode) }
    }
}

fn firewall(directives: &str) -> Firewall {
    let object = ObjectRef::new("Ingress", "shop", "web");
    let source = FirewallSource { object, field: "modsecurity-snippet".into() };
    Firewall { directives: directives.into(), enforces: true, source, transaction_id: None }
}

fn head(target: &str) -> HeadMessage {
    HeadMessage::new(InspectedHead {
        method: "GET",
        target,
        authority: "shop.example",
        scheme: "http",
        fields: [("accept".to_owned(), &b"*/*"[..])].into_iter(),
        protocol: "HTTP/1.1",
        client: "192.0.2.1:7".parse().unwrap(),
        port: 80,
        transaction_id: String::new(),
    })
}

/// A gateway's side, with one configuration.
struct Side {
    agent: Agent,
    configurations: Configurations,
    configuration: Arc<FirewallConfiguration>,
    drain: Arc<Drain>,
}

impl Side {
    fn new(address: SocketAddr) -> Self {
        let configurations = Configurations::default();
        let configuration = configurations.obtain(&firewall("SecRuleEngine On"));
        let agent = Agent::new(address, Duration::from_millis(300));
        Self { agent, configurations, configuration, drain: Drain::new() }
    }

    fn ready(self) -> Self {
        self.configuration.set(ConfigurationState::Ready);
        self
    }

    async fn inspect(&self, target: &str, ends: bool) -> InspectionResult {
        let link = AgentLink { agent: &self.agent, clients: &self.drain, idle: 4 };
        let configuration = self.configuration.clone();
        InspectionRequest { configuration, head: head(target) }
            .run(Some(link), &self.configurations, ends)
            .await
    }
}

#[tokio::test]
async fn the_agent_decides_on_a_head() {
    let (address, _task) = FakeAgent::default().serve().await;
    let side = Side::new(address).ready();
    assert_eq!(side.inspect("/", true).await, InspectionResult::Passed(None));
    let denied = |status, location: Option<&'static str>| {
        let location = location.map(http::HeaderValue::from_static);
        InspectionResult::Denied(Denial { status: StatusCode::from_u16(status).unwrap(), location })
    };
    assert_eq!(side.inspect("/teapot", true).await, denied(418, None));
    assert_eq!(side.inspect("/away", true).await, denied(302, Some("https://other.example/")));
    assert_eq!(side.inspect("/odd", true).await, denied(403, None), "no response has the status 77");
}

#[tokio::test]
async fn a_body_is_sent_until_the_agent_has_decided() {
    let agent = FakeAgent::default();
    let (address, _task) = agent.serve().await;
    let side = Side::new(address).ready();
    let open = async || match side.inspect("/", false).await {
        InspectionResult::Passed(Some(inspection)) => inspection,
        other => panic!("{other:?}"),
    };
    let large = Bytes::from(vec![b'x'; 200_000]);
    let mut inspection = open().await;
    assert!(matches!(inspection.body(large.clone(), false).await, BodyResult::Continues));
    assert!(matches!(inspection.body(Bytes::new(), true).await, BodyResult::Passed));
    assert_eq!(*agent.received.lock().unwrap(), 200_000);
    let evil = Bytes::from([&large[..], EVIL].concat());
    assert!(matches!(open().await.body(evil, true).await, BodyResult::Denied(_)));
    let mut inspection = open().await;
    let before = *agent.received.lock().unwrap();
    let enough = Bytes::from([b"enough", &large[..]].concat());
    assert!(matches!(inspection.body(enough, false).await, BodyResult::Passed));
    assert!(*agent.received.lock().unwrap() - before < 100_000, "the rest is not sent");
}

#[tokio::test]
async fn the_agent_decides_on_a_response_that_it_wants() {
    let (address, _task) = FakeAgent::default().serve().await;
    let side = Side::new(address).ready();
    let open = async || match side.inspect("/response", true).await {
        InspectionResult::Passed(Some(inspection)) if inspection.needs_response => inspection,
        other => panic!("{other:?}"),
    };
    let head = |name: &str, ends| {
        let fields = [(name.to_owned(), &b"1"[..])];
        ResponseHeadMessage::new(StatusCode::OK, fields.into_iter(), ends)
    };
    assert!(matches!(open().await.response_head(head("x-leak", true), true).await, BodyResult::Denied(_)));
    assert!(matches!(open().await.response_head(head("x-a", true), true).await, BodyResult::Passed));
    for (body, passes) in [(&b"good"[..], true), (EVIL, false)] {
        let mut inspection = open().await;
        assert!(matches!(inspection.response_head(head("x-a", false), false).await, BodyResult::Continues));
        let large = Bytes::from(vec![b'x'; 100_000]);
        assert!(matches!(inspection.response_body(large, false).await, BodyResult::Continues));
        let result = inspection.response_body(Bytes::copy_from_slice(body), true).await;
        assert_eq!(matches!(result, BodyResult::Passed), passes, "{result:?}");
    }
}

#[tokio::test]
async fn without_a_decision_in_time_there_is_none() {
    let agent = FakeAgent::default();
    let (address, task) = agent.serve().await;
    let side = Side::new(address);
    assert_eq!(side.inspect("/", true).await, InspectionResult::Unavailable, "directives that never arrive");
    let side = side.ready();
    assert_eq!(side.inspect("/", true).await, InspectionResult::Passed(None));
    *agent.behaviour.lock().unwrap() = Behaviour::Hangs;
    assert_eq!(side.inspect("/", true).await, InspectionResult::Unavailable);
    task.abort();
    *agent.behaviour.lock().unwrap() = Behaviour::Usual;
    assert_eq!(side.inspect("/", true).await, InspectionResult::Unavailable, "the agent has ended");
}

#[tokio::test]
async fn directives_are_sent_again_to_an_agent_that_has_lost_them() {
    let agent = FakeAgent::of(Behaviour::Forgets);
    let (address, _task) = agent.serve().await;
    let side = Side::new(address).ready();
    let inspect = side.inspect("/", true);
    let deliver = async {
        side.configurations.incomplete.notified().await;
        side.configurations.incomplete.notified().await;
        assert_eq!(side.configuration.state(), ConfigurationState::Pending);
        *agent.behaviour.lock().unwrap() = Behaviour::Usual;
        side.configuration.set(ConfigurationState::Ready);
    };
    let (result, ()) = tokio::join!(inspect, deliver);
    assert_eq!(result, InspectionResult::Passed(None));
}

#[tokio::test]
async fn directives_are_delivered_and_faults_reported() {
    for (behaviour, state, reason) in [
        (Behaviour::Usual, ConfigurationState::Ready, None),
        (Behaviour::OfOwnRules, ConfigurationState::Ready, None),
        (Behaviour::Refuses, ConfigurationState::Refused, Some("the directive \"SecNothing\" is unknown")),
    ] {
        let (address, task) = FakeAgent::of(behaviour).serve().await;
        let side = Side::new(address);
        let reported = Mutex::new(None);
        let report = |faults| *reported.lock().unwrap() = Some(faults);
        let delivery = deliver(&side.agent, &side.configurations, report);
        let watch = async {
            until("the delivery", || reported.lock().unwrap().is_some()).await;
            assert_eq!(side.configuration.state(), state, "{behaviour:?}");
            let faults = reported.lock().unwrap().clone().unwrap();
            assert_eq!(faults.agent, None, "{behaviour:?}");
            let reasons: Vec<_> = faults.configurations.iter().map(|fault| &*fault.reason).collect();
            assert!(reason.is_none_or(|reason| reasons[0].contains(reason)), "{reasons:?}");
            assert_eq!(reasons.len(), usize::from(reason.is_some()));
            task.abort();
            until("the end of the agent", || {
                reported
                    .lock()
                    .unwrap()
                    .as_ref()
                    .is_some_and(|faults: &DeliveryFaults| faults.agent.is_some())
            })
            .await;
            assert_eq!(side.configuration.state(), ConfigurationState::Unavailable);
        };
        tokio::select! {
            () = delivery => unreachable!("it does not return"),
            () = watch => {}
        }
    }
}
