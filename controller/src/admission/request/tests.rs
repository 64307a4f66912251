use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use sluice_config::{Delta, Report};

use super::*;
use crate::controller::Controller;
use crate::input;
use crate::store::{Batch, Event, IngressClass, Object, Progress};

fn ingress(name: &str, path: &str) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {
            "name": name, "namespace": "shop", "uid": "0a5f8c5e-0000-4000-8000-000000000001",
            "creationTimestamp": "2026-01-01T00:00:00Z"
        },
        "spec": {"ingressClassName": "nginx", "rules": [{"host": "web.example", "http": {"paths": [
            {"path": path, "pathType": "Prefix", "backend": {"service": {"name": "web", "port": {"number": 80}}}}
        ]}}]}
    })
}

fn review(operation: &str, object: Value) -> Vec<u8> {
    let request = json!({
        "uid": "u-1", "operation": operation, "namespace": "shop", "name": "",
        "kind": {"group": "networking.k8s.io", "version": "v1", "kind": "Ingress"}, "object": object,
    });
    json!({"apiVersion": API_VERSION, "kind": KIND, "request": request}).to_string().into_bytes()
}

/// Returns the responses of a control plane with one class and one Ingress `first` with the path
/// `/`.
fn answers(options: Options, reviews: Vec<Vec<u8>>) -> (Vec<Result<Value, Unanswered>>, Vec<Reviewed>) {
    let prune = Prune::new(&options);
    let of = |value: Value| {
        let object: networking::Ingress = serde_json::from_value(value).unwrap();
        object.prune(&prune).unwrap().unwrap()
    };
    let name = sluice_config::NamespacedName::new("", "nginx");
    let class = IngressClass {
        name,
        identity: Default::default(),
        created: None,
        controller: "k8s.io/ingress-nginx".into(),
        is_default: false,
    };
    let events =
        vec![Event::Put(Object::IngressClass(Arc::new(class))), Event::Put(of(ingress("first", "/")))];
    let (inputs, received) = input::channel();
    let batch = Batch {
        events,
        problems: None,
        skipped: None,
        progress: Progress::Complete,
        received_at: Instant::now(),
        parsing: Duration::ZERO,
    };
    inputs.try_send(Input::Batch(batch)).unwrap();
    let controller = Controller::new(options.clone());
    let applies = |delta: Delta| Report::Applied {
        generation: delta.generation,
        took: Duration::ZERO,
        refused: Vec::new(),
        accepted: Vec::new(),
    };
    let control = std::thread::spawn(move || crate::run(controller, received, applies, &mut ()));
    let reported: Arc<Mutex<Vec<Reviewed>>> = Arc::default();
    let to = reported.clone();
    let on_review = Arc::new(move |reviewed: &Reviewed| to.lock().unwrap().push(reviewed.clone()));
    let reviewer = Reviewer::new(&options, inputs.downgrade(), on_review);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answers = runtime.block_on(async {
        let mut answers = Vec::new();
        for review in &reviews {
            let answer = reviewer.answer(review).await;
            answers.push(answer.map(|answer| serde_json::from_slice(&answer).unwrap()));
        }
        answers
    });
    drop(inputs);
    control.join().unwrap();
    let reported = reported.lock().unwrap().clone();
    (answers, reported)
}

fn one(review: Vec<u8>) -> Value {
    let (mut answers, _) = answers(Options::default(), vec![review]);
    answers.remove(0).unwrap()
}

#[test]
fn a_valid_ingress_is_allowed_and_a_missing_service_is_a_warning() {
    let answer = one(review("CREATE", ingress("second", "/cart")));
    assert_eq!((&answer["apiVersion"], &answer["kind"]), (&json!(API_VERSION), &json!(KIND)));
    let response = &answer["response"];
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-1"), &json!(true)), "{answer}");
    assert!(response["warnings"].to_string().contains("ServiceNotFound"), "{answer}");
    assert!(response.get("status").is_none());
}

