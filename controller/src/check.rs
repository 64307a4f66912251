//! `sluice check`: reads a folder of manifests or a cluster once, and reports counts and problems.
//!
//! The check of a cluster writes nothing. It reads the objects that a gateway with the same flags
//! reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use sluice_config::{Host, Problem, Severity};
use tokio::time::timeout;

use crate::controller::Controller;
use crate::input::{self, Input};
use crate::options::Options;
use crate::source::files::{FileSource, FileSourceError};
use crate::source::kube::{Access, AccessError, KubeSource};
use crate::store::{Batch, Event, Progress};
use crate::translate::SnippetTranslation;

/// Time limit for the next part of a cluster's state.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time limit after a refused request, shorter because the reason is already known.
const IMPATIENCE: Duration = Duration::from_secs(5);

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Every problem, sorted by object.
    pub problems: Vec<Problem>,
    /// Translations of snippets, sorted by object.
    pub snippets: Vec<SnippetTranslation>,
    /// Numbers of objects and of translated parts.
    pub counts: Counts,
}

/// Numbers of objects and of translated parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of objects read, by kind.
    pub objects: BTreeMap<String, usize>,
    /// Number of objects of unsupported kinds, by kind.
    pub skipped: BTreeMap<String, usize>,
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
}

/// Reads and translates a folder.
///
/// # Errors
/// Returns an error if the folder cannot be read.
pub fn check(folder: &Path, options: Options) -> Result<CheckReport, FileSourceError> {
    let batch = FileSource::read_once(folder, &options)?;
    let mut look = Look::new(options);
    look.count(&batch);
    look.controller.source_finds(batch.problems.unwrap_or_default());
    look.controller.update(batch.events, true);
    Ok(look.report())
}

/// Reads and translates the current state of a cluster. Must be called on a Tokio runtime.
///
/// # Errors
/// Returns an error if the cluster cannot be read. A partial state would cause false problems.
pub async fn check_cluster(access: Access, options: Options) -> Result<CheckReport, ClusterCheckError> {
    // The API server writes the default class into Ingresses without a class.
    let options = Options { apply_default_class: false, refuse_local_names: true, ..options };
    let (sender, mut inputs) = input::channel();
    let source = KubeSource::start(access, &options, sender).await?;
    let references = source.references();
    let mut look = Look::new(options);
    loop {
        let refused = look.controller.problems().iter().any(|problem| problem.severity == Severity::Error);
        let patience = if refused { IMPATIENCE } else { PATIENCE };
        let Ok(next) = timeout(patience, inputs.recv()).await else {
            return Err(look.unread("it has not answered for a minute"));
        };
        let mut batch = match next {
            Some(Input::Batch(batch)) => batch,
            Some(_) => continue,
            None => return Err(look.unread("its watches have ended")),
        };
        look.count(&batch);
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
            Progress::Reading | Progress::Complete => {
                look.controller.update(batch.events, progress == Progress::Complete);
            }
        }
        if progress == Progress::Complete {
            return Ok(look.report());
        }
    }
}

/// The state of a check in progress.
struct Look {
    controller: Controller,
    objects: BTreeMap<String, usize>,
    skipped: BTreeMap<String, usize>,
}

impl Look {
    fn new(options: Options) -> Self {
        Self { controller: Controller::new(options), objects: BTreeMap::new(), skipped: BTreeMap::new() }
    }

    fn count(&mut self, batch: &Batch) {
        for event in &batch.events {
            if let Event::Put(object) = event {
                *self.objects.entry(object.kind().as_str().to_owned()).or_default() += 1;
            }
        }
        if let Some(skipped) = &batch.skipped {
            self.skipped.clone_from(skipped);
        }
    }

    /// Returns an error with the problems of the source, or with `otherwise` if it has none.
    fn unread(&self, otherwise: &str) -> ClusterCheckError {
        let problems = self.controller.problems();
        let problem = problems.iter().find(|problem| problem.severity == Severity::Error);
        let told = problem.map(|problem| format!("{}; {}", problem.message, problem.remedy));
        ClusterCheckError::Unread(told.unwrap_or_else(|| otherwise.to_owned()))
    }

    fn report(self) -> CheckReport {
        let snapshot = self.controller.snapshot();
        let mut problems = self.controller.problems();
        problems.extend(self.controller.obeyed_app_protocols());
        CheckReport {
            problems,
            snippets: self.controller.snippet_translations(),
            counts: Counts {
                objects: self.objects,
                skipped: self.skipped,
                hosts: snapshot.hosts.len(),
                rules: snapshot.hosts.values().map(|host| host.rules.len()).sum(),
                closed: snapshot.hosts.values().map(|host| closed_rules(host)).sum(),
                pools: snapshot.pools.len(),
                endpoints: snapshot.endpoint_sets.values().map(|set| set.endpoints.len()).sum(),
                certificates: snapshot.certificates.len(),
            },
        }
    }
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
        let report = check(folder.path(), Options::default()).unwrap();
        assert!(report.has_errors());
        assert!(report.problems[0].message.contains("Service default/web does not exist"));
        fs::write(folder.path().join("b.yaml"), SERVICE).unwrap();
        let report = check(folder.path(), Options::default()).unwrap();
        assert_eq!((report.problems.len(), report.has_errors()), (0, false));
        let counts = report.counts;
        assert_eq!((counts.hosts, counts.rules, counts.pools, counts.endpoints), (1, 1, 1, 0));
        assert_eq!((counts.objects["Ingress"], counts.skipped["Deployment.apps"]), (1, 1));
    }
}
