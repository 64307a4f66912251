//! The commands against objects in memory, with the checks of an API server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::{Method, Request, Response};
use http_body_util::BodyExt;
use jiff::ToSpan;
use kube::client::Body;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "/api/v1/namespaces/edge/secrets/admission";
const WEBHOOK: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/edge-admission";
const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    writes: Vec<String>,
    refuse: Option<u16>,
}

impl Fake {
    fn client(&self) -> Client {
        let fake = self.clone();
        Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let fake = fake.clone();
                async move {
                    let (parts, body) = request.into_parts();
                    let body = body.collect().await.unwrap().to_bytes();
                    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                    let (status, answer) = fake.answer(&parts.method, parts.uri.path(), body);
                    let answer = Body::from(answer.to_string().into_bytes());
                    Ok::<_, std::convert::Infallible>(
                        Response::builder().status(status).body(answer).unwrap(),
                    )
                }
            }),
            "edge",
        )
    }

    fn answer(&self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        let mut state = self.0.lock().unwrap();
        let failure = |code: u16, message: &str| {
            (code, json!({"kind": "Status", "status": "Failure", "code": code, "message": message}))
        };
        if let Some(code) = state.refuse {
            return failure(code, "secrets is forbidden");
        }
        if *method == Method::GET {
            return match state.objects.get(path) {
                Some(object) => (200, object.clone()),
                None => failure(404, "not found"),
            };
        }
        let (path, mut object) = if *method == Method::POST {
            let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
            if state.objects.contains_key(&path) {
                return failure(409, "it is there");
            }
            (path, body)
        } else {
            let mut object = state.objects[path].clone();
            let wanted = &body["metadata"]["resourceVersion"];
            if !wanted.is_null() && *wanted != object["metadata"]["resourceVersion"] {
                return failure(409, "another version");
            }
            merge(&mut object, &body);
            (path.to_owned(), object)
        };
        state.writes.push(path.clone());
        object["metadata"]["resourceVersion"] = state.writes.len().to_string().into();
        state.objects.insert(path, object.clone());
        (200, object)
    }

    fn put(&self, path: &str, object: Value) {
        self.0.lock().unwrap().objects.insert(path.to_owned(), object);
    }

    fn get(&self, path: &str) -> Value {
        self.0.lock().unwrap().objects[path].clone()
    }

    fn secret(&self) -> Secret {
        serde_json::from_value(self.get(SECRET)).unwrap()
    }

    fn writes(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap().writes)
    }

    /// Returns the authorities that the API server trusts, in base64 as in the Secret.
    fn trusted(&self) -> Value {
        self.get(WEBHOOK)["webhooks"][0]["clientConfig"]["caBundle"].clone()
    }
}

/// Applies a merge patch; a strategic one for the list of webhooks.
fn merge(object: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else { return };
    for (key, value) in patch {
        let there = &mut object[key];
        if key == "webhooks" {
            for change in value.as_array().unwrap() {
                let all = there.as_array_mut().unwrap();
                let one = all.iter_mut().find(|one| one["name"] == change["name"]).unwrap();
                merge(one, change);
            }
        } else if there.is_object() && value.is_object() {
            merge(there, value);
        } else {
            *there = value.clone();
        }
    }
}

fn secret() -> WebhookSecret {
    let keys =
        SecretKeys { certificate: "tls.crt".into(), key: "tls.key".into(), authority: "ca.crt".into() };
    WebhookSecret { namespace: "edge".into(), name: "admission".into(), keys }
}

fn wanted(hosts: &[&str]) -> CreateCertificate {
    CreateCertificate {
        secret: secret(),
        hosts: owned(hosts),
        lifetime: 9 * YEAR,
        webhook: Some("edge-admission".into()),
    }
}

const HOSTS: [&str; 2] = ["admission", "admission.edge.svc"];

