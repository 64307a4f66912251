//! An HTTP/2 client that sends arbitrary frames in any order.

use std::time::Duration;

pub(super) use sluice_testing::http2::frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::client::PATIENCE;
use super::gateway::Gateway;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) const NO_ERROR: u32 = 0;
pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const ENHANCE_YOUR_CALM: u32 = 11;

/// A connection on the level of frames.
pub(super) struct Frames {
    stream: TcpStream,
}

/// A received frame.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Returns the error code of a GOAWAY or RST_STREAM frame.
    pub(super) fn error(&self) -> u32 {
        let start = if self.kind == GOAWAY { 4 } else { 0 };
        u32::from_be_bytes(self.payload[start..start + 4].try_into().unwrap())
    }
}

impl Frames {
    /// Connects with these settings.
    pub(super) async fn connect(gateway: &Gateway, settings: &[(u16, u32)]) -> Self {
        Self::over(TcpStream::connect(gateway.http).await.unwrap(), settings).await
    }

    pub(super) async fn over(stream: TcpStream, settings: &[(u16, u32)]) -> Self {
        let mut frames = Self { stream };
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        let mut start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        start.extend(frame(SETTINGS, 0, 0, &payload));
        assert!(frames.send(&start).await);
        frames
    }

    /// Sends bytes. Returns false if the peer has closed the connection.
    pub(super) async fn send(&mut self, bytes: &[u8]) -> bool {
        timeout(PATIENCE, self.stream.write_all(bytes)).await.expect("in time").is_ok()
    }

    /// Sends without reading, for as long as the peer accepts data. Returns the number of accepted
    /// bytes.
    pub(super) async fn flood(&mut self, bytes: &[u8], most: usize) -> usize {
        let mut sent = 0;
        while sent < most {
            match timeout(Duration::from_secs(1), self.stream.write(bytes)).await {
                Ok(Ok(taken)) => sent += taken,
                Ok(Err(_)) | Err(_) => break,
            }
        }
        sent
    }

    /// Returns the next frame; `None` at the end of the connection.
    pub(super) async fn next(&mut self) -> Option<Frame> {
        let read = async {
            let mut head = [0; 9];
            self.stream.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; length];
            self.stream.read_exact(&mut payload).await.ok()?;
            let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
            Some(Frame { kind: head[3], stream, payload })
        };
        timeout(PATIENCE, read).await.expect("in time")
    }

    /// Returns the next frame of a kind.
    pub(super) async fn await_kind(&mut self, kind: u8) -> Option<Frame> {
        self.await_kinds(&[kind]).await
    }

    /// Returns the next frame of one of these kinds.
    pub(super) async fn await_kinds(&mut self, kinds: &[u8]) -> Option<Frame> {
        while let Some(frame) = self.next().await {
            if kinds.contains(&frame.kind) {
                return Some(frame);
            }
        }
        None
    }

    /// Returns the error code of the GOAWAY that ends the connection.
    pub(super) async fn goaway(&mut self) -> u32 {
        self.await_kind(GOAWAY).await.expect("GOAWAY").error()
    }
}

/// Returns the fields of a request for `a.example`, uncompressed (RFC 7541).
pub(super) fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = vec![0x86];
    for (name, value) in [(2, method), (4, path), (1, "a.example")] {
        block.push(name);
        text(&mut block, value);
    }
    for (name, value) in fields {
        block.push(0);
        text(&mut block, name);
        text(&mut block, value);
    }
    block
}

fn text(block: &mut Vec<u8>, text: &str) {
    assert!(text.len() < 127);
    block.push(text.len() as u8);
    block.extend(text.as_bytes());
}

/// Returns the HEADERS frame of a GET, which ends the stream.
pub(super) fn get(stream: u32, path: &str) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", path, &[]))
}

pub(super) fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())
}
