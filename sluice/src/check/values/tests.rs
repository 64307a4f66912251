use super::*;

fn values(text: &str) -> ChartValues {
    ChartValues::new(parse_yaml(text).unwrap(), "values.yaml", "ingress-nginx/ingress-nginx").unwrap()
}

fn flag(values: &ChartValues, name: &str) -> Option<String> {
    values.flags().into_iter().find(|(other, _)| other == name).map(|(_, value)| value)
}

#[test]
fn values_become_the_flags_of_the_controllers_pods() {
    let values = values(
        "tcp: {'5432': 'data/postgres:5432'}\ndefaultBackend: {enabled: true}\ncontroller:\n  watchIngressWithoutClass: true\n  \
         ingressClassResource: {controllerValue: example.com/edge}\n  scope: {enabled: true}\n  extraArgs:\n    \
         default-ssl-certificate: $(POD_NAMESPACE)/wildcard\n    tcp-services-configmap: data/tcp\n",
    );
    for (name, expected) in [
        ("configmap", "ingress-nginx/ingress-nginx-controller"),
        ("controller-class", "example.com/edge"),
        ("watch-ingress-without-class", "true"),
        ("watch-namespace", "ingress-nginx"),
        ("default-backend-service", "ingress-nginx/ingress-nginx-defaultbackend"),
        ("default-ssl-certificate", "ingress-nginx/wildcard"),
        ("tcp-services-configmap", "data/tcp"),
    ] {
        assert_eq!(flag(&values, name).as_deref(), Some(expected), "{name}");
    }
    assert_eq!(values.flags().iter().filter(|(name, _)| name == "tcp-services-configmap").count(), 1);
}

#[test]
fn values_become_the_config_maps_and_the_class_of_the_chart() {
    let values = values(
        "fullnameOverride: edge\nudp: {'53': 'dns/dns:53'}\ncontroller:\n  config: {use-gzip: true, proxy-body-size: 8m}\n  \
         proxySetHeaders: {X-Edge: a}\n  ingressClassResource: {default: true, aliases: [legacy]}\n",
    );
    let list = objects(&values);
    let names: Vec<_> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["edge-custom-proxy-headers", "edge-controller", "edge-udp", "nginx", "legacy"]);
    let data = &list["items"][1]["data"];
    assert_eq!((&data["use-gzip"], &data["proxy-body-size"]), (&"true".into(), &"8m".into()));
    assert_eq!(data["proxy-set-headers"], "ingress-nginx/edge-custom-proxy-headers");
    assert_eq!(
        list["items"][3]["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"],
        "true"
    );
}

