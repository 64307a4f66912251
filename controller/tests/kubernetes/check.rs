//! One check of a cluster, as by `sluice check --kubeconfig`.

use sluice_config::NamespacedName;
use sluice_controller::source::kube::ApiAccess;
use sluice_controller::{CheckInput, CheckReport, ClusterCheckError, NameLookup, Options, check_cluster};

use crate::fake::Fake;
use crate::objects::*;

fn look(fake: &Fake, options: Options) -> Result<CheckReport, ClusterCheckError> {
    let input = CheckInput { options, further: None, names: NameLookup::Placeholder };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check_cluster(ApiAccess::Server { url: fake.url(), authority: None }, input))
}

fn options() -> Options {
    Options { configmap: Some(NamespacedName::new("shop", "settings")), ..Options::default() }
}

/// Only referenced Secrets and ConfigMaps are read: the check waits for them before it reports one
/// as missing.
#[test]
fn a_cluster_is_checked_with_its_references() {
    let fake = Fake::start();
    fake.put("ingressclasses", class("nginx"));
    fake.put("configmaps", config_map(307));
    fake.put("secrets", secret("tls", "web.example"));
    fake.put("services", service());
    fake.put("endpointslices", slice("10.0.0.1"));
    fake.put("ingresses", ingress("web", "web.example", Some("nginx"), Some("tls")));
    let report = look(&fake, options()).unwrap();
    assert_eq!(report.problems, []);
    let counts = report.counts;
    assert_eq!((counts.hosts, counts.endpoints, counts.certificates), (1, 1, 1));
    assert_eq!((counts.objects["Ingress"], counts.objects["Secret"]), (1, 1));

    fake.put("ingresses", ingress("late", "late.example", Some("nginx"), Some("none")));
    let report = look(&fake, options()).unwrap();
    let all: Vec<String> = report.problems.iter().map(|problem| problem.message.clone()).collect();
    assert!(all.len() == 1 && all[0].contains("shop/none"), "{all:?}");
}

/// A check of half a cluster would report false problems.
#[test]
fn a_cluster_that_cannot_be_read_in_full_is_not_judged() {
    let fake = Fake::start();
    fake.put("ingresses", ingress("web", "web.example", Some("nginx"), None));
    fake.refuse("services", Some(403));
    let error = look(&fake, Options::default()).unwrap_err().to_string();
    assert!(error.contains("could not be read") && error.contains("services"), "{error}");
}
