use std::future::poll_fn;
use std::task::Waker;

use super::*;
use crate::message::framing::Framing;

const SETTINGS: ResponseBuffering =
    ResponseBuffering { enabled: true, buffers: 1, buffer_size: 4096, busy: None, disk: 1 << 20 };

fn buffer(disk: &Arc<Disk>) -> ResponseBuffer {
    ResponseBuffer::new(&SETTINGS, disk.clone())
}

fn disk(limit: u64) -> Arc<Disk> {
    let disk = Disk::default();
    disk.set_limit(limit);
    Arc::new(disk)
}

fn response(framing: Framing) -> Response {
    let mut response = Response::default();
    response.framing = framing;
    response
}

/// A part of a body in which every position has another value than its neighbours.
fn part(from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|at| (at % 251) as u8).collect()
}

/// Adds bytes as long as there is room, up to `most`. Returns their number.
async fn fill(buffer: &mut ResponseBuffer, from: usize, most: usize) -> usize {
    let (mut response, mut at) = (response(Framing::Opaque), from);
    while at < most {
        // Without room, only the disk can make some.
        let room = poll_fn(|cx| match buffer.poll_room(cx) {
            Poll::Pending if buffer.spill.as_ref().is_none_or(|spill| spill.memory() == 0) => {
                Poll::Ready(Ok(false))
            }
            other => other.map_ok(|()| true),
        });
        if !room.await.unwrap() {
            break;
        }
        let end = most.min(at + 10_000);
        buffer.pass(&mut response, &part(at, end)).unwrap();
        at = end;
    }
    at
}

async fn empty(buffer: &mut ResponseBuffer) -> Vec<u8> {
    let mut all = Vec::new();
    while !buffer.is_empty() {
        let next = poll_fn(|cx| buffer.poll_next(cx, usize::MAX)).await.unwrap();
        assert!(next.len() <= 8192, "{} bytes at a time", next.len());
        all.extend_from_slice(&next);
    }
    all
}

#[tokio::test]
async fn what_exceeds_memory_goes_to_disk_and_comes_back_in_order() {
    let disk = disk(u64::MAX);
    let mut buffer = buffer(&disk);
    let length = fill(&mut buffer, 0, 500_000).await;
    assert_eq!(length, 500_000);
    assert!(disk.used() >= 400_000, "{} on disk", disk.used());
    assert!(buffer.in_memory() <= LEAST + 10_000);
    assert_eq!(empty(&mut buffer).await, part(0, length));
    assert_eq!(disk.used(), 0, "an empty file is given back");
}

#[tokio::test]
async fn reading_and_writing_alternate() {
    let disk = disk(u64::MAX);
    let mut buffer = buffer(&disk);
    let (mut written, mut all) = (0, Vec::new());
    for round in 1..=20 {
        written = fill(&mut buffer, written, round * 90_000).await;
        for _ in 0..4 {
            all.extend(poll_fn(|cx| buffer.poll_next(cx, usize::MAX)).await.unwrap());
        }
    }
    all.extend(empty(&mut buffer).await);
    assert_eq!(all, part(0, written));
    assert_eq!(disk.used(), 0);
}

#[tokio::test]
async fn the_endpoint_waits_where_nothing_has_room() {
    let disk = disk(u64::MAX);
    let mut limited = buffer(&disk);
    let length = fill(&mut limited, 0, usize::MAX).await;
    let most = SETTINGS.disk as usize + LEAST;
    assert!((most - LEAST..most + 10_000).contains(&length), "{length} bytes");
    assert_eq!(empty(&mut limited).await, part(0, length));

    let mut memory_only = ResponseBuffer::new(&ResponseBuffering { disk: 0, ..SETTINGS }, disk.clone());
    let length = fill(&mut memory_only, 0, usize::MAX).await;
    assert!((LEAST..LEAST + 10_000).contains(&length), "{length} bytes");
    assert_eq!(disk.used(), 0);
}

#[tokio::test]
async fn a_full_disk_loses_nothing() {
    let disk = disk(100_000);
    let mut buffer = buffer(&disk);
    let length = fill(&mut buffer, 0, usize::MAX).await;
    assert!(length < 100_000 + 2 * LEAST, "{length} bytes");
    assert_eq!(empty(&mut buffer).await, part(0, length));
}

#[tokio::test]
async fn a_folder_that_does_not_exist_loses_nothing() {
    let disk = disk(u64::MAX);
    disk.set_path("/proc/there-is-no-such-folder".into());
    let mut buffer = buffer(&disk);
    let length = fill(&mut buffer, 0, usize::MAX).await;
    assert!((LEAST..LEAST + 10_000).contains(&length), "{length} bytes");
    assert_eq!(empty(&mut buffer).await, part(0, length));
}

#[test]
fn a_whole_response_needs_no_room() {
    let mut buffer = ResponseBuffer::new(&ResponseBuffering { disk: 0, ..SETTINGS }, disk(0));
    let mut cx = Context::from_waker(Waker::noop());
    let mut response = response(Framing::Length(100_001));
    assert_eq!(buffer.pass(&mut response, &part(0, 100_000)), Ok(Passed { taken: 100_000, data: 100_000 }));
    assert!(buffer.poll_room(&mut cx).is_pending());
    assert_eq!(buffer.pass(&mut response, b"xy"), Ok(Passed { taken: 1, data: 1 }));
    assert!(buffer.poll_room(&mut cx).is_ready());
}

#[test]
fn chunks_stay_as_they_are() {
    let mut buffer = ResponseBuffer::new(&SETTINGS, disk(0));
    let mut chunked = response(Framing::CHUNKED);
    let coded = b"5\r\nhello\r\n0\r\n\r\n";
    assert_eq!(buffer.pass(&mut chunked, coded), Ok(Passed { taken: coded.len(), data: 5 }));
    assert!(chunked.framing.is_done());
    let next = buffer.poll_next(&mut Context::from_waker(Waker::noop()), usize::MAX);
    assert_eq!(next, Poll::Ready(Ok(coded.to_vec())));
    let malformed = buffer.pass(&mut response(Framing::CHUNKED), b"no size\r\n");
    assert_eq!(malformed, Err(FailureKind::InvalidHead));
}

/// The endpoint waited for the client, although the disk had room.
#[tokio::test]
async fn bytes_that_wait_for_a_limited_client_do_not_stop_the_endpoint() {
    let disk = disk(u64::MAX);
    let mut buffer = buffer(&disk);
    let mut response = response(Framing::Opaque);
    buffer.pass(&mut response, &part(0, 4 * LEAST)).unwrap();
    let mut all = poll_fn(|cx| buffer.poll_next(cx, 1)).await.unwrap();
    assert_eq!(all.len(), 1);
    let length = fill(&mut buffer, 4 * LEAST, 500_000).await;
    assert_eq!(length, 500_000);
    all.extend(empty(&mut buffer).await);
    assert_eq!(all, part(0, length));
}
