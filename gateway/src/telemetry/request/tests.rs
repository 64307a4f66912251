//! The request metrics in Prometheus' text format.

use std::time::Duration;

use http::Method;
use prometheus::TextEncoder;

use super::*;

fn meters(change: impl FnOnce(&mut TelemetryOptions)) -> (Registry, Arc<RequestMeters>) {
    let mut options = TelemetryOptions {
        controller_namespace: "ns".into(),
        controller_pod: "pod".into(),
        ..TelemetryOptions::default()
    };
    change(&mut options);
    let registry = Registry::new();
    let meters = RequestMeters::new(&options, &registry).unwrap();
    (registry, meters)
}

fn labels(host: &str) -> TargetLabels {
    TargetLabels {
        host: host.into(),
        path: "/cart".into(),
        namespace: "shop".into(),
        ingress: "web".into(),
        service: "cart".into(),
        canary: "".into(),
    }
}

fn text(registry: &Registry) -> String {
    TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
}

#[test]
fn a_request_is_recorded_with_all_labels() {
    let (registry, meters) = meters(|_| ());
    let sample =
        RequestSample { request: Duration::from_millis(7), bytes_sent: 120, ..RequestSample::default() };
    meters.target(labels("a.example")).record(&Method::GET, 200, &sample);
    let target = meters.target(labels("a.example"));
    target.record(&Method::GET, 200, &sample);
    let text = text(&registry);
    let tail = "canary=\"\",controller_class=\"k8s.io/ingress-nginx\",controller_namespace=\"ns\",\
                controller_pod=\"pod\",host=\"a.example\",ingress=\"web\",method=\"GET\",\
                namespace=\"shop\",path=\"/cart\",service=\"cart\",status=\"200\"";
    // The first target was dropped with its series before the second was created.
    assert!(text.contains(&format!("nginx_ingress_controller_requests{{{tail}}} 1\n")), "{text}");
    assert!(
        text.contains(&format!(
            "nginx_ingress_controller_request_duration_seconds_bucket{{{tail},le=\"0.01\"}} 1"
        )),
        "{text}"
    );
    assert!(!text.contains("connect_duration_seconds_count{"), "no endpoint, yet a sample: {text}");
}

#[test]
fn a_counter_survives_until_the_last_target_with_its_labels_is_gone() {
    let (registry, meters) = meters(|_| ());
    let old = meters.target(labels("a.example"));
    let other = meters.target(labels("b.example"));
    old.record(&Method::GET, 200, &RequestSample::default());
    other.record(&Method::GET, 200, &RequestSample::default());
    let new = meters.target(labels("a.example"));
    drop(old);
    new.record(&Method::GET, 200, &RequestSample::default());
    assert!(text(&registry).lines().any(|line| line.contains("a.example") && line.ends_with(" 2")));
    drop(new);
    let text = text(&registry);
    assert!(!text.contains("a.example"), "{text}");
    assert!(text.contains("b.example"), "{text}");
}

#[test]
fn made_up_methods_share_a_label_value() {
    let (registry, meters) = meters(|options| options.status_classes = true);
    let target = meters.target(labels("a.example"));
    for method in ["BREW", "WHEN", "get"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        target.record(&method, 418, &RequestSample::default());
    }
    let text = text(&registry);
    let line = text.lines().find(|line| line.starts_with("nginx_ingress_controller_requests{")).unwrap();
    assert!(line.contains("method=\"OTHER\"") && line.contains("status=\"4xx\"") && line.ends_with(" 3"));
}

#[test]
fn excluded_metrics_and_the_host_label_can_be_left_out() {
    let (registry, meters) = meters(|options| {
        options.per_host = false;
        options.exclude = vec!["nginx_ingress_controller_bytes_sent".into(), "request_size".into()];
    });
    let target = meters.target(labels("a.example"));
    target.record(&Method::GET, 200, &RequestSample::default());
    let text = text(&registry);
    assert!(!text.contains("host=") && !text.contains("bytes_sent") && !text.contains("request_size"));
    assert!(text.contains("response_size"));
}

