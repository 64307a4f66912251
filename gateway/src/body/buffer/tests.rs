//! Buffered bodies in memory and on disk, with and without a length, and their failures.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use proptest::prelude::*;

use super::super::fake::Fake;
use super::*;
use crate::io::alarm::Alarm;
use crate::io::budget::Budget;

const MINUTE: Duration = Duration::from_secs(60);

fn disk(limit: u64) -> Arc<Disk> {
    let disk = Arc::new(Disk::default());
    disk.set_limit(limit);
    disk
}

async fn collect(
    buffer: &mut RequestBuffer,
    client: &mut Fake,
    time_limit: Duration,
) -> Result<(), FailureKind> {
    let (mut deadlines, mut alarm) = (Deadlines::default(), Alarm::default());
    poll_fn(|cx| match buffer.poll_collect(cx, client, &mut deadlines, time_limit) {
        Poll::Pending => deadlines.poll(cx, &mut alarm).map(Err),
        ready => ready,
    })
    .await
}

async fn given(buffer: &mut RequestBuffer) -> Vec<u8> {
    let mut out = Vec::new();
    while !buffer.is_given() {
        poll_fn(|cx| buffer.poll_give(cx, |_, bytes, _| out.extend_from_slice(bytes))).await.unwrap();
    }
    out
}

#[tokio::test]
async fn a_body_in_chunks_becomes_one_with_a_length() {
    let mut client = Fake::new(Framing::CHUNKED, &[b"5\r\nhel", b"", b"lo\r\n1;x=y\r\n!\r\n", b"0\r\n\r\n"]);
    let mut buffer = RequestBuffer::new(Framing::CHUNKED, Some(6), 0, disk(0));
    collect(&mut buffer, &mut client, MINUTE).await.unwrap();
    assert_eq!(buffer.coding(), Framing::Length(6));
    for _ in 0..2 {
        assert_eq!(given(&mut buffer).await, b"hello!");
        buffer.rewind();
    }
}

#[tokio::test]
async fn a_body_that_just_fits_into_memory_went_to_disk() {
    let body = [b'x'; LEAST];
    let framing = Framing::Length(body.len() as u64);
    let mut client = Fake::new(framing, &[&body]);
    let mut buffer = RequestBuffer::new(framing, None, 0, disk(0));
    collect(&mut buffer, &mut client, MINUTE).await.unwrap();
    assert_eq!(given(&mut buffer).await, body);
}

#[tokio::test]
async fn trailers_keep_a_body_in_chunks() {
    for (text, expected) in [
        (&b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"[..], &b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"[..]),
        (b"0\r\nX-Sum: 1\r\n\r\n", b"0\r\nX-Sum: 1\r\n\r\n"),
        (b"1\r\no\r\n1\r\nk\r\n0\r\nX-Sum: 1\r\n\r\n", b"2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n"),
    ] {
        let mut client = Fake::new(Framing::CHUNKED, &[text]);
        let mut buffer = RequestBuffer::new(Framing::CHUNKED, None, 0, disk(0));
        collect(&mut buffer, &mut client, MINUTE).await.unwrap();
        assert_eq!(buffer.coding(), Framing::CHUNKED);
        for _ in 0..2 {
            assert_eq!(given(&mut buffer).await, expected);
            buffer.rewind();
        }
    }
}

#[tokio::test]
async fn an_excessive_body_fails_at_the_limit() {
    let mut client = Fake::new(Framing::CHUNKED, &[b"5\r\nhello\r\n", b"1\r\n!\r\n", b"never read"]);
    let mut buffer = RequestBuffer::new(Framing::CHUNKED, Some(5), 0, disk(0));
    assert_eq!(collect(&mut buffer, &mut client, MINUTE).await, Err(FailureKind::BodyTooLarge));
    assert_eq!(buffer.length(), 6);
}

#[tokio::test]
async fn a_waiting_client_receives_100_continue() {
    let mut client = Fake::new(Framing::Length(2), &[b"ok"]);
    client.waits = true;
    let mut buffer = RequestBuffer::new(Framing::Length(2), None, 0, disk(0));
    collect(&mut buffer, &mut client, MINUTE).await.unwrap();
    assert_eq!(client.interims, [http::StatusCode::CONTINUE]);
    assert_eq!(client.flushes, 1);
}

#[tokio::test]
async fn a_client_that_leaves_or_stalls_ends_the_buffering() {
    let mut client = Fake::new(Framing::Length(2), &[b"o"]);
    let mut buffer = RequestBuffer::new(Framing::Length(2), None, 0, disk(0));
    assert_eq!(collect(&mut buffer, &mut client, MINUTE).await, Err(FailureKind::Client));
    let pauses: Vec<&[u8]> = vec![b""; 1_000_000];
    let mut client = Fake::new(Framing::Length(2), &pauses);
    let mut buffer = RequestBuffer::new(Framing::Length(2), None, 0, disk(0));
    let time_limit = Duration::from_millis(10);
    assert_eq!(collect(&mut buffer, &mut client, time_limit).await, Err(FailureKind::ClientTimeout));
}

#[tokio::test]
async fn a_full_disk_is_a_failure_and_no_hang() {
    let piece = vec![b'x'; PIECE];
    let framing = Framing::Length(3 * PIECE as u64);
    let mut client = Fake::new(framing, &[&piece, &piece, &piece]);
    let disk = disk(PIECE as u64);
    let mut buffer = RequestBuffer::new(framing, None, 0, disk.clone());
    assert_eq!(collect(&mut buffer, &mut client, MINUTE).await, Err(FailureKind::Storage));
    drop(buffer);
    assert_eq!(disk.used(), 0);
}

