//! `sluice check`: reads a folder of manifests or a cluster once, and reports counts and problems.
//!
//! The check of a cluster writes nothing. It reads the objects that a gateway with the same flags
//! reads.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{Code, GroupId, Host, NamespacedName, ObjectRef, Problem, Severity, Snapshot};
use tokio::time::timeout;

use crate::controller::{Controller, IngressCounts};
use crate::input::{self, Input};
use crate::options::Options;
use crate::problem::warning;
use crate::source::files::{FileSource, FileSourceError};
use crate::source::kube::{AccessError, ApiAccess, KubeSource};
use crate::store::{Event, Object, Progress, Resolved};
use crate::translate::SnippetTranslation;
use crate::translate::global_settings::text_in_effect;

/// Time limit for the next part of a cluster's state.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit after a refused request, shorter because the reason is already known.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(5);

/// Address of names that are not looked up (TEST-NET-1, RFC 5737).
const PLACEHOLDER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
/// ConfigMap key with the format of the access log.
const LOG_FORMAT: &str = "log-format-upstream";

/// What a check reads beside the folder or cluster, and how.
#[derive(Clone, Debug)]
pub struct CheckInput<'a> {
    /// The options of the gateway that would serve the objects.
    pub options: Options,
    /// A folder with further objects, which replace objects of the same name.
    pub further: Option<&'a Path>,
    /// Addresses of names outside of the cluster.
    pub names: NameLookup,
}

/// Addresses of names outside of the cluster: of ExternalName Services, and of hosts of `auth-url`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameLookup {
    /// One address of the documentation for each name. Nothing is looked up.
    Placeholder,
    /// The addresses that the resolver of this machine returns.
    System,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Every problem, sorted by object.
    pub problems: Vec<Problem>,
    /// Translations of snippets, sorted by object.
    pub snippets: Vec<SnippetTranslation>,
    /// Numbers of objects and of translated parts.
    pub counts: Counts,
    /// The configuration that a gateway would serve.
    pub snapshot: Snapshot,
    /// The text of `log-format-upstream` that applies; `None` if the ConfigMap has none.
    pub log_format: Option<String>,
}

/// Numbers of objects and of translated parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of objects read, by kind.
    pub objects: BTreeMap<String, usize>,
    /// Number of objects of unsupported kinds, by kind.
    pub skipped: BTreeMap<String, usize>,
    /// Numbers of Ingresses by whether they are served.
    pub ingresses: IngressCounts,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of rules of all hosts.
    pub rules: usize,
    /// Number of closed rules. Their paths are not served.
    pub closed: usize,
    /// Number of pools.
    pub pools: usize,
    /// Number of endpoints of all Service ports in use.
    pub endpoints: usize,
    /// Number of certificates in use.
    pub certificates: usize,
}

