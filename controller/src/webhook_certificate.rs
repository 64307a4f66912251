//! `sluice webhook-cert`: the certificate of the validating webhook, made and renewed by two Jobs of Helm, as
//! ingress-nginx's chart has them.
//!
//! `create` runs before Pods are made or changed, so that the Secret is there when it is mounted: it makes an authority
//! and a certificate of it, keeps what is good for long enough, and throws the authority's key away. `patch` runs after
//! that and tells the API server which authority to trust.
//!
//! A renewal refuses no review. The API server trusts the new authority beside the old one before the Secret changes, and
//! the old one stays trusted, so that it does not matter when which Pod has read its files again.

mod issue;
mod objects;
mod state;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::cluster::api::Refused;
use crate::source::kube::{Access, AccessError, client};
use issue::issue;
use objects::{found_secret, found_webhook, is_ours, owned_by, secret_of, trust};
pub use state::SecretKeys;
use state::{Kept, look};

/// Attempts at one command, while the API is away or somebody else writes the same object. The network of a new Pod may
/// take a moment to work.
const ATTEMPTS: u32 = 5;
/// Between two of them.
const PAUSE: Duration = Duration::from_secs(2);

/// Which Secret it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSecret {
    /// `--namespace`.
    pub namespace: String,
    /// `--secret-name`.
    pub name: String,
    /// The keys in it.
    pub keys: SecretKeys,
}

/// What `sluice webhook-cert create` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateCertificate {
    /// Where the certificate is kept.
    pub secret: WebhookSecret,
    /// `--host`: the names and addresses that it is for.
    pub hosts: Vec<String>,
    /// `--lifetime`.
    pub lifetime: Duration,
    /// `--webhook-name`: the ValidatingWebhookConfiguration that is told of a new authority before the Secret changes.
    pub webhook: Option<String>,
}

/// What `sluice webhook-cert patch` is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchWebhook {
    /// Where the authority is.
    pub secret: WebhookSecret,
    /// `--webhook-name`.
    pub webhook: String,
    /// `--patch-failure-policy`, `Fail` or `Ignore`; none leaves it as it is.
    pub failure_policy: Option<String>,
}

/// Why there is no certificate, or nobody was told of it.
#[derive(Debug, thiserror::Error)]
pub enum WebhookCertificateError {
    /// There is no API to ask.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The API server refuses a request, or does not answer.
    #[error("{what}: {reason}; correct that and run the Job again, with `helm upgrade` for example")]
    Refused {
        /// Which request.
        what: String,
        /// What it says.
        reason: String,
    },
    /// The Secret is somebody else's, and cannot be used.
    #[error(
        "Secret {secret} was not made by this program and cannot be used: {fault}; correct it, or delete it to have one made"
    )]
    NotOurs {
        /// `namespace/name`.
        secret: String,
        /// What is wrong with it.
        fault: String,
    },
    /// `patch` without a Secret.
    #[error("Secret {secret}: {fault}; run `sluice webhook-cert create` first")]
    NoAuthority {
        /// `namespace/name`.
        secret: String,
        /// What is missing.
        fault: String,
    },
    /// A host that is no name, for example.
    #[error("cannot make a certificate for {hosts}: {reason}; correct --host")]
    Issue {
        /// As they were given.
        hosts: String,
        /// Why.
        reason: rcgen::Error,
    },
}

/// One request failed; whether it is worth another attempt is for the caller to see.
enum Failed {
    /// The API server said so.
    Request(String, Refused),
    /// Another attempt comes to the same.
    For(WebhookCertificateError),
}

impl WebhookSecret {
    fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Has a certificate in the Secret that is good for at least a third of its life. Gives a sentence that says what was done.
///
/// # Errors
/// The API cannot be asked, or what is in the Secret cannot be used and is not ours to replace.
pub async fn create(access: &Access, wanted: &CreateCertificate) -> Result<String, WebhookCertificateError> {
    let client = client::of_duties(&access.config().await?)?;
    attempts(async || create_once(&client, wanted, Timestamp::now()).await).await
}

/// Has the API server trust the authority in the Secret. Gives a sentence that says what was done.
///
/// # Errors
/// The API cannot be asked, or the Secret has no authority.
pub async fn patch(access: &Access, wanted: &PatchWebhook) -> Result<String, WebhookCertificateError> {
    let client = client::of_duties(&access.config().await?)?;
    attempts(async || patch_once(&client, wanted).await).await
}

async fn attempts(
    attempt: impl AsyncFn() -> Result<String, Failed>,
) -> Result<String, WebhookCertificateError> {
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(Failed::Request(what, Refused::Away { reason, .. })) if left > 0 => {
                tracing::warn!(%what, %reason, "the Kubernetes API did not answer; asking again");
                tokio::time::sleep(PAUSE).await;
            }
            // Somebody else has written meanwhile: what is there now is looked at anew.
            Err(Failed::Request(_, Refused::Conflict)) if left > 0 => {}
            Err(Failed::Request(what, reason)) => {
                return Err(WebhookCertificateError::Refused { what, reason: reason.to_string() });
            }
            Err(Failed::For(error)) => return Err(error),
        }
    }
}