fn webhook() -> Value {
    json!({"metadata": {"name": "edge-admission", "uid": "u-1"}, "webhooks": [
        {"name": "validate.ingresses.sluice.dev", "clientConfig": {"service": {"name": "admission", "namespace": "edge"}},
         "failurePolicy": "Ignore", "sideEffects": "None", "admissionReviewVersions": ["v1"]}]})
}

fn now() -> Timestamp {
    "2026-11-22T12:00:00Z".parse().unwrap()
}

fn in_years(years: i64) -> Timestamp {
    now() + (years * 365 * 24).hours()
}

async fn create_at(fake: &Fake, hosts: &[&str], at: Timestamp) -> Result<String, String> {
    create_once(&fake.client(), &wanted(hosts), at).await.map_err(describe)
}

async fn patched(fake: &Fake, policy: Option<&str>) -> Result<String, String> {
    let wanted = PatchWebhook {
        secret: secret(),
        webhook: "edge-admission".into(),
        failure_policy: policy.map(str::to_owned),
    };
    patch_once(&fake.client(), &wanted).await.map_err(describe)
}

fn describe(failed: Failed) -> String {
    match failed {
        Failed::Request(what, reason) => format!("{what}: {reason}"),
        Failed::For(error) => error.to_string(),
    }
}

/// Checks the Secret's certificate as a client that trusts the Secret's authorities.
fn seen(fake: &Fake, hosts: &[&str], at: Timestamp) -> Result<Kept, String> {
    look(&fake.secret(), &secret().keys, &owned(hosts), at)
}

fn owned(hosts: &[&str]) -> Vec<String> {
    hosts.iter().map(|host| (*host).to_owned()).collect()
}

#[tokio::test]
async fn a_certificate_is_made_once_and_kept() {
    let fake = Fake::default();
    let said = create_at(&fake, &HOSTS, now()).await.unwrap();
    assert!(said.contains("made a certificate") && said.contains("there was none"), "{said}");
    assert_eq!(fake.get(SECRET)["type"], "kubernetes.io/tls");
    assert!(!seen(&fake, &HOSTS, now()).unwrap().aging);
    assert!(seen(&fake, &["elsewhere"], now()).unwrap_err().contains("elsewhere"));
    assert_eq!(fake.writes(), [SECRET]);
    let said = create_at(&fake, &HOSTS, in_years(5)).await.unwrap();
    assert!(said.contains("kept") && said.contains("2035"), "{said}");
    assert!(fake.writes().is_empty(), "nothing had to be written");
}

/// No review may fail during the renewal: the API server trusts both authorities before a Pod can
/// present the new certificate.
#[tokio::test]
async fn an_authority_in_its_last_third_is_renewed_and_both_are_trusted() {
    let fake = Fake::default();
    create_at(&fake, &HOSTS, now()).await.unwrap();
    fake.put(WEBHOOK, webhook());
    patched(&fake, None).await.unwrap();
    let before = fake.secret();
    assert_eq!(fake.trusted(), fake.get(SECRET)["data"]["ca.crt"]);
    fake.writes();

    assert!(seen(&fake, &HOSTS, in_years(7)).unwrap().aging);
    let said = create_at(&fake, &HOSTS, in_years(7)).await.unwrap();
    assert!(said.contains("made a certificate"), "{said}");
    assert_eq!(fake.writes(), [WEBHOOK, SECRET]);
    assert_eq!(fake.trusted(), fake.get(SECRET)["data"]["ca.crt"]);
    let after = fake.secret();
    assert!(!look(&after, &secret().keys, &owned(&HOSTS), in_years(7)).unwrap().aging);
    // A Pod that still presents the old certificate is trusted, too.
    let mut mixed = before.clone();
    let authorities = after.data.as_ref().unwrap()["ca.crt"].clone();
    mixed.data.as_mut().unwrap().insert("ca.crt".into(), authorities);
    look(&mixed, &secret().keys, &owned(&HOSTS), in_years(7)).unwrap();

    // The next renewal keeps only one previous authority.
    create_at(&fake, &HOSTS, in_years(14)).await.unwrap();
    let text = secret().keys.authorities(&fake.secret()).unwrap();
    assert_eq!(text.matches("BEGIN CERTIFICATE").count(), 2);
    assert!(look(&mixed, &secret().keys, &owned(&HOSTS), in_years(14)).is_err(), "the first one is over");
}

