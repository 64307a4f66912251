//! The reader after repeated refusals. Everything else is tested against a fake API server
//! (`controller/tests/kubernetes/`), where these tests would take a minute.

use std::sync::Arc;

use tokio::sync::Semaphore;

use sluice_config::NamespacedName;

use super::super::api_health::ApiHealth;
use super::super::known::Version;
use super::super::{client, plan};
use super::*;
use crate::Options;
use crate::panic_guard::PanicGuard;
use crate::store::{Object, Prune};

fn reader() -> Reader {
    let api_health = ApiHealth::new();
    let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let client = client::of_watches(&config, &api_health).unwrap();
    let (events, _) = mpsc::channel(1);
    let options = Options::default();
    let watcher = |(number, scope)| Watcher {
        fetches: Arc::new(Semaphore::new(1)),
        client: client.clone(),
        api_health: api_health.clone(),
        prune: Prune::new(&options),
        events: events.clone(),
        number,
        scope,
        _guard: PanicGuard::default(),
    };
    let watchers = plan::plan(&options).into_iter().enumerate().map(watcher).collect();
    Reader::new(watchers, Needs::nothing(), api_health.subscribe())
}

fn say(reader: &mut Reader, kind: Kind, what: What) -> Option<Batch> {
    let watches = reader.watches.iter();
    let number = watches.map(|watch| watch.watcher.scope.kind).position(|other| other == kind).unwrap();
    reader.take(WatchEvent { scope: number, what, at: Instant::now() });
    reader.batch(Instant::now())
}

fn access(batch: Option<Batch>) -> Vec<ClassAccess> {
    let events = batch.into_iter().flat_map(|batch| batch.events);
    let access = events.filter_map(|event| match event {
        Event::Classes(access) => Some(access),
        _ => None,
    });
    access.collect()
}

fn refused() -> What {
    What::Failed(WatchFailure::Forbidden("no".into()))
}

#[tokio::test]
async fn never_listed_classes_are_refused_first_and_withheld_later() {
    let mut reader = reader();
    assert_eq!(access(say(&mut reader, Kind::IngressClass, refused())), [ClassAccess::Refused]);
    for _ in 2..REFUSALS {
        assert_eq!(access(say(&mut reader, Kind::IngressClass, refused())), []);
    }
    assert_eq!(access(say(&mut reader, Kind::IngressClass, refused())), [ClassAccess::Withheld]);
    assert_eq!(access(say(&mut reader, Kind::IngressClass, refused())), []);
    say(&mut reader, Kind::IngressClass, What::Works);
    say(&mut reader, Kind::IngressClass, What::Begin);
    assert_eq!(access(say(&mut reader, Kind::IngressClass, What::Done)), [ClassAccess::Listed]);
}

#[tokio::test]
async fn classes_listed_once_stay_listed_after_any_number_of_refusals() {
    let mut reader = reader();
    say(&mut reader, Kind::IngressClass, What::Begin);
    assert_eq!(access(say(&mut reader, Kind::IngressClass, What::Done)), [ClassAccess::Listed]);
    for _ in 0..3 * REFUSALS {
        let batch = say(&mut reader, Kind::IngressClass, refused());
        assert!(batch.is_none_or(|batch| batch.events.is_empty()));
    }
    assert_eq!(reader.problems().len(), 1);
    let batch = say(&mut reader, Kind::IngressClass, What::Works).unwrap();
    assert_eq!((batch.events, batch.problems), (Vec::new(), Some(Vec::new())));
}

#[tokio::test]
async fn the_start_waits_for_every_kind_and_not_for_classes_that_are_refused() {
    for kind in [Kind::Ingress, Kind::Service, Kind::EndpointSlice] {
        let mut reader = reader();
        let others =
            [Kind::Ingress, Kind::Service, Kind::EndpointSlice].into_iter().filter(|other| *other != kind);
        for other in others {
            say(&mut reader, other, What::Done);
        }
        say(&mut reader, Kind::IngressClass, refused());
        let batch = say(&mut reader, kind, refused()).unwrap();
        assert_eq!(batch.progress, Progress::Reading, "{kind:?}");
        assert_eq!(say(&mut reader, kind, What::Done).unwrap().progress, Progress::AllButReferred);
        assert_eq!(say(&mut reader, Kind::Secret, What::Done).unwrap().progress, Progress::Complete);
    }
}

#[tokio::test]
async fn an_optional_kind_is_picked_up_when_it_appears() {
    let absent = || What::Failed(WatchFailure::NoKind);
    let kind = Kind::Service;
    let mut reader = reader();
    for other in [Kind::Ingress, Kind::IngressClass, Kind::EndpointSlice] {
        say(&mut reader, other, What::Done);
    }
    // A required kind keeps the start waiting.
    let batch = say(&mut reader, kind, absent()).unwrap();
    assert_eq!(batch.progress, Progress::Reading);
    assert_eq!(batch.problems.unwrap()[0].code, Code::KindNotFound);

    let watch = reader.watches.iter_mut().find(|watch| watch.watcher.scope.kind == kind).unwrap();
    watch.watcher.scope.need = Need::Optional;
    let batch = say(&mut reader, kind, absent()).unwrap();
    assert_eq!((batch.progress, batch.problems), (Progress::AllButReferred, Some(Vec::new())));
    say(&mut reader, kind, What::Works);
    say(&mut reader, kind, What::Begin);
    let name = NamespacedName::new("shop", "web");
    let (identity, ports) = Default::default();
    let service = crate::store::Service {
        name: name.clone(),
        identity,
        external_name: None,
        cluster_ip: None,
        ports,
        udp_ports: Box::default(),
    };
    let (service, version) = (Object::Service(Arc::new(service)), Version::of("7"));
    let batch = say(&mut reader, kind, What::Item(Item::Object(service.clone(), version))).unwrap();
    assert_eq!(batch.events, [Event::Put(service)]);
    say(&mut reader, kind, What::Done);

    // A kind with objects that disappears without an event is a problem, and the objects stay.
    let batch = say(&mut reader, kind, absent()).unwrap();
    assert!(batch.events.is_empty());
    assert_eq!(batch.problems.unwrap()[0].code, Code::KindNotFound);
    say(&mut reader, kind, What::Gone(name, Version::of("8")));
    assert_eq!(say(&mut reader, kind, absent()).unwrap().problems, Some(Vec::new()));
}
