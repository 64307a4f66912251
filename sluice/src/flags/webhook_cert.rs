//! `sluice webhook-cert create` and `patch`. Names and defaults of the flags are those of
//! kube-webhook-certgen, which the chart of ingress-nginx uses for the same purpose; only the
//! default lifetime of a certificate differs.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgMatches};
use sluice_controller::webhook_certificate::{CreateCertificate, PatchWebhook, SecretKeys, WebhookSecret};

use super::error::FlagError;
use super::value;

/// The name of the subcommand.
pub(super) const NAME: &str = "webhook-cert";

const NAMESPACE: &str = "namespace";
const SECRET: &str = "secret-name";
const HOST: &str = "host";
const WEBHOOK: &str = "webhook-name";
const LIFETIME: &str = "lifetime";
const POLICY: &str = "patch-failure-policy";
const KUBECONFIG: &str = "kubeconfig";
const CERTIFICATE_KEY: &str = "cert-name";
const KEY_KEY: &str = "key-name";
const AUTHORITY_KEY: &str = "ca-name";

/// The parsed subcommand.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WebhookCert {
    /// `--kubeconfig`; without it, the Pod's ServiceAccount is used.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The command to execute.
    pub(crate) action: WebhookCertAction,
}

/// One of the two commands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum WebhookCertAction {
    /// Creates or renews the certificate.
    Create(CreateCertificate),
    /// Configures the API server to trust the certificate.
    Patch(PatchWebhook),
}

/// Returns the grammar of the subcommand.
pub(super) fn grammar() -> clap::Command {
    let create = clap::Command::new("create")
        .about("Have a certificate in a Secret: made when there is none, renewed with less than a third of its life left")
        .args(common())
        .arg(flag(HOST, "NAMES", "names of the webhook's Service, a comma-separated list"))
        .arg(flag(WEBHOOK, "NAME", "the ValidatingWebhookConfiguration that trusts a new authority first"))
        .arg(flag(LIFETIME, "DURATION", "how long a certificate is good").default_value("87600h"))
        .arg(flag(CERTIFICATE_KEY, "KEY", "key of the certificate in the Secret").default_value("cert"))
        .arg(flag(KEY_KEY, "KEY", "key of the private key in the Secret").default_value("key"));
    let patch = clap::Command::new("patch")
        .about("Have the API server trust the authority in the Secret")
        .args(common())
        .arg(flag(WEBHOOK, "NAME", "the ValidatingWebhookConfiguration"))
        .arg(flag(POLICY, "POLICY", "Fail or Ignore; without it the failurePolicy stays as it is"));
    clap::Command::new(NAME)
        .about("Make, renew and announce the certificate of the validating webhook, for hooks of Helm")
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands([create, patch])
}

fn common() -> Vec<Arg> {
    vec![
        flag(NAMESPACE, "NAME", "namespace of the Secret; POD_NAMESPACE when it is not given"),
        flag(SECRET, "NAME", "the Secret"),
        flag(AUTHORITY_KEY, "KEY", "key of the authority in the Secret").default_value("ca"),
        flag(KUBECONFIG, "PATH", "the cluster, when this is no Pod of it"),
    ]
}