#[test]
fn undefined_hosts_are_recorded_when_asked_for_and_bounded() {
    let (_, silent) = meters(|_| ());
    assert!(silent.undefined_host("x.example").is_none());
    let (registry, meters) = meters(|options| options.per_undefined_host = true);
    for number in 0..UNDEFINED_HOSTS + 10 {
        let target = meters.undefined_host(&format!("h{number}.example")).unwrap();
        target.record(&Method::GET, 404, &RequestSample::default());
    }
    let last = format!("host=\"h{}.example\"", UNDEFINED_HOSTS + 5);
    let text = text(&registry);
    assert!(text.contains("host=\"h0.example\"") && !text.contains(&last));
    let line = text
        .lines()
        .find(|line| line.starts_with("nginx_ingress_controller_requests{") && line.contains("host=\"_\""));
    assert!(line.unwrap().ends_with(" 10"));
}

#[test]
fn without_the_label_host_requests_for_unknown_hosts_count() {
    let (registry, meters) = meters(|options| options.per_host = false);
    for host in ["x.example", "y.example"] {
        meters.undefined_host(host).unwrap().record(&Method::GET, 404, &RequestSample::default());
    }
    let text = text(&registry);
    let mut lines = text.lines().filter(|line| line.starts_with("nginx_ingress_controller_requests{"));
    assert!(lines.next().unwrap().ends_with(" 2"));
    assert_eq!(lines.next(), None);
}

#[test]
fn a_host_that_is_longer_than_a_name_can_be_has_no_label_of_its_own() {
    let (registry, meters) = meters(|options| options.per_undefined_host = true);
    for host in ["x".repeat(8 << 10), "x".repeat(254), "y".repeat(253)] {
        meters.undefined_host(&host).unwrap().record(&Method::GET, 404, &RequestSample::default());
    }
    let text = text(&registry);
    assert!(text.contains(&format!("host=\"{}\"", "y".repeat(253))) && text.contains("host=\"_\""));
    assert!(!text.contains("xxx"), "its length would be the client's choice");
}

#[test]
fn the_page_is_as_the_library_would_write_it() {
    let (registry, meters) = meters(|_| ());
    let target = meters.target(labels("a.example"));
    let sample = RequestSample {
        connect: Some(Duration::from_micros(300)),
        header: Some(Duration::from_millis(6)),
        response: Some(Duration::from_millis(25)),
        request: Duration::from_millis(26),
        request_size: 80,
        bytes_sent: 12_345,
        trace: None,
    };
    target.record(&Method::GET, 200, &sample);
    target.record(
        &Method::GET,
        200,
        &RequestSample { connect: None, request: Duration::from_secs(20), ..sample },
    );
    target.record(
        &Method::POST,
        404,
        &RequestSample { request: Duration::from_millis(1), ..RequestSample::default() },
    );
    // Written by the vectors of the `prometheus` crate from the same samples.
    assert_eq!(text(&registry), include_str!("tests/page.txt"));
}

#[test]
fn buckets_that_do_not_rise_are_refused() {
    let options = TelemetryOptions { time_buckets: vec![1.0, 1.0], ..TelemetryOptions::default() };
    assert!(RequestMeters::new(&options, &Registry::new()).is_err());
}

/// Returns the request counters of all targets by host.
fn counts(registry: &Registry) -> std::collections::HashMap<String, u64> {
    let is_count = |line: &&str| line.starts_with("nginx_ingress_controller_requests{");
    let count = |line: &str| {
        let host = line.split("host=\"").nth(1).unwrap().split('"').next().unwrap();
        (host.to_owned(), line.rsplit(' ').next().unwrap().parse().unwrap())
    };
    text(registry).lines().filter(is_count).map(count).collect()
}