impl CheckReport {
    /// Returns whether an object would not be served as requested.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// Errors of [`check_cluster`].
#[derive(Debug, thiserror::Error)]
pub enum ClusterCheckError {
    /// No cluster is configured, or its configuration is invalid.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The cluster does not respond, or refuses a request.
    #[error("the cluster could not be read: {0}")]
    Unread(String),
    /// The folder with further objects cannot be read.
    #[error(transparent)]
    Further(#[from] FileSourceError),
}

/// Reads and translates a folder.
///
/// # Errors
/// Returns an error if a folder cannot be read.
pub fn check(folder: &Path, input: CheckInput<'_>) -> Result<CheckReport, FileSourceError> {
    let CheckInput { options, further, names } = input;
    let batch = FileSource::read_once(folder, &options)?;
    let further = further_events(further, &options)?;
    let mut look = Look::new(options);
    look.count(&batch.events);
    look.count(&further);
    look.skipped = batch.skipped.unwrap_or_default();
    look.controller.source_finds(batch.problems.unwrap_or_default());
    look.update(batch.events.into_iter().chain(further).collect(), true);
    Ok(look.report(names, &ObjectRef::new("File", "", &folder.to_string_lossy())))
}

/// Reads and translates the current state of a cluster. Must be called on a Tokio runtime.
///
/// # Errors
/// Returns an error if the cluster cannot be read. A partial state would cause false problems.
pub async fn check_cluster(
    access: ApiAccess,
    input: CheckInput<'_>,
) -> Result<CheckReport, ClusterCheckError> {
    let CheckInput { options, further, names } = input;
    // The API server writes the default class into Ingresses without a class.
    let options = Options { apply_default_class: false, refuse_local_names: true, ..options };
    let further = further_events(further, &options)?;
    let (sender, mut inputs) = input::channel();
    let source = KubeSource::start(access, &options, sender).await?;
    let references = source.references();
    let mut look = Look::new(options);
    loop {
        let refused = look.controller.problems().iter().any(|problem| problem.severity == Severity::Error);
        let time_limit = if refused { REFUSED_TIMEOUT } else { TIMEOUT };
        let Ok(next) = timeout(time_limit, inputs.recv()).await else {
            return Err(look.unread("it has not answered for a minute"));
        };
        let mut batch = match next {
            Some(Input::Batch(batch)) => batch,
            Some(_) => continue,
            None => return Err(look.unread("its watches have ended")),
        };
        look.count(&batch.events);
        if let Some(skipped) = batch.skipped.take() {
            look.skipped = skipped;
        }
        let progress = batch.progress;
        if let Some(problems) = batch.problems.take() {
            look.controller.source_finds(problems);
        }
        match progress {
            Progress::Unreachable => return Err(look.unread("it does not answer")),
            Progress::AllButReferred => {
                if let Some(wanted) = look.controller.survey(batch.events) {
                    // If the source has ended, the next input reports it.
                    let _ = references.send(wanted);
                }
            }
            Progress::Reading => look.update(batch.events, false),
            Progress::Complete => {
                look.count(&further);
                look.update(batch.events.into_iter().chain(further).collect(), true);
                return Ok(look.report(names, &ObjectRef::new("KubernetesApi", "", "ingresses")));
            }
        }
    }
}

/// Returns the objects of a folder.
fn further_events(folder: Option<&Path>, options: &Options) -> Result<Vec<Event>, FileSourceError> {
    folder.map_or(Ok(Vec::new()), |folder| Ok(FileSource::read_once(folder, options)?.events))
}

/// The state of a check in progress.
struct Look {
    controller: Controller,
    objects: BTreeMap<String, usize>,
    skipped: BTreeMap<String, usize>,
    /// The ConfigMap with the global settings.
    configmap: Option<NamespacedName>,
    log_format: Option<String>,
    /// Names that the configuration refers to.
    names: BTreeSet<Arc<str>>,
}

impl Look {
    fn new(options: Options) -> Self {
        Self {
            configmap: options.configmap.clone(),
            controller: Controller::new(options),
            objects: BTreeMap::new(),
            skipped: BTreeMap::new(),
            log_format: None,
            names: BTreeSet::new(),
        }
    }

    fn update(&mut self, events: Vec<Event>, complete: bool) {
        for event in &events {
            if let Event::Put(Object::ConfigMap(map)) = event
                && Some(&map.name) == self.configmap.as_ref()
            {
                self.log_format = text_in_effect(map, LOG_FORMAT).map(str::to_owned);
            }
        }
        if let Some(names) = self.controller.update(events, complete).names {
            self.names = names;
        }
    }

    fn count(&mut self, events: &[Event]) {
        for event in events {
            if let Event::Put(object) = event {
                *self.objects.entry(object.kind().as_str().to_owned()).or_default() += 1;
            }
        }
    }

    /// Returns an error with the problems of the source, or with `otherwise` if it has none.
    fn unread(&self, otherwise: &str) -> ClusterCheckError {
        let problems = self.controller.problems();
        let problem = problems.iter().find(|problem| problem.severity == Severity::Error);
        let found = problem.map(|problem| format!("{}; {}", problem.message, problem.remedy));
        ClusterCheckError::Unread(found.unwrap_or_else(|| otherwise.to_owned()))
    }