#[test]
fn a_taken_path_is_refused_with_the_words_of_ingress_nginx() {
    let mut younger = ingress("second", "/");
    younger["metadata"]["creationTimestamp"] = json!("2026-01-02T00:00:00Z");
    let (answers, reported) =
        answers(Options::default(), vec![review("CREATE", younger), review("UPDATE", ingress("first", "/"))]);
    let response = &answers[0].as_ref().unwrap()["response"];
    assert_eq!((&response["allowed"], &response["status"]["code"]), (&json!(false), &json!(400)));
    let message = response["status"]["message"].as_str().unwrap();
    assert!(
        message.contains("host \"web.example\" and path \"/\" is already defined in ingress shop/first"),
        "{message}"
    );
    assert_eq!(answers[1].as_ref().unwrap()["response"]["allowed"], true, "it is its own");
    assert_eq!(reported.iter().map(|one| one.allowed).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn foreign_and_deleted_ingresses_are_allowed() {
    let mut other = ingress("second", "/");
    other["spec"]["ingressClassName"] = json!("other");
    assert_eq!(one(review("CREATE", other))["response"]["allowed"], true);
    let mut gone = ingress("second", "/");
    gone["metadata"]["uid"] = json!("bad");
    assert_eq!(one(review("DELETE", gone))["response"]["allowed"], true);
}

/// The finalizer of an invalid Ingress could not be removed, so the Ingress and its namespace
/// stayed forever.
#[test]
fn an_update_of_an_ingress_that_is_being_deleted_is_allowed() {
    let mut going = ingress("second", "/a(b)");
    going["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/proxy-body-size": "plenty"});
    assert_eq!(one(review("UPDATE", going.clone()))["response"]["allowed"], false);
    going["metadata"]["deletionTimestamp"] = json!("2026-01-03T00:00:00Z");
    going["metadata"]["uid"] = json!("bad");
    let response = one(review("UPDATE", going))["response"].clone();
    assert_eq!((&response["allowed"], &response["status"]), (&json!(true), &Value::Null));
}

#[test]
fn an_expression_that_cannot_be_read_is_refused_where_it_closes_a_route() {
    let mut object = ingress("second", "/a(b");
    object["spec"]["rules"][0]["http"]["paths"][0]["pathType"] = json!("ImplementationSpecific");
    let plain = one(review("CREATE", object.clone()));
    assert_eq!(plain["response"]["allowed"], true, "it is a plain path: {plain}");
    object["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/use-regex": "true"});
    let answer = one(review("CREATE", object));
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("ingress contains invalid paths: "), "{message}");
    assert!(message.contains("\"/a(b\" is a regular expression that cannot be read"), "{message}");
}

#[test]
fn malformed_objects_and_other_kinds_are_refused() {
    let mut bad = ingress("second", "/x");
    bad["metadata"]["uid"] = json!("../../etc");
    assert!(one(review("CREATE", bad))["response"]["status"]["message"].to_string().contains("uid"));
    let mut path = ingress("second", "/a(b)");
    path["metadata"].as_object_mut().unwrap().remove("name");
    path["metadata"]["generateName"] = json!("web-");
    let answer = one(review("CREATE", path));
    let message = answer["response"]["status"]["message"].as_str().unwrap();
    assert!(message.starts_with("ingress contains invalid paths: "), "{message}");
    assert!(message.contains("path \"/a(b)\" cannot be used with pathType Prefix"), "{message}");
    let service = json!({"apiVersion": API_VERSION, "kind": KIND, "request": {
        "uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Service"}, "object": {},
    }});
    assert_eq!(one(service.to_string().into_bytes())["response"]["allowed"], false);
}

#[test]
fn the_usual_prefix_is_refused_where_another_is_configured() {
    let options = Options { annotations_prefix: "edge.example".into(), ..Options::default() };
    let mut object = ingress("second", "/x");
    object["metadata"]["annotations"] = json!({"nginx.ingress.kubernetes.io/ssl-redirect": "true"});
    let (answers, _) = answers(options, vec![review("CREATE", object)]);
    let message = answers[0].as_ref().unwrap()["response"]["status"]["message"].to_string();
    assert!(message.contains("this deployment has a custom annotation prefix defined. Use 'edge.example'"));
}

#[test]
fn an_invalid_review_gets_no_verdict() {
    for text in [
        "",
        "{}",
        "{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\",\"request\":null}",
    ] {
        let (answers, _) = answers(Options::default(), vec![text.as_bytes().to_vec()]);
        assert!(matches!(answers[0], Err(Unanswered::Malformed(_))), "{text}");
    }
}
