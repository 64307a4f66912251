//! `sluice webhook-cert`: the certificate of the validating webhook, created and renewed by two
//! Helm Jobs, as in ingress-nginx's chart.
//!
//! `create` runs before Pods are created or changed, so that the Secret exists when it is mounted.
//! It issues a certificate from a new authority and discards the authority's key; a certificate
//! that is valid for long enough is kept. `patch` runs afterwards and configures the authority that
//! the API server trusts.
//!
//! A renewal makes no review fail. The API server trusts the new authority in addition to the old
//! one before the Secret changes, and continues to trust the old one, so the order in which Pods
//! reload their files does not matter.

mod issue;
mod objects;
mod state;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::cluster::api::Refused;
use crate::source::kube::{AccessError, ApiAccess, client};
use issue::issue;
use objects::{found_secret, found_webhook, is_ours, owned_by, secret_of, trust};
pub use state::SecretKeys;
use state::{Kept, look};

/// Maximum number of attempts of a command while the API is unreachable or another client writes
/// the same object. The network of a new Pod may take a moment to work.
const ATTEMPTS: u32 = 5;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_secs(2);

/// The Secret that contains the certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSecret {
    /// `--namespace`.
    pub namespace: String,
    /// `--secret-name`.
    pub name: String,
    /// The names of its keys.
    pub keys: SecretKeys,
}

/// Arguments of `sluice webhook-cert create`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateCertificate {
    /// The Secret for the certificate.
    pub secret: WebhookSecret,
    /// `--host`: the names and addresses of the certificate.
    pub hosts: Vec<String>,
    /// `--lifetime`.
    pub lifetime: Duration,
    /// `--webhook-name`: the ValidatingWebhookConfiguration that receives a new authority before
    /// the Secret changes.
    pub webhook: Option<String>,
}

/// Arguments of `sluice webhook-cert patch`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchWebhook {
    /// The Secret with the authority.
    pub secret: WebhookSecret,
    /// `--webhook-name`.
    pub webhook: String,
    /// `--patch-failure-policy`: `Fail` or `Ignore`; `None` leaves it unchanged.
    pub failure_policy: Option<String>,
}

/// Reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum WebhookCertificateError {
    /// No Kubernetes API is configured or reachable.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The API server rejects a request or does not respond.
    #[error("{what}: {reason}; correct that and run the Job again, with `helm upgrade` for example")]
    Refused {
        /// The request.
        what: String,
        /// The error of the API server.
        reason: String,
    },
    /// The Secret was not created by this program, and its content is unusable.
    #[error(
        "Secret {secret} was not made by this program and cannot be used: {fault}; correct it, or delete it to have one made"
    )]
    NotOurs {
        /// `namespace/name`.
        secret: String,
        /// The fault of its content.
        fault: String,
    },
    /// `patch` found no usable Secret.
    #[error("Secret {secret}: {fault}; run `sluice webhook-cert create` first")]
    NoAuthority {
        /// `namespace/name`.
        secret: String,
        /// The missing part.
        fault: String,
    },
    /// The certificate cannot be issued, for example because a host is not a valid name.
    #[error("cannot make a certificate for {hosts}: {reason}; correct --host")]
    Issue {
        /// The hosts as given.
        hosts: String,
        /// The reason.
        reason: rcgen::Error,
    },
}

/// A failed request. The caller decides whether to retry.
enum Failed {
    /// A failed request to the API server.
    Request(String, Refused),
    /// An error that a retry cannot resolve.
    For(WebhookCertificateError),
}

impl WebhookSecret {
    fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}

/// Ensures that the Secret contains a certificate with at least a third of its lifetime left.
/// Returns a sentence that describes the result.
///
/// # Errors
/// The API is unreachable, or the content of the Secret is unusable and was not created by this
/// program.
pub async fn create(
    access: &ApiAccess,
    wanted: &CreateCertificate,
) -> Result<String, WebhookCertificateError> {
    let client = client::of_duties(&access.config().await?)?;
    attempts(async || create_once(&client, wanted, Timestamp::now()).await).await
}

/// Makes the API server trust the authority in the Secret. Returns a sentence that describes the
/// result.
///
/// # Errors
/// The API is unreachable, or the Secret has no authority.
pub async fn patch(access: &ApiAccess, wanted: &PatchWebhook) -> Result<String, WebhookCertificateError> {
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
            // Another client has written meanwhile: the next attempt reads the current state.
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
                "kept the certificate in Secret {name}: it ends on {until} and was not created by this program; \
                 renew it with the program that created it"
            ));
        }
        // A Secret without any of the keys can be filled without overwriting data.
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
        // Some clusters require the right to delete an object before its owner may be set.
        Err(Failed::Request(_, Refused::Forbidden(reason))) => {
            Ok(format!("{done}; delete that Secret by hand when the webhook is removed ({reason})"))
        }
        Err(failed) => Err(failed),
    }
}

#[cfg(test)]
mod tests;
