//! Fields of endpoints that clients do not see are hidden wherever an endpoint may send them.

use bytes::Bytes;
use http::{HeaderMap, Request};
use sluice_config::{GlobalSettings, UpstreamProtocol};

use super::backend::Backend;
use super::gateway::Gateway;
use super::http2::plain;
use crate::worker::engine_choice::EngineChoice;

const URL: &str = "http://a.example/x";
const HIDDEN: [&str; 2] = ["x-secret", "x-accel-redirect"];

fn hide(settings: &mut GlobalSettings) {
    settings.hidden_headers = ["X-Secret".into()].into();
}

#[tokio::test]
async fn hidden_fields_reached_clients_in_interim_responses() {
    let backend = Backend::saying(
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\nX-Secret: 1\r\nX-Accel-Redirect: /a\r\nServer: own\r\n\r\n\
         HTTP/1.1 103 Early Hints\r\nLink: </y>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    for engine in [EngineChoice::Direct, EngineChoice::Proxy] {
        let gateway = Gateway::driven(engine, &[backend.address], UpstreamProtocol::Http, hide).await;
        let mut client = gateway.client().await;
        client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
        for (link, server) in [("</x>", Some("sluice")), ("</y>", None)] {
            let hint = client.head().await;
            let seen = (hint.status, hint.field("link"), hint.field("server"));
            assert_eq!(seen, (103, Some(link), server), "{engine:?}");
            assert_eq!(HIDDEN.map(|name| hint.field(name)), [None; 2], "{engine:?}");
        }
        assert_eq!(client.response().await.status, 200);
        let (mut client, _) = plain(&gateway).await;
        let (mut response, _) = client.send_request(Request::get(URL).body(()).unwrap(), true).unwrap();
        let hint = std::future::poll_fn(|cx| response.poll_informational(cx)).await.unwrap().unwrap();
        assert!(hint.headers()["link"] == "</x>" && hint.headers()["server"] == "sluice", "{engine:?}");
        assert!(!HIDDEN.iter().any(|name| hint.headers().contains_key(*name)), "{engine:?}");
    }
}

/// Returns the trailers of a response over HTTP/2.
async fn trailers(gateway: &Gateway) -> HeaderMap {
    let (mut client, _) = plain(gateway).await;
    let (response, _) = client.send_request(Request::get(URL).body(()).unwrap(), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    while let Some(piece) = body.data().await {
        body.flow_control().release_capacity(piece.unwrap().len()).unwrap();
    }
    body.trailers().await.unwrap().unwrap_or_default()
}

#[tokio::test]
async fn hidden_fields_reached_clients_in_trailers() {
    let backend = Backend::saying(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\
         X-Secret: 1\r\nX-Accel-Redirect: /a\r\nServer: own\r\nX-Sum: 6\r\n\r\n",
    )
    .await;
    let gateway =
        Gateway::driven(EngineChoice::Direct, &[backend.address], UpstreamProtocol::Http, hide).await;
    let mut client = gateway.client().await;
    client.send("GET /x HTTP/1.1\r\nHost: a.example\r\n\r\n").await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!(client.until("\r\n\r\n").await, "2\r\nok\r\n0\r\nX-Sum: 6\r\n\r\n");
    let seen = trailers(&gateway).await;
    assert!(seen.len() == 1 && seen["x-sum"] == "6", "{seen:?}");
    let shows = |settings: &mut GlobalSettings| settings.server_field.of_endpoints = true;
    let gateway =
        Gateway::driven(EngineChoice::Direct, &[backend.address], UpstreamProtocol::Http, shows).await;
    let seen = trailers(&gateway).await;
    assert!(seen.len() == 3 && seen["server"] == "own" && seen["x-secret"] == "1", "{seen:?}");
}

#[tokio::test]
async fn trailers_of_http_2_endpoints_hide_the_same_fields() {
    let backend = Backend::scripted(|_, stream| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        while let Some(Ok((_, mut reply))) = connection.accept().await {
            let mut stream = reply.send_response(http::Response::new(()), false).unwrap();
            stream.send_data(Bytes::from_static(b"ok"), false).unwrap();
            let mut trailers = HeaderMap::new();
            for name in ["x-secret", "x-accel-redirect", "server", "grpc-status"] {
                trailers.insert(name, http::HeaderValue::from_static("0"));
            }
            stream.send_trailers(trailers).unwrap();
        }
    })
    .await;
    for engine in [EngineChoice::Direct, EngineChoice::Proxy] {
        let gateway = Gateway::driven(engine, &[backend.address], UpstreamProtocol::Grpc, hide).await;
        let seen = trailers(&gateway).await;
        assert!(seen.len() == 1 && seen["grpc-status"] == "0", "{engine:?}: {seen:?}");
    }
}
