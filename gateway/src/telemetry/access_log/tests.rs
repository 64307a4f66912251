//! Delivery, order and loss of the lines of the access log.

use super::*;
use crate::pipeline::tests::fixture::Output;

fn send(log: &AccessLog, line: &[u8]) {
    log.send(|out| out.extend_from_slice(line));
}

#[test]
fn lines_arrive_in_order_and_a_flush_waits_for_them() {
    let output = Output::default();
    let log = AccessLog::to(output.clone()).unwrap();
    for number in 0..1000 {
        send(&log, format!("{number}\n").as_bytes());
    }
    assert!(log.flush(Duration::from_secs(30)));
    let expected: String = (0..1000).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8(output.0.lock().unwrap().clone()).unwrap(), expected);
    assert_eq!(log.dropped(), 0);
}

#[test]
fn a_reader_that_stands_still_costs_lines_not_time() {
    let output = Output::default();
    let stopped = output.0.lock().unwrap();
    let log = AccessLog::to(output.clone()).unwrap();
    let line = [b'x'; 1024];
    let sent = 2 * (WAITING / line.len()) as u64;
    for _ in 0..sent {
        send(&log, &line);
    }
    let dropped = log.dropped();
    assert!(dropped > 0, "nothing was dropped");
    drop(stopped);
    assert!(log.flush(Duration::from_secs(30)));
    let written = output.0.lock().unwrap().len() as u64 / line.len() as u64;
    assert_eq!(written + dropped, sent);
}

#[test]
fn a_gathering_thread_passes_lines_on_request_or_when_there_are_many() {
    let output = Output::default();
    let log = AccessLog::to(output.clone()).unwrap();
    let written = || {
        assert!(log.flush(Duration::from_secs(30)));
        output.0.lock().unwrap().len()
    };
    AccessLog::gather();
    send(&log, b"line\n");
    assert_eq!(written(), 0);
    log.pass_on();
    assert_eq!(written(), 5);
    for _ in 0..GATHERED / 5 + 1 {
        send(&log, b"line\n");
    }
    assert_eq!(written(), 5 + (GATHERED / 5 + 1) * 5);
    log.pass_on();
    assert_eq!((written(), log.dropped()), (5 + (GATHERED / 5 + 1) * 5, 0));
}

#[test]
fn lines_of_many_threads_are_whole_and_in_the_order_of_each() {
    let output = Output::default();
    let log = AccessLog::to(output.clone()).unwrap();
    thread::scope(|scope| {
        for name in 0..4 {
            let log = &log;
            scope.spawn(move || {
                // One of the threads has no queue of its own.
                let _place = (name > 0).then(crate::process::per_worker::enter);
                AccessLog::gather();
                for number in 0..2000 {
                    send(log, format!("{name} {number}\n").as_bytes());
                    if number % 7 == 0 {
                        log.pass_on();
                    }
                }
                log.pass_on();
            });
        }
    });
    assert!(log.flush(Duration::from_secs(30)));
    let text = String::from_utf8(output.0.lock().unwrap().clone()).unwrap();
    for name in 0..4 {
        let name = format!("{name} ");
        let numbers: Vec<usize> =
            text.lines().filter_map(|line| line.strip_prefix(&name)?.parse().ok()).collect();
        assert_eq!(numbers, (0..2000).collect::<Vec<_>>());
    }
    assert_eq!(log.dropped(), 0);
}

#[test]
fn lines_sent_before_the_last_sender_is_dropped_are_written() {
    let output = Output::default();
    let (token, outcome) = std::sync::mpsc::channel::<()>();
    let log = AccessLog::watched(output.clone(), token).unwrap();
    send(&log, b"line\n");
    drop(log);
    assert!(outcome.recv_timeout(Duration::from_secs(30)).is_err(), "the writer has ended");
    assert_eq!(output.0.lock().unwrap().len(), 5);
}

#[test]
fn the_death_of_the_writer_does_not_go_unnoticed() {
    struct Panics;
    impl Write for Panics {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            panic!("on purpose");
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let (token, outcome) = std::sync::mpsc::channel::<()>();
    let log = AccessLog::watched(Panics, token).unwrap();
    send(&log, b"line\n");
    let outcome = outcome.recv_timeout(Duration::from_secs(30));
    assert_eq!(outcome, Err(std::sync::mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn an_output_that_fails_counts_as_dropped() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = AccessLog::to(Broken).unwrap();
    send(&log, b"line\n");
    assert!(log.flush(Duration::from_secs(30)));
    assert_eq!(log.dropped(), 1);
}