    /// Returns the report of a source.
    fn report(mut self, names: NameLookup, source: &ObjectRef) -> CheckReport {
        let mut problems = self.controller.problems();
        problems.extend(self.controller.app_protocol_problems());
        self.resolve(names);
        let snapshot = self.controller.snapshot();
        let ingresses = self.controller.ingress_counts();
        // TCP and UDP services need no Ingress.
        let has_streams = snapshot.groups.keys().any(|group| *group != GroupId::ingress());
        if ingresses.served == 0 && !has_streams {
            problems.push(nothing_served(source, ingresses));
        }
        CheckReport {
            problems,
            snippets: self.controller.snippet_translations(),
            counts: Counts {
                objects: self.objects,
                skipped: self.skipped,
                ingresses,
                hosts: snapshot.hosts.len(),
                rules: snapshot.hosts.values().map(|host| host.rules.len()).sum(),
                closed: snapshot.hosts.values().map(|host| closed_rules(host)).sum(),
                pools: snapshot.pools.len(),
                endpoints: snapshot.endpoint_sets.values().map(|set| set.endpoints.len()).sum(),
                certificates: snapshot.certificates.len(),
            },
            snapshot,
            log_format: self.log_format,
        }
    }

    /// Gives each name its addresses. A name that cannot be looked up keeps none.
    #[expect(clippy::disallowed_methods, reason = "a check may block while the system looks up a name")]
    fn resolve(&mut self, lookup: NameLookup) {
        for name in std::mem::take(&mut self.names) {
            let addresses = match lookup {
                NameLookup::Placeholder => vec![PLACEHOLDER],
                NameLookup::System => {
                    let found = (&*name, 0).to_socket_addrs().into_iter().flatten();
                    let unique: BTreeSet<IpAddr> = found.map(|address| address.ip()).collect();
                    unique.into_iter().collect()
                }
            };
            self.controller.take_name(name, Resolved { addresses, fault: None });
        }
        self.controller.update(Vec::new(), true);
    }
}

fn nothing_served(source: &ObjectRef, ingresses: IngressCounts) -> Problem {
    let (message, remedy) = match ingresses.of_other_classes + ingresses.of_other_namespaces {
        0 => ("no Ingress is read", "name the folder or cluster with the Ingresses, and their namespace"),
        _ => (
            "none of the Ingresses is served: they have another class or none, or other namespaces",
            "pass the flags of your controller: --ingress-class, --controller-class, --watch-ingress-without-class, \
             --watch-namespace",
        ),
    };
    warning(Code::NoIngressServed, source, "", message, remedy)
}

fn closed_rules(host: &Host) -> usize {
    host.rules.iter().filter(|rule| rule.policies.deny.is_some()).count()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MANIFESTS: &str = "
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: nginx}
spec: {controller: k8s.io/ingress-nginx}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: shop}
spec:
  ingressClassName: nginx
  rules:
  - host: shop.example
    http:
      paths:
      - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
";

    const SERVICE: &str =
        "{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 80}]}}";

    #[test]
    fn a_folder_is_counted_and_its_faults_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.yaml"), MANIFESTS).unwrap();
        let input = CheckInput { options: Options::default(), further: None, names: NameLookup::Placeholder };
        let report = check(folder.path(), input.clone()).unwrap();
        assert!(report.has_errors());
        assert!(report.problems[0].message.contains("Service default/web does not exist"));
        fs::write(folder.path().join("b.yaml"), SERVICE).unwrap();
        let report = check(folder.path(), input).unwrap();
        assert_eq!((report.problems.len(), report.has_errors()), (0, false));
        let counts = report.counts;
        assert_eq!((counts.hosts, counts.rules, counts.pools, counts.endpoints), (1, 1, 1, 0));
        assert_eq!((counts.objects["Ingress"], counts.skipped["Deployment.apps"]), (1, 1));
    }

    #[test]
    fn the_format_of_the_log_is_the_one_in_effect() {
        let folder = tempfile::tempdir().unwrap();
        for (data, format) in [
            ("log-format-upstream: $request_uri", Some("$request_uri")),
            ("Log-Format-Upstream: $request_uri", Some("$request_uri")),
            ("Log-Format-Upstream: $uri, log-format-upstream: $request_uri", Some("$request_uri")),
            ("log-format-upstream: ''", None),
            ("keep-alive: '75'", None),
        ] {
            let map = format!(
                "{{apiVersion: v1, kind: ConfigMap, metadata: {{name: keys, namespace: edge}}, data: {{{data}}}}}"
            );
            fs::write(folder.path().join("keys.yaml"), map).unwrap();
            let options =
                Options { configmap: Some(NamespacedName::new("edge", "keys")), ..Options::default() };
            let input = CheckInput { options, further: None, names: NameLookup::Placeholder };
            let report = check(folder.path(), input).unwrap();
            assert_eq!(report.log_format.as_deref(), format, "{data}");
        }
    }
}
