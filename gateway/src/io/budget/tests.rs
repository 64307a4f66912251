use std::task::{Wake, Waker};
use std::thread;

use proptest::prelude::*;

use super::account::Entered;
use super::*;

/// Runs `job` on a new thread that serves `budget`.
fn with(budget: &Arc<Budget>, job: impl FnOnce() + Send + 'static) {
    let budget = budget.clone();
    let run = move || {
        serve(budget);
        job();
    };
    thread::spawn(run).join().unwrap();
}

#[test]
fn reserved_bytes_are_returned() {
    let budget = Budget::new(10 << 20);
    with(&budget, || {
        let (mut one, mut other) = (Reservation::default(), Reservation::default());
        assert!(one.try_hold(3 << 20) && other.try_hold(5 << 20));
        assert!(!one.try_hold(9 << 20) && one.bytes() == 3 << 20);
        drop(other);
        assert!(one.try_hold(9 << 20));
        one.hold(20 << 20);
        assert!(!has_room());
        one.hold(1);
        assert!(has_room());
    });
    assert_eq!(budget.taken(), 0);
}

#[test]
fn a_thread_without_a_budget_has_no_bound() {
    thread::spawn(|| {
        let mut share = Reservation::default();
        assert!(share.try_hold(usize::MAX) && has_room());
        assert_eq!(stall_limit(Duration::from_secs(60)), Duration::from_secs(60));
    })
    .join()
    .unwrap();
}

#[test]
fn small_things_do_not_touch_what_workers_share() {
    let budget = Budget::new(128 << 20);
    let shared = budget.clone();
    with(&budget, move || {
        let mut first = Reservation::default();
        first.hold(100);
        let taken = shared.taken();
        for bytes in 1..10_000 {
            let mut share = Reservation::default();
            share.hold(bytes);
        }
        assert_eq!(shared.taken(), taken);
    });
}

