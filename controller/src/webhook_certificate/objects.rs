//! Access to the Secret and the ValidatingWebhookConfiguration. Objects that are up to date are not
//! written.

use std::fmt::Debug;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::issue::Issued;
use super::{Failed, WebhookSecret};
use crate::cluster::api::{execute, found};

/// Label, with its value, of a Secret that may be replaced.
const MANAGED: (&str, &str) = ("app.kubernetes.io/managed-by", "sluice-webhook-cert");

/// Returns the Secret, if it exists.
pub(super) async fn found_secret(
    secrets: &Api<Secret>,
    wanted: &WebhookSecret,
) -> Result<Option<Secret>, Failed> {
    let what = || format!("cannot get Secret {}", wanted.full_name());
    found(secrets.get(&wanted.name)).await.map_err(|refused| Failed::Request(what(), refused))
}

/// Returns the webhook configuration, if it exists.
pub(super) async fn found_webhook(
    webhooks: &Api<ValidatingWebhookConfiguration>,
    name: &str,
) -> Result<Option<ValidatingWebhookConfiguration>, Failed> {
    let what = || format!("cannot get ValidatingWebhookConfiguration {name}");
    found(webhooks.get(name)).await.map_err(|refused| Failed::Request(what(), refused))
}

/// Returns whether this program created the Secret.
pub(super) fn is_ours(secret: &Secret) -> bool {
    secret.labels().get(MANAGED.0).is_some_and(|value| value == MANAGED.1)
}

/// Creates the Secret, or replaces `before`.
pub(super) async fn secret_of(
    secrets: &Api<Secret>,
    wanted: &WebhookSecret,
    before: Option<&Secret>,
    made: &Issued,
    authorities: &str,
) -> Result<(), Failed> {
    let keys = &wanted.keys;
    let data = json!({
        &keys.certificate: STANDARD.encode(&made.certificate),
        &keys.key: STANDARD.encode(&made.key),
        &keys.authority: STANDARD.encode(authorities),
    });
    let labels = json!({MANAGED.0: MANAGED.1});
    let outcome = match before {
        None => {
            // The API server rejects a TLS Secret without these keys.
            let tls = keys.certificate == "tls.crt" && keys.key == "tls.key";
            let kind = if tls { "kubernetes.io/tls" } else { "Opaque" };
            let secret =
                json!({"metadata": {"name": wanted.name, "labels": labels}, "type": kind, "data": data});
            let secret = serde_json::from_value(secret).expect("it is a Secret");
            execute(secrets.create(&PostParams::default(), &secret)).await
        }
        Some(before) => {
            let metadata = json!({"resourceVersion": before.resource_version(), "labels": labels});
            merge(secrets, &wanted.name, json!({"metadata": metadata, "data": data})).await
        }
    };
    let what = || format!("cannot write Secret {}", wanted.full_name());
    outcome.map(drop).map_err(|refused| Failed::Request(what(), refused))
}

/// Makes all webhooks of the configuration trust these authorities. Returns whether a change was
/// necessary.
pub(super) async fn trust(
    webhooks: &Api<ValidatingWebhookConfiguration>,
    there: &ValidatingWebhookConfiguration,
    authorities: &str,
    failure_policy: Option<&str>,
) -> Result<bool, Failed> {
    let mut patches = Vec::new();
    for webhook in there.webhooks.iter().flatten() {
        let mut patch = json!({"name": webhook.name});
        let bundle = webhook.client_config.ca_bundle.as_ref();
        if bundle.is_none_or(|bundle| bundle.0 != authorities.as_bytes()) {
            patch["clientConfig"] = json!({"caBundle": STANDARD.encode(authorities)});
        }
        // A written field is owned by this program; Helm can only change the field without a
        // conflict if it owns it alone.
        if failure_policy.is_some() && webhook.failure_policy.as_deref() != failure_policy {
            patch["failurePolicy"] = failure_policy.into();
        }
        if patch.as_object().is_some_and(|patch| patch.len() > 1) {
            patches.push(patch);
        }
    }
    if patches.is_empty() {
        return Ok(false);
    }
    // A strategic merge identifies the entries by name; other entries are unchanged.
    let patch = Patch::Strategic(json!({"webhooks": patches}));
    let name = there.name_any();
    let outcome = execute(webhooks.patch(&name, &PatchParams::default(), &patch)).await;
    let what = || format!("cannot patch ValidatingWebhookConfiguration {name}");
    outcome.map(|_| true).map_err(|refused| Failed::Request(what(), refused))
}

/// Makes the webhook configuration the owner of a Secret created by this program, so that the
/// Secret is deleted with it when the chart is uninstalled.
pub(super) async fn owned_by(
    secrets: &Api<Secret>,
    secret: &Secret,
    webhook: &ValidatingWebhookConfiguration,
) -> Result<(), Failed> {
    let uid = webhook.uid().unwrap_or_default();
    if !is_ours(secret) || secret.owner_references().iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let owner = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "name": webhook.name_any(),
        "uid": uid,
    });
    let name = secret.name_any();
    let metadata = json!({"resourceVersion": secret.resource_version(), "ownerReferences": [owner]});
    let outcome = merge(secrets, &name, json!({"metadata": metadata})).await;
    let what = || format!("cannot write Secret {}/{name}", secret.namespace().unwrap_or_default());
    outcome.map(drop).map_err(|refused| Failed::Request(what(), refused))
}

async fn merge<K>(
    api: &Api<K>,
    name: &str,
    patch: serde_json::Value,
) -> Result<K, crate::cluster::api::Refused>
where
    K: Clone + serde::de::DeserializeOwned + Debug,
{
    execute(api.patch(name, &PatchParams::default(), &Patch::Merge(patch))).await
}