/// As in the chart of ingress-nginx, these values only change the flags.
#[test]
fn a_namespace_of_config_maps_does_not_move_those_of_the_chart() {
    let values = values(
        "tcp: {'5432': 'data/postgres:5432'}\ncontroller: {configMapNamespace: other, tcp: {configMapNamespace: other}}\n",
    );
    assert_eq!(flag(&values, "configmap").as_deref(), Some("other/ingress-nginx-controller"));
    let list = objects(&values);
    let maps = list["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "ConfigMap");
    let namespaces: Vec<_> = maps.map(|map| map["metadata"]["namespace"].as_str().unwrap()).collect();
    assert_eq!(namespaces, ["ingress-nginx", "ingress-nginx"]);
}

#[test]
fn refused_and_unknown_values_are_problems_and_defaults_are_not() {
    let values = values(
        "controller:\n  customTemplate: {configMapName: template, configMapKey: nginx.tmpl}\n  extraArgs: {profiling: 'false', \
         sync-period: '0'}\n  extraModules: []\n  replicaCont: 2\n  admissionWebhooks: {createSecretJob: {ttlSecondsAfterFinished: \
         60}, patchWebhookJob: {ttlSecondsAfterFinished: 60}}\n",
    );
    let fields: Vec<_> = values.problems().into_iter().map(|problem| problem.field).collect();
    assert_eq!(
        fields,
        ["controller.customTemplate", "controller.extraArgs.profiling", "controller.replicaCont"]
    );
}

#[test]
fn refused_keys_and_flags_are_errors_and_checked_nowhere_else() {
    let values = values(
        "dhParam: abc\ncontroller:\n  admissionWebhooks: {patch: {image: {tag: v1}}}\n  config: {enable-vts-status: 'false', \
         main-snippet: env A;, use-gzip: true, hsts: null}\n  extraArgs: {profiling: 'false', profiler-port: '', htp-port: '1'}\n",
    );
    let of = |severity| {
        let problems = values.problems().into_iter().filter(move |problem| problem.severity == severity);
        let mut fields: Vec<_> = problems.map(|problem| problem.field).collect();
        fields.sort();
        fields
    };
    assert_eq!(
        of(Severity::Error),
        [
            "controller.config.enable-vts-status",
            "controller.config.main-snippet",
            "controller.extraArgs.htp-port",
            "controller.extraArgs.profiler-port",
            "controller.extraArgs.profiling",
            "dhParam"
        ]
    );
    assert_eq!(of(Severity::Warning), ["controller.admissionWebhooks.patch.image"]);
    assert_eq!(flag(&values, "htp-port"), None);
    assert_eq!(objects(&values)["items"][0]["data"], serde_json::json!({"use-gzip": "true"}));
}

#[test]
fn a_switch_without_a_value_is_on() {
    assert_eq!(values("controller: {extraArgs: {profiling: ''}}").problems(), []);
}

#[test]
fn a_switch_may_have_any_spelling() {
    let fields = |flags: &str| {
        let problems = values(&format!("controller: {{extraArgs: {{{flags}}}}}")).problems();
        problems.into_iter().map(|problem| problem.field).collect::<Vec<_>>()
    };
    assert_eq!(fields("profiling: 'T', disable-full-test: 0, skip_headers: false"), [] as [&str; 0]);
    assert_eq!(fields("profiling: 'F'"), ["controller.extraArgs.profiling"]);
    assert_eq!(fields("profiling: false"), ["controller.extraArgs.profiling"]);
    assert_eq!(fields("profiling: sometimes"), ["controller.extraArgs.profiling"]);
}

/// The chart refuses the same (`lab/tests/chart/refusals.rs`).
#[test]
fn a_hook_that_needs_a_shell_is_a_problem() {
    let shell = "exec: {command: [/bin/sh, -c, 'sleep 90; /wait-shutdown']}";
    let problems =
        values(&format!("controller: {{lifecycle: {{preStop: {{{shell}}}}}, livenessProbe: {{{shell}}}}}"))
            .problems();
    let [hook, probe] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!(hook.field, "controller.lifecycle.preStop.exec.command");
    assert_eq!(probe.field, "controller.livenessProbe.exec.command");
    assert!(problems.iter().all(|problem| problem.severity == Severity::Error));
    assert!(hook.message.contains("no program /bin/sh"), "{}", hook.message);
    assert!(hook.remedy.contains("controller.shutdownGracePeriod"), "{}", hook.remedy);
    for accepted in [
        "lifecycle: {preStop: {exec: {command: [/wait-shutdown]}}}",
        "lifecycle: {preStop: {sleep: {seconds: 90}}}",
        "startupProbe: {exec: {command: [/tools/ready]}}, extraVolumeMounts: [{name: t, mountPath: /tools/}]",
    ] {
        assert_eq!(values(&format!("controller: {{{accepted}}}")).problems(), [], "{accepted}");
    }
}

#[test]
fn values_of_a_parent_chart_are_those_of_its_dependency() {
    assert_eq!(
        flag(&values("ingress-nginx: {controller: {ingressClass: edge}}"), "ingress-class").as_deref(),
        Some("edge")
    );
    let error = ChartValues::new(Value::Bool(true), "v.yaml", "a/b").unwrap_err().to_string();
    assert!(error.contains("v.yaml"), "{error}");
    let error = ChartValues::new(Value::Null, "v.yaml", "edge").unwrap_err().to_string();
    assert!(error.contains("--release"), "{error}");
}