fn flag(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// Parses the arguments of the subcommand.
pub(super) fn parse(
    matches: &ArgMatches,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<WebhookCert, FlagError> {
    let (name, matches) =
        matches.subcommand().ok_or(FlagError::Incomplete { command: NAME, needs: "create or patch" })?;
    let text = |name: &str| matches.get_one::<String>(name).filter(|text| !text.is_empty()).cloned();
    let needed = |name: &'static str| text(name).ok_or(FlagError::Required { command: NAME, flag: name });
    let optional = |name: &str| matches.try_contains_id(name).is_ok().then(|| text(name)).flatten();
    let namespace = text(NAMESPACE).or_else(|| environment("POD_NAMESPACE"));
    let secret = WebhookSecret {
        namespace: namespace.ok_or(FlagError::Required { command: NAME, flag: NAMESPACE })?,
        name: needed(SECRET)?,
        keys: SecretKeys {
            certificate: optional(CERTIFICATE_KEY).unwrap_or_default(),
            key: optional(KEY_KEY).unwrap_or_default(),
            authority: needed(AUTHORITY_KEY)?,
        },
    };
    let action = match name {
        "create" => {
            let hosts = needed(HOST)?;
            let hosts = hosts.split(',').map(str::trim).filter(|host| !host.is_empty());
            let lifetime = needed(LIFETIME)?;
            WebhookCertAction::Create(CreateCertificate {
                secret,
                hosts: hosts.map(str::to_owned).collect(),
                lifetime: life(&lifetime)?,
                webhook: text(WEBHOOK),
            })
        }
        _ => {
            let failure_policy = text(POLICY);
            if let Some(value) =
                failure_policy.as_ref().filter(|value| !["Fail", "Ignore"].contains(&value.as_str()))
            {
                return Err(FlagError::Value {
                    flag: POLICY,
                    value: value.clone(),
                    expected: "Fail or Ignore",
                });
            }
            WebhookCertAction::Patch(PatchWebhook { secret, webhook: needed(WEBHOOK)?, failure_policy })
        }
    };
    Ok(WebhookCert { kubeconfig: text(KUBECONFIG).map(PathBuf::from), action })
}

/// Parses a lifetime. The minimum is one day, because a third of it must exceed the time in which
/// Pods reload the files.
fn life(text: &str) -> Result<Duration, FlagError> {
    let expected = "a duration from 24h to 876000h, such as 87600h";
    let wrong = || FlagError::Value { flag: LIFETIME, value: text.to_owned(), expected };
    let life = value::duration(text).map_err(|_| wrong())?;
    let day = Duration::from_secs(24 * 60 * 60);
    if (day..=day * 36_500).contains(&life) { Ok(life) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Command, parse};

    fn read(line: &str) -> Result<WebhookCert, String> {
        let namespace = |name: &str| (name == "POD_NAMESPACE").then(|| "edge".to_owned());
        match parse(line.split_whitespace().map(Into::into), namespace)
            .map_err(|error| error.to_string())?
            .command
        {
            Command::WebhookCert(wanted) => Ok(wanted),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_of_kube_webhook_certgen_are_accepted() {
        let read_create =
            read("webhook-cert create --host=admission,admission.edge.svc --namespace=other --secret-name=s");
        let WebhookCert { kubeconfig: None, action: WebhookCertAction::Create(create) } =
            read_create.unwrap()
        else {
            panic!()
        };
        assert_eq!(create.hosts, ["admission", "admission.edge.svc"]);
        assert_eq!((create.secret.namespace.as_str(), create.secret.name.as_str()), ("other", "s"));
        let keys = &create.secret.keys;
        assert_eq!((&*keys.certificate, &*keys.key, &*keys.authority), ("cert", "key", "ca"));
        assert_eq!(create.lifetime, Duration::from_secs(3650 * 24 * 3600));

        let read_patch = read(
            "webhook-cert patch --webhook-name=w --secret-name s --ca-name ca.crt --patch-failure-policy=Fail --kubeconfig /k",
        );
        let WebhookCert { kubeconfig: Some(_), action: WebhookCertAction::Patch(patch) } =
            read_patch.unwrap()
        else {
            panic!()
        };
        assert_eq!((patch.webhook.as_str(), patch.failure_policy.as_deref()), ("w", Some("Fail")));
        assert_eq!(
            (patch.secret.namespace.as_str(), patch.secret.keys.authority.as_str()),
            ("edge", "ca.crt")
        );
    }

    #[test]
    fn missing_and_invalid_flags_are_named() {
        for (line, part) in [
            ("webhook-cert", "webhook-cert needs create or patch"),
            ("webhook-cert create --secret-name s", "webhook-cert needs --host"),
            ("webhook-cert create --host a", "webhook-cert needs --secret-name"),
            ("webhook-cert patch --secret-name s", "webhook-cert needs --webhook-name"),
            ("webhook-cert create --host a --secret-name s --lifetime 1m", "from 24h to 876000h"),
            (
                "webhook-cert patch --webhook-name w --secret-name s --patch-failure-policy fail",
                "Fail or Ignore",
            ),
            ("webhook-cert patch --webhook-nam w", "did you mean --webhook-name"),
        ] {
            let message = read(line).unwrap_err();
            assert!(message.contains(part) && !message.contains('\n'), "{line}: {message}");
        }
    }
}