async fn create_once(client: &Client, wanted: &CreateCertificate, now: Timestamp) -> Result<String, Failed> {
    let name = wanted.secret.full_name();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &wanted.secret.namespace);
    let there = found_secret(&secrets, &wanted.secret).await?;
    let state = there.as_ref().map(|secret| look(secret, &wanted.secret.keys, &wanted.hosts, now));
    let why = match (&there, state) {
        (Some(_), Some(Ok(Kept { until, aging: false }))) => {
            return Ok(format!("kept the certificate in Secret {name}, which is good until {until}"));
        }
        (Some(secret), Some(Ok(Kept { until, aging: true }))) if is_ours(secret) => {
            format!("the one before it ends on {until}")
        }
        (Some(_), Some(Ok(Kept { until, aging: true }))) => {
            return Ok(format!(
                "kept the certificate in Secret {name}: it ends on {until}, and was not made by this program, so that \
                 whoever made it has to renew it"
            ));
        }
        // One without any of the keys can be filled in without taking anything from anybody.
        (Some(secret), Some(Err(fault))) if is_ours(secret) || wanted.secret.keys.none_in(secret) => {
            format!("the Secret could not be used: {fault}")
        }
        (Some(_), Some(Err(fault))) => {
            return Err(Failed::For(WebhookCertificateError::NotOurs { secret: name, fault }));
        }
        (None, _) | (_, None) => "there was none".to_owned(),
    };
    let made = issue(&wanted.hosts, wanted.lifetime, now).map_err(|reason| {
        Failed::For(WebhookCertificateError::Issue { hosts: wanted.hosts.join(","), reason })
    })?;
    let authorities = wanted.secret.keys.authority_beside(&made.authority, there.as_ref(), now);
    if let (Some(webhook), Some(_)) = (&wanted.webhook, &there) {
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
        if let Some(found) = found_webhook(&webhooks, webhook).await? {
            trust(&webhooks, &found, &authorities, None).await?;
        }
    }
    secret_of(&secrets, &wanted.secret, there.as_ref(), &made, &authorities).await?;
    Ok(format!("made a certificate for {} in Secret {name}, because {why}", wanted.hosts.join(",")))
}

async fn patch_once(client: &Client, wanted: &PatchWebhook) -> Result<String, Failed> {
    let name = wanted.secret.full_name();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &wanted.secret.namespace);
    let without =
        |fault: String| Failed::For(WebhookCertificateError::NoAuthority { secret: name.clone(), fault });
    let secret = found_secret(&secrets, &wanted.secret).await?;
    let secret = secret.ok_or_else(|| without("it does not exist".to_owned()))?;
    let authorities = wanted.secret.keys.authorities(&secret).map_err(without)?;
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let webhook = found_webhook(&webhooks, &wanted.webhook).await?.ok_or_else(|| {
        Failed::Request(format!("ValidatingWebhookConfiguration {}", wanted.webhook), Refused::NotFound)
    })?;
    let changed = trust(&webhooks, &webhook, &authorities, wanted.failure_policy.as_deref()).await?;
    let done = if changed { "now trusts" } else { "already trusted" };
    let done =
        format!("ValidatingWebhookConfiguration {} {done} the authority in Secret {name}", wanted.webhook);
    match owned_by(&secrets, &secret, &webhook).await {
        Ok(()) => Ok(done),
        // Some clusters want the right to delete an object of whoever says whose it is.
        Err(Failed::Request(_, Refused::Forbidden(reason))) => Ok(format!(
            "{done}; that Secret stays when the webhook goes, and is to be deleted by hand then ({reason})"
        )),
        Err(failed) => Err(failed),
    }
}

#[cfg(test)]
mod tests;
