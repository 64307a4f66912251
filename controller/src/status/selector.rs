//! The labels by which replicas are found: those in the selector of a Deployment or DaemonSet,
//! which are immutable.

use std::collections::BTreeMap;

/// Labels in the selectors of charts, including ours and that of ingress-nginx.
const SELECTING: [&str; 3] =
    ["app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"];
/// Labels that change with upgrades or differ between Pods of one release.
const CHANGING: [&str; 12] = [
    "pod-template-hash",
    "rollouts-pod-template-hash",
    "controller-revision-hash",
    "pod-template-generation",
    "statefulset.kubernetes.io/pod-name",
    "apps.kubernetes.io/pod-index",
    "helm.sh/chart",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "chart",
    "version",
];
/// API servers copy these labels from the node, so they differ between replicas.
const OF_A_NODE: &str = "topology.kubernetes.io/";

/// Returns a selector of the labels that all replicas share across upgrades. If the Pod has the
/// recommended labels, only these are used: all others may be the operator's.
pub(super) fn selector(labels: Option<&BTreeMap<String, String>>) -> Option<String> {
    let labels = labels?;
    let recommended = SELECTING[..2].iter().all(|name| labels.contains_key(*name));
    let is_kept = |name: &str| match recommended {
        true => SELECTING.contains(&name),
        false => !CHANGING.contains(&name) && !name.starts_with(OF_A_NODE),
    };
    let kept = labels.iter().filter(|(name, _)| is_kept(name));
    let parts: Vec<String> = kept.map(|(name, value)| format!("{name}={value}")).collect();
    (!parts.is_empty()).then(|| parts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(labels: &[(&str, &str)]) -> Option<String> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        selector(Some(&labels))
    }

    #[test]
    fn replicas_of_another_version_of_the_chart_are_replicas() {
        let all = [
            ("app.kubernetes.io/component", "controller"),
            ("app.kubernetes.io/instance", "edge"),
            ("app.kubernetes.io/managed-by", "Helm"),
            ("app.kubernetes.io/name", "sluice"),
            ("app.kubernetes.io/version", "1.1.0"),
            ("helm.sh/chart", "sluice-1.1.0"),
            ("pod-template-hash", "5d8f"),
            ("team", "edge"),
        ];
        let expected = "app.kubernetes.io/component=controller,app.kubernetes.io/instance=edge,\
                        app.kubernetes.io/name=sluice";
        assert_eq!(of(&all).as_deref(), Some(expected));
    }

    #[test]
    fn without_the_recommended_labels_all_count_that_an_upgrade_keeps() {
        let labels = [
            ("app", "sluice"),
            ("pod-template-hash", "5d8f"),
            ("tier", "edge"),
            ("topology.kubernetes.io/zone", "zone-a"),
            ("apps.kubernetes.io/pod-index", "0"),
            ("version", "7"),
        ];
        assert_eq!(of(&labels).as_deref(), Some("app=sluice,tier=edge"));
        assert_eq!(of(&[]), None, "no labels would be all Pods");
    }
}
