//! HTTP/2 endpoints: cancelled calls, and frames that only show that an endpoint is alive.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::Ping;
use http::{Request, Response};
use sluice_config::{GlobalSettings, UpstreamProtocol};
use tokio::sync::mpsc;

use super::backend::Backend;
use super::gateway::{Gateway, through_proxy};
use super::http2::plain;

const URL: &str = "http://a.example/x";

#[tokio::test]
async fn cancelled_calls_ended_the_connection_of_the_others() {
    cancel_calls(false).await;
}

#[tokio::test]
async fn calls_cancelled_within_responses_ended_the_connection_of_others() {
    cancel_calls(true).await;
}

/// Cancels calls, whose responses have `begun` or not, beside one that goes on.
async fn cancel_calls(begun: bool) {
    // Pingora has an HTTP/2 client of its own.
    if through_proxy() {
        return;
    }
    const CALLS: usize = 15;
    let (cancelled, mut cancellations) = mpsc::unbounded_channel();
    let (called, mut calls) = mpsc::unbounded_channel();
    let backend = Backend::scripted(move |number, stream| {
        let (called, cancelled) = (called.clone(), cancelled.clone());
        async move {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((_, mut reply))) = connection.accept().await {
                called.send(number).unwrap();
                let cancelled = cancelled.clone();
                tokio::spawn(async move {
                    let reset = match begun {
                        true => {
                            let mut body = reply.send_response(Response::new(()), false).unwrap();
                            poll_fn(|cx| body.poll_reset(cx)).await
                        }
                        false => poll_fn(|cx| reply.poll_reset(cx)).await,
                    };
                    let _ = cancelled.send(reset.is_ok());
                });
            }
        }
    })
    .await;
    let gateway = Gateway::with(&[backend.address], UpstreamProtocol::Grpc, |_| ()).await;
    let (mut client, _) = plain(&gateway).await;
    let mut call = || client.send_request(Request::get(URL).body(()).unwrap(), true).unwrap();
    let other = call();
    assert_eq!(calls.recv().await, Some(0));
    let cancelling: Vec<_> = (0..CALLS).map(|_| call()).collect();
    for _ in 0..CALLS {
        assert_eq!(calls.recv().await, Some(0), "calls share a connection");
    }
    if begun {
        for (response, _) in cancelling {
            drop(response.await.unwrap());
        }
    } else {
        drop(cancelling);
    }
    for _ in 0..CALLS {
        assert_eq!(cancellations.recv().await, Some(true));
    }
    let next = call();
    assert_eq!(calls.recv().await, Some(1), "the endpoint may soon end the first connection");
    drop((other, next));
}

#[tokio::test]
async fn calls_were_cut_although_their_endpoint_sent_pings() {
    // Pingora has an HTTP/2 client of its own.
    if through_proxy() {
        return;
    }
    const PINGS: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(100);
    let backend = Backend::scripted(|_, stream| async move {
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let mut pings = connection.ping_pong();
        while let Some(Ok((_, mut reply))) = connection.accept().await {
            let mut body = reply.send_response(Response::new(()), false).unwrap();
            let mut pings = pings.take().unwrap();
            tokio::spawn(async move {
                for _ in 0..PINGS {
                    tokio::time::sleep(PAUSE).await;
                    pings.ping(Ping::opaque()).await.unwrap();
                }
                body.send_data(Bytes::from_static(b"at last"), true).unwrap();
            });
        }
    })
    .await;
    let tune = |settings: &mut GlobalSettings| settings.proxy_read_timeout = PINGS * PAUSE / 2;
    let gateway = Gateway::with(&[backend.address], UpstreamProtocol::Grpc, tune).await;
    let (mut client, _) = plain(&gateway).await;
    let (response, _) = client.send_request(Request::get(URL).body(()).unwrap(), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "at last");
}
