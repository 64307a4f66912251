//! A folder of manifests looked at once: what would be served, and every problem. Behind `sluice check`.

use std::collections::BTreeMap;
use std::path::Path;

use sluice_config::{Host, Problem, Severity};

use crate::controller::Controller;
use crate::options::Options;
use crate::source::Event;
use crate::source::files::{FileSource, FileSourceError};

/// What a folder amounts to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Every problem, sorted by object.
    pub problems: Vec<Problem>,
    /// How much there is.
    pub counts: Counts,
}

/// How much there is in a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Objects that were read, by kind.
    pub objects: BTreeMap<String, usize>,
    /// Objects of kinds that are not served, by kind.
    pub skipped: BTreeMap<String, usize>,
    /// Hosts that are served.
    pub hosts: usize,
    /// Rules of all hosts.
    pub rules: usize,
    /// How many of these are closed: what they cover is served by nobody.
    pub closed: usize,
    /// Pools.
    pub pools: usize,
    /// Endpoints of all Service ports in use.
    pub endpoints: usize,
    /// Certificates in use.
    pub certificates: usize,
}

impl CheckReport {
    /// Whether an object would not be served as it asks.
    pub fn has_errors(&self) -> bool {
        self.problems.iter().any(|problem| problem.severity == Severity::Error)
    }
}

/// Reads and translates a folder.
///
/// # Errors
/// When the folder cannot be read.
pub fn check(folder: &Path, options: Options) -> Result<CheckReport, FileSourceError> {
    let batch = FileSource::read_once(folder, &options)?;
    let mut objects = BTreeMap::new();
    for event in &batch.events {
        if let Event::Put(object) = event {
            *objects.entry(object.kind().as_str().to_owned()).or_default() += 1;
        }
    }
    let mut controller = Controller::new(options);
    controller.source_finds(batch.problems.unwrap_or_default());
    controller.update(batch.events, true);
    let snapshot = controller.snapshot();
    Ok(CheckReport {
        problems: controller.problems(),
        counts: Counts {
            objects,
            skipped: batch.skipped.unwrap_or_default(),
            hosts: snapshot.hosts.len(),
            rules: snapshot.hosts.values().map(|host| host.rules.len()).sum(),
            closed: snapshot.hosts.values().map(|host| closed_rules(host)).sum(),
            pools: snapshot.pools.len(),
            endpoints: snapshot.endpoint_sets.values().map(|set| set.endpoints.len()).sum(),
            certificates: snapshot.certificates.len(),
        },
    })
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