#[test]
fn rows_per_worker_lose_nothing_and_counters_never_fall() {
    const WORKERS: usize = 4;
    const ROUNDS: u64 = 400;
    // More than the rows of a worker, so that rows move all the time.
    const TARGETS: usize = 300;
    let (registry, meters) = meters(|_| ());
    let targets: Vec<_> =
        (0..TARGETS).map(|index| meters.target(labels(&format!("{index}.example")))).collect();
    let sample =
        RequestSample { request: Duration::from_millis(7), bytes_sent: 120, ..RequestSample::default() };
    let requests = std::thread::scope(|scope| {
        let work = |worker: usize| {
            let _place = crate::process::per_worker::enter();
            let mut recorded = 0;
            for round in 0..ROUNDS {
                // One target that all threads use all the time, and the others in turn. Those that
                // share a slot with an earlier one are recorded often enough to take over its row.
                let other = (round as usize * 7 + worker) % TARGETS;
                let often = if other < own::ROWS { 1 } else { 2 * usize::from(own::FIRST_LEAD) };
                for index in [0].into_iter().chain(std::iter::repeat_n(other, often)) {
                    targets[index].record(&Method::GET, 200, &sample);
                    recorded += 1;
                }
            }
            recorded
        };
        let threads: Vec<_> = (0..WORKERS).map(|worker| scope.spawn(move || work(worker))).collect();
        let mut before = counts(&registry);
        while threads.iter().any(|thread| !thread.is_finished()) {
            let now = counts(&registry);
            for (host, count) in &before {
                assert!(now[host] >= *count, "{host} had {count} and has {}", now[host]);
            }
            before = now;
        }
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<u64>()
    });
    let all = counts(&registry);
    assert_eq!(all.values().sum::<u64>(), requests);
    assert!(all["0.example"] >= WORKERS as u64 * ROUNDS);
    let text = text(&registry);
    let sum = |name: &str| -> f64 {
        let of_name =
            text.lines().filter(|line| line.starts_with(&format!("nginx_ingress_controller_{name}{{")));
        of_name.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    assert_eq!(sum("response_size_sum"), 120.0 * requests as f64);
    assert_eq!(sum("request_duration_seconds_count"), requests as f64);
}

/// Returns series with the same slot in a worker's rows. Their numbers may have gaps, because other
/// tests create series too.
fn in_one_place<const COUNT: usize>(families: &Families) -> [Series; COUNT] {
    let first = Series::new(families);
    let place = |series: &Series| series.number() % own::ROWS as u64;
    std::array::from_fn(|_| {
        loop {
            let next = Series::new(families);
            if place(&next) == place(&first) {
                return next;
            }
        }
    })
}

/// Regression: with more hosts in use than rows, each request moved a row, which cost more than
/// recording it.
#[test]
fn series_that_take_turns_in_one_place_seldom_move() {
    let (_registry, meters) = meters(|_| ());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _place = crate::process::per_worker::enter();
            let series: [Series; 4] = in_one_place(&meters.families);
            let has_row = |series: &Series| meters.own.own().unwrap().keep().row(series).is_some();
            let mut moves = 0;
            let mut owner = None;
            for _ in 0..500 {
                for series in &series {
                    meters.record(series, &RequestSample::default());
                    let now = series.number();
                    if has_row(series) && owner.replace(now) != Some(now) {
                        moves += 1;
                    }
                }
            }
            let most = 4 * 500 / usize::from(own::FIRST_LEAD) + 1;
            assert!((2..=most).contains(&moves), "{moves} moves");
        });
    });
}

#[test]
fn a_series_that_is_recorded_often_keeps_its_row() {
    let (_registry, meters) = meters(|_| ());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _place = crate::process::per_worker::enter();
            let families = &meters.families;
            let [often, seldom] = &in_one_place(families);
            let has_row = |series: &Series| meters.own.own().unwrap().keep().row(series).is_some();
            for series in [often, often, often, seldom] {
                meters.record(series, &RequestSample::default());
            }
            assert!(has_row(often) && !has_row(seldom));
            // The initial lead, plus the requests after the first, minus the one above.
            let wanted = own::FIRST_LEAD + 2;
            for _ in 0..wanted {
                meters.record(seldom, &RequestSample::default());
            }
            assert!(!has_row(often) && has_row(seldom), "there were more requests than uses");
            let count = |series: &Series| {
                let kept: Vec<_> = meters.own.all().map(WorkerRows::keep).collect();
                let metric = own::sum(series, &kept).collect(family::Family::Requests, families).unwrap();
                metric.get_counter().get_value()
            };
            assert_eq!((count(often), count(seldom)), (3.0, f64::from(1 + wanted)));
        });
    });
}
