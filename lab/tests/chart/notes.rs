//! The notes that Helm prints after an installation.

use crate::helm::helm;

/// Returns the notes for these values of `controller`.
fn notes(values: &str) -> String {
    let image = "controller.image.repository=r/sluice";
    let values = format!("controller={values}");
    // Renders the notes only, without a cluster.
    let before = ["install", "gateway", "--namespace", "edge", "--dry-run=client"];
    helm(&before, &["--set-json", &values, "--set", image]).unwrap_or_else(|message| panic!("{message}"))
}

/// Only seconds were compared, and flags were not.
#[test]
fn a_grace_period_that_is_too_short_is_noted_in_every_unit() {
    for (values, taken) in [
        (
            r#"{"config": {"worker-shutdown-timeout": "10m"}}"#,
            "10 s (controller.shutdownGracePeriod) and 600 s",
        ),
        (r#"{"config": {"worker-shutdown-timeout": "1h 30m"}}"#, "and 5400 s"),
        (r#"{"config": {"worker-shutdown-timeout": "291000ms"}}"#, "and 291 s"),
        (r#"{"config": {"worker-shutdown-timeout": "{{ 300 }}"}}"#, "and 300 s"),
        (r#"{"config": {"worker-shutdown-timeout": 300}}"#, "and 300 s"),
        (r#"{"config": {"Worker-Shutdown-Timeout": 300, "WORKER-shutdown-timeout": 301}}"#, "and 301 s"),
        (r#"{"config": {"Worker-Shutdown-Timeout": 1, "worker-shutdown-timeout": 300}}"#, "and 300 s"),
        (
            r#"{"extraArgs": {"shutdown-grace-period": 70}}"#,
            "70 s (controller.shutdownGracePeriod) and 240 s",
        ),
        (r#"{"terminationGracePeriodSeconds": 60}"#, "and 240 s"),
        // The gateway takes the default for a value that is no time.
        (
            r#"{"terminationGracePeriodSeconds": 60, "config": {"worker-shutdown-timeout": "soon"}}"#,
            "and 240 s",
        ),
    ] {
        let notes = notes(values);
        assert!(notes.contains("WARNING: a Pod that ends") && notes.contains(taken), "{values}\n{notes}");
    }
    for values in ["{}", r#"{"config": {"worker-shutdown-timeout": "4m 50s"}}"#] {
        let notes = notes(values);
        assert!(!notes.contains("WARNING"), "{values}\n{notes}");
    }
}

#[test]
fn a_configmap_that_is_not_of_the_release_is_noted() {
    for (values, read) in [
        (
            r#"{"configMapNamespace": "other", "config": {"use-gzip": "true"}}"#,
            Some("other/gateway-sluice-controller"),
        ),
        (r#"{"extraArgs": {"configmap": "a/b"}, "config": {"use-gzip": "true"}}"#, Some("a/b")),
        (r#"{"configMapNamespace": "other"}"#, None),
        (r#"{"configMapNamespace": "edge", "config": {"use-gzip": "true"}}"#, None),
    ] {
        let notes = notes(values);
        match read {
            Some(read) => {
                assert!(notes.contains(&format!("the gateway reads the ConfigMap {read}, ")), "{notes}")
            }
            None => assert!(!notes.contains("NOTE: the gateway reads"), "{notes}"),
        }
    }
}