#[tokio::test]
async fn the_usual_body_sees_no_disk() {
    let piece = vec![b'x'; PIECE - 1];
    let framing = Framing::Length(PIECE as u64 - 1);
    let mut client = Fake::new(framing, &[&piece]);
    let mut buffer = RequestBuffer::new(framing, None, 8192, disk(0));
    collect(&mut buffer, &mut client, MINUTE).await.unwrap();
    assert_eq!(given(&mut buffer).await, piece);
}

/// Runs `test` on a thread with a runtime and a memory budget of its own.
fn with_budget(bytes: usize, test: impl Future<Output = ()> + Send + 'static) -> usize {
    let budget = Budget::new(bytes);
    let run = {
        let budget = budget.clone();
        move || {
            budget::serve(budget);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(test);
        }
    };
    std::thread::spawn(run).join().unwrap();
    budget.taken()
}

#[test]
fn without_memory_a_body_goes_to_disk_sooner() {
    let left = with_budget(16 * 1024, async {
        let piece = vec![b'x'; 16 * 1024];
        let framing = Framing::Length(3 * 16 * 1024);
        let mut client = Fake::new(framing, &[&piece, &piece, &piece]);
        let disk = disk(1 << 20);
        let mut buffer = RequestBuffer::new(framing, None, 1 << 20, disk.clone());
        collect(&mut buffer, &mut client, MINUTE).await.unwrap();
        assert_eq!(disk.used(), 3 * 16 * 1024);
        assert_eq!(given(&mut buffer).await.len(), 3 * 16 * 1024);
    });
    assert_eq!(left, 0);
}

#[test]
fn a_body_on_disk_kept_its_own_connection_from_reading_on() {
    let left = with_budget(1 << 20, async {
        let mut others = Reservation::default();
        others.hold(900 * 1024);
        let account = budget::Account::open();
        let piece = vec![b'x'; PIECE];
        let framing = Framing::Length(3 * PIECE as u64);
        let mut client = Fake::new(framing, &[&piece, &piece, &piece]);
        let mut buffer = RequestBuffer::new(framing, None, 0, disk(1 << 20));
        let serving = std::pin::pin!(async {
            collect(&mut buffer, &mut client, MINUTE).await.unwrap();
            let mut given = 0;
            while !buffer.is_given() {
                assert!(budget::has_room(), "after {given} bytes");
                poll_fn(|cx| buffer.poll_give(cx, |_, bytes, _| given += bytes.len())).await.unwrap();
            }
            assert_eq!(given, 3 * PIECE);
        });
        account.of(serving).await;
    });
    assert_eq!(left, 0);
}

#[test]
fn bytes_waiting_for_a_slow_disk_were_not_counted() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (resume, resumed) = std::sync::mpsc::channel::<()>();
    runtime.block_on(async {
        let slow = tokio::task::spawn_blocking(move || resumed.recv().unwrap());
        let piece = vec![b'x'; PIECE];
        let framing = Framing::Length(3 * PIECE as u64);
        let mut client = Fake::new(framing, &[&piece, &piece, &piece]);
        let mut buffer = RequestBuffer::new(framing, None, 0, disk(1 << 20));
        let deadlines = &mut Deadlines::default();
        let polled = poll_fn(|cx| Poll::Ready(buffer.poll_collect(cx, &mut client, deadlines, MINUTE))).await;
        assert!(polled.is_pending(), "the disk is busy");
        assert!(buffer.share.bytes() >= 2 * PIECE, "{}", buffer.share.bytes());
        resume.send(()).unwrap();
        slow.await.unwrap();
        collect(&mut buffer, &mut client, MINUTE).await.unwrap();
        assert_eq!(buffer.share.bytes(), 0);
        assert_eq!(given(&mut buffer).await.len(), 3 * PIECE);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_body_is_passed_on_unchanged(
        sizes in prop::collection::vec(1_usize..40_000, 0..12),
        memory in 0_u64..300_000,
        chunked in any::<bool>(),
        rewind_after in 0_usize..6,
    ) {
        let mut body = Vec::new();
        let mut pieces = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            let data: Vec<u8> = (0..*size).map(|at| (at.wrapping_mul(31) + index) as u8).collect();
            body.extend_from_slice(&data);
            pieces.push(match chunked {
                true => [format!("{size:x}\r\n").as_bytes(), &data, b"\r\n"].concat(),
                false => data,
            });
        }
        let framing = match chunked {
            true => {
                pieces.push(b"0\r\n\r\n".to_vec());
                Framing::CHUNKED
            }
            false => Framing::Length(body.len() as u64),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let out = runtime.block_on(async {
            let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let mut client = Fake::new(framing, &pieces);
            let mut buffer = RequestBuffer::new(framing, None, memory, disk(1 << 30));
            collect(&mut buffer, &mut client, MINUTE).await.unwrap();
            for _ in 0..rewind_after {
                if !buffer.is_given() {
                    poll_fn(|cx| buffer.poll_give(cx, |_, _, _| ())).await.unwrap();
                }
            }
            buffer.rewind();
            given(&mut buffer).await
        });
        prop_assert_eq!(out, body);
    }
}