#[tokio::test]
async fn other_hosts_and_damaged_keys_are_mended() {
    let fake = Fake::default();
    create_at(&fake, &HOSTS, now()).await.unwrap();
    let said = create_at(&fake, &["renamed.edge.svc"], now()).await.unwrap();
    assert!(said.contains("would not accept it for renamed.edge.svc"), "{said}");
    seen(&fake, &["renamed.edge.svc"], now()).unwrap();
    let mut damaged = fake.get(SECRET);
    damaged["data"]["tls.key"] = "bm8=".into();
    fake.put(SECRET, damaged);
    let said = create_at(&fake, &["renamed.edge.svc"], now()).await.unwrap();
    assert!(said.contains("the key is not PEM"), "{said}");
    seen(&fake, &["renamed.edge.svc"], now()).unwrap();
    let refused = create_at(&Fake::default(), &["kö.example"], now()).await.unwrap_err();
    assert!(refused.contains("correct --host"), "{refused}");
}

#[tokio::test]
async fn foreign_objects_are_never_replaced() {
    let fake = Fake::default();
    create_at(&fake, &HOSTS, now()).await.unwrap();
    let mut theirs = fake.get(SECRET);
    theirs["metadata"]["labels"] = json!({});
    fake.put(SECRET, theirs.clone());
    fake.writes();
    let said = create_at(&fake, &HOSTS, in_years(8)).await.unwrap();
    assert!(said.contains("was not created by this program"), "{said}");
    let refused = create_at(&fake, &HOSTS, in_years(10)).await.unwrap_err();
    assert!(refused.contains("edge/admission") && refused.contains("delete it"), "{refused}");
    assert!(fake.writes().is_empty());

    // The Secret of ingress-nginx has other keys, which are preserved.
    theirs["data"] = json!({"ca": "YQ==", "cert": "YQ==", "key": "YQ=="});
    fake.put(SECRET, theirs);
    create_at(&fake, &HOSTS, now()).await.unwrap();
    assert_eq!(fake.get(SECRET)["data"]["cert"], "YQ==");
    seen(&fake, &HOSTS, now()).unwrap();
}

#[tokio::test]
async fn the_webhook_gets_authority_and_policy_and_owns_the_secret() {
    let fake = Fake::default();
    fake.put(WEBHOOK, webhook());
    let refused = patched(&fake, None).await.unwrap_err();
    assert!(refused.contains("edge/admission") && refused.contains("create"), "{refused}");
    create_at(&fake, &HOSTS, now()).await.unwrap();
    fake.writes();
    patched(&fake, Some("Fail")).await.unwrap();
    assert_eq!(fake.trusted(), fake.get(SECRET)["data"]["ca.crt"]);
    assert_eq!(fake.get(WEBHOOK)["webhooks"][0]["failurePolicy"], "Fail");
    assert_eq!(fake.get(WEBHOOK)["webhooks"][0]["clientConfig"]["service"]["name"], "admission");
    assert_eq!(fake.get(SECRET)["metadata"]["ownerReferences"][0]["uid"], "u-1");
    assert_eq!(fake.writes(), [WEBHOOK, SECRET]);
    let said = patched(&fake, Some("Fail")).await.unwrap();
    assert!(said.contains("already trusted") && fake.writes().is_empty(), "{said}");
}

#[tokio::test]
async fn a_missing_right_is_reported_and_not_retried() {
    let fake = Fake::default();
    fake.0.lock().unwrap().refuse = Some(403);
    let client = fake.client();
    let refused = attempts(async || create_once(&client, &wanted(&HOSTS), now()).await).await.unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("cannot get Secret edge/admission: secrets is forbidden"), "{refused}");
}