#[test]
fn a_waiter_is_woken_by_another_thread() {
    let budget = Budget::new(1 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (full, is_full) = std::sync::mpsc::channel();
    let (waits, is_waiting) = std::sync::mpsc::channel();
    let holder = thread::spawn({
        let budget = budget.clone();
        move || {
            serve(budget);
            let mut share = Reservation::default();
            share.hold(1 << 20);
            full.send(()).unwrap();
            is_waiting.recv().unwrap();
        }
    });
    with(&budget, move || {
        is_full.recv().unwrap();
        runtime.block_on(async {
            let mut ticket = WaitTicket::default();
            std::future::poll_fn(|cx| {
                let room = poll_room(cx, &mut ticket);
                let _ = waits.send(());
                room
            })
            .await;
        });
    });
    holder.join().unwrap();
    assert_eq!(budget.taken(), 0);
}

#[test]
fn a_stalled_client_has_less_time_and_less_is_read_while_memory_is_short() {
    let budget = Budget::new(64 << 20);
    with(&budget, || {
        let minute = Duration::from_secs(60);
        let mut share = Reservation::default();
        for (mebibytes, expected, read) in
            [(1, 60, 64), (31, 60, 64), (33, 15, 16), (49, 5, 4), (64, 5, 4), (1, 60, 64)]
        {
            share.hold(mebibytes << 20);
            assert_eq!(stall_limit(minute), Duration::from_secs(expected), "{mebibytes}");
            assert_eq!(portion(64 * 1024), read * 1024, "{mebibytes}");
        }
    });
}

/// Grows `share` in portions for `account` until no more is granted.
fn fill(account: &Account, share: &mut Reservation) {
    let _entered = account.enter();
    while has_room() {
        share.hold(share.bytes() + portion(64 * 1024));
    }
}

#[test]
fn forty_greedy_connections_leave_a_quarter() {
    let budget = Budget::new(64 << 20);
    with(&budget, || {
        let mut greedy = Vec::from_iter((0..40).map(|_| (Account::open(), Reservation::default())));
        let (first, share) = &mut greedy[0];
        fill(first, share);
        assert!((5 << 20..7 << 20).contains(&share.bytes()), "alone: {}", share.bytes());
        for (account, share) in &mut greedy {
            fill(account, share);
        }
        // The first connection already exceeds its maximum.
        let (first, share) = &mut greedy[0];
        let _entered = first.enter();
        assert!(!has_room() && !share.try_hold(share.bytes() + 1));
        drop(_entered);
        let held: usize = greedy.iter().map(|(_, share)| share.bytes()).sum();
        let left = (64 << 20) - held;
        assert!(left >= (64 << 20) / 4, "{left}");
        let (other, mut share) = (Account::open(), Reservation::default());
        let _entered = other.enter();
        assert!(has_room() && share.try_hold(16 * 1024));
        assert!(!share.try_hold(left / 2));
    });
    assert_eq!(budget.taken(), 0);
}

#[test]
fn a_connection_by_itself_has_room_for_the_costliest_compression() {
    let budget = Budget::new(128 << 20);
    with(&budget, || {
        let account = Account::open();
        let _entered = account.enter();
        let (mut head, mut brotli) = (Reservation::default(), Reservation::default());
        assert!(head.try_hold(32 * 1024) && brotli.try_hold(12 << 20));
    });
}

#[test]
fn five_hundred_greedy_connections_left_next_to_nothing() {
    const ALL: usize = 128 << 20;
    let budget = Budget::new(ALL);
    with(&budget, || {
        let mut greedy = Vec::from_iter((0..500).map(|_| (Account::open(), Reservation::default())));
        for (account, share) in &mut greedy {
            fill(account, share);
        }
        let left = ALL - greedy.iter().map(|(_, share)| share.bytes()).sum::<usize>();
        assert!(left >= ALL / 16, "{left}");
        let (other, mut share) = (Account::open(), Reservation::default());
        let _entered = other.enter();
        assert!(has_room() && share.try_hold(9 * 1024), "a large head");
    });
}

#[test]
fn a_waiter_that_holds_too_much_is_not_woken() {
    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let budget = Budget::new(1 << 20);
    with(&budget, || {
        let count = Arc::<Count>::default();
        let waker = Waker::from(count.clone());
        let mut cx = Context::from_waker(&waker);
        let woken = || count.0.swap(0, SeqCst);
        let (greedy, mut one, mut other) = (Account::open(), Reservation::default(), Reservation::of_flow());
        let mut ticket = WaitTicket::default();
        let entered: Entered = greedy.enter();
        one.hold(20 * 1024);
        other.hold(500 * 1024);
        assert!(poll_room(&mut cx, &mut ticket).is_pending());
        drop(entered);
        let (modest, mut some) = (Account::open(), Reservation::default());
        let entered = modest.enter();
        assert!(some.try_hold(8 * 1024));
        drop(some);
        assert_eq!(woken(), 0, "it would find no room");
        drop(entered);
        other.hold(0);
        assert_eq!(woken(), 1, "its own connection has given some back");
        let _entered = greedy.enter();
        assert!(poll_room(&mut cx, &mut ticket).is_ready());
        assert_eq!(RESERVE.with_borrow(|stock| stock.process.as_ref().unwrap().waits()), 1);
    });
}

#[test]
fn bytes_of_a_request_do_not_block_its_response() {
    let budget = Budget::new(1 << 20);
    with(&budget, || {
        let (account, mut kept, mut rest) = (Account::open(), Reservation::default(), Reservation::of_flow());
        let _entered = account.enter();
        kept.hold(900 * 1024);
        assert!(!has_room() && has_room_to_respond());
        rest.hold(4096);
        assert!(!has_room_to_respond(), "its client takes nothing");
        rest.hold(0);
        assert!(has_room_to_respond());
        kept.hold(1 << 20);
        assert!(!has_room_to_respond(), "nothing is left");
    });
}

#[test]
fn bytes_that_outlive_a_connection_do_not_count_for_the_next() {
    let budget = Budget::new(1 << 20);
    with(&budget, || {
        let mut share = Reservation::default();
        let account = Account::open();
        let entered = account.enter();
        share.hold(400 * 1024);
        drop((entered, account));
        let next = Account::open();
        let entered = next.enter();
        assert_eq!(RESERVE.with_borrow(|stock| stock.accounts.held(stock.accounts.current())), 0);
        drop((entered, share));
        let again = Account::open();
        let _entered = again.enter();
        assert!(Reservation::default().try_hold(80 * 1024), "all is there again");
    });
}

proptest! {
    #[test]
    fn reservations_stay_within_the_limit_and_are_all_returned(
        limit in 1_usize..2 << 20,
        steps in prop::collection::vec((0_usize..6, 0_usize..1 << 20, any::<bool>()), 0..60),
    ) {
        let budget = Budget::new(limit);
        let shared = budget.clone();
        with(&budget, move || {
            let mut shares: [Reservation; 6] = Default::default();
            for (index, bytes, force) in steps {
                let others: usize = shares.iter().map(Reservation::bytes).sum::<usize>() - shares[index].bytes();
                match force {
                    true => shares[index].hold(bytes),
                    false => {
                        let grows = bytes > shares[index].bytes();
                        let got = shares[index].try_hold(bytes);
                        assert!(!(got && grows) || others + bytes <= limit);
                    }
                }
                let held: usize = shares.iter().map(Reservation::bytes).sum();
                assert!(held <= shared.taken());
            }
        });
        prop_assert_eq!(budget.taken(), 0);
    }
}
