//! Unsupported values: each is rejected by name, with the reason.

use crate::helm::{helm, object, objects, template_values};

/// Returns Helm's error for these values.
fn refusal(values: &str) -> String {
    match template_values(values) {
        Ok(_) => panic!("this was not refused:\n{values}"),
        Err(message) => message,
    }
}

/// Returns values with an image, which every installation needs, and further ones.
fn with_image(more: &str) -> String {
    format!("controller:\n  image: {{repository: registry.example/sluice}}\n{more}")
}

#[test]
fn a_typo_is_refused_with_its_name() {
    for (values, name) in [
        (with_image("  replicaCuont: 2"), "replicaCuont"),
        (with_image("  service: {internal: {enable: true}}"), "enable"),
        (with_image("  metrics: {serviceMonitor: {interval: 30s}}"), "interval"),
        (with_image("defaultbackend: {enabled: true}"), "defaultbackend"),
    ] {
        let message = refusal(&values);
        assert!(message.contains(&format!("'{name}' not allowed")), "{values}\n{message}");
    }
}

#[test]
fn a_wrong_type_is_refused_with_its_path() {
    for (more, path) in [
        ("  replicaCount: two", "/controller/replicaCount"),
        ("  replicaCount: -1", "/controller/replicaCount"),
        ("  kind: StatefulSet", "/controller/kind"),
        ("  hostNetwork: \"true\"", "/controller/hostNetwork"),
        ("  containerPort: {http: 80000}", "/controller/containerPort/http"),
        ("  minAvailable: half", "/controller/minAvailable"),
        ("  config: {use-gzip: [true]}", "/controller/config/use-gzip"),
        ("rbac: true", "/rbac"),
    ] {
        let message = refusal(&with_image(more));
        assert!(message.contains(&format!("at '{path}'")), "{more}\n{message}");
    }
}

/// Helm's schema reported such a name at the path of another value, and hid all other refusals.
#[test]
fn an_unknown_key_is_named_with_its_path_beside_the_refused_values() {
    let message = refusal(&with_image(
        "  extraArgs: {shutdown-grace-perood: 5}\n  config: {use-gzipp: x, Main-Snippet: x}\ndhParam: x",
    ));
    for part in [
        "controller.extraArgs.shutdown-grace-perood: unknown flag",
        "controller.config.use-gzipp: unknown key",
        "controller.config.Main-Snippet: unknown key",
        "dhParam: ",
    ] {
        assert!(message.contains(&format!("  - {part}")), "{part}\n{message}");
    }
}

/// ingress-nginx reads the names of most keys in any case, and so does the gateway.
#[test]
fn keys_of_another_case_are_accepted_by_the_chart() {
    let values = with_image("  config: {Keep-Alive: 7, USE-GZIP: true, global-auth-url: http://a/}");
    let rendered = template_values(&values).unwrap_or_else(|message| panic!("{message}"));
    let objects = objects(&rendered);
    let data = &object(&objects, "ConfigMap", "gateway-sluice-controller")["data"];
    assert_eq!((&data["Keep-Alive"], &data["USE-GZIP"]), (&"7".into(), &"true".into()), "{data}");
    for key in ["Global-Auth-URL", "Bind-Address", "PROXY-protocol-header-timeout"] {
        let message = refusal(&with_image(&format!("  config: {{{key}: x}}")));
        assert!(message.contains(&format!("controller.config.{key}: unknown key")), "{message}");
    }
    let message = refusal(&with_image("  config: {Keep-Alive: [7]}"));
    assert!(message.contains("at '/controller/config/Keep-Alive'"), "{message}");
}

/// All unsupported values are reported at once.
#[test]
fn unsupported_values_are_refused_together_with_the_reasons() {
    let message = refusal(&with_image(
        "  extraArgs: {ssl-passthrough-proxy-port: 443, stream-port: 1}\n  \
         config: {use-proxy-protocol-typo-free: x}\n",
    ));
    // The schema is checked first, before any other value.
    assert!(message.contains("use-proxy-protocol-typo-free"), "{message}");
    let message = refusal(&with_image(
        "  extraArgs: {ssl-passthrough-proxy-port: 443, stream-port: 1}\n  \
         config: {main-snippet: x}\ndhParam: x\n",
    ));
    for part in [
        "controller.extraArgs.ssl-passthrough-proxy-port: server names are read on --https-port itself",
        "controller.extraArgs.stream-port: there is no internal server behind the proxy",
        "controller.config.main-snippet: this key is not served yet",
        "dhParam: only ephemeral elliptic curves are offered",
    ] {
        assert!(message.contains(part), "{part}\n{message}");
    }
    let document = include_str!("../../../docs/values-of-ingress-nginx.md");
    let (_, sample) = document.split_once("    Sluice does not support these values:\n").unwrap();
    for line in sample.lines().take_while(|line| line.starts_with("      - ")) {
        assert!(message.lines().any(|printed| printed.trim() == line.trim()), "{line}\n{message}");
    }
}

/// Each unsupported value separately, so that none of the list is skipped.
#[test]
fn each_refused_value_is_refused_and_its_default_is_not() {
    let refused = crate::values::described().into_iter().filter(crate::values::Described::is_refused);
    let mut asked = serde_json::json!({});
    let mut defaults = asked.clone();
    let mut paths = Vec::new();
    for value in refused {
        let (mut at, mut default) = (&mut asked, &mut defaults);
        for key in value.path.split('.') {
            at = &mut at[key];
            default = &mut default[key];
        }
        *at = match &value.default {
            serde_json::Value::Bool(default) => (!default).into(),
            serde_json::Value::String(_) => "x".into(),
            serde_json::Value::Array(_) => serde_json::json!(["x"]),
            _ => serde_json::json!({"x": "y"}),
        };
        *default = value.default;
        paths.push(value.path);
    }
    defaults["controller"]["image"]["repository"] = "registry.example/sluice".into();
    template_values(&defaults.to_string()).expect("defaults are not refused");
    let message = refusal(&asked.to_string());
    for path in paths {
        assert!(message.contains(&format!("- {path}: ")), "{path}\n{message}");
    }
}

#[test]
fn contradictory_values_are_refused() {
    for (more, part) in [
        (
            "  autoscaling: {enabled: true}\n  keda: {enabled: true, triggers: [{type: cpu}]}",
            "controller.keda.enabled: it cannot be combined",
        ),
        ("  keda: {enabled: true}", "controller.keda.triggers:"),
        (
            "  kind: DaemonSet\n  autoscaling: {enabled: true}",
            "controller.kind: a DaemonSet cannot be scaled",
        ),
        ("rbac: {scope: true}", "rbac.scope:"),
        ("  scope: {enabled: true, namespaceSelector: a=b}", "controller.scope.namespaceSelector:"),
        ("  ingressClassResource: {aliases: [nginx]}", "controller.ingressClassResource.aliases:"),
        (
            "  hostNetwork: true\n  image: {repository: r/sluice, runAsUser: 1000}",
            "controller.image.runAsUser: on the host's network user 1000 cannot listen on a port below 1024",
        ),
        // Kubernetes gives added capabilities only to user 0.
        (
            "  hostNetwork: true\n  containerSecurityContext: {runAsUser: 101, capabilities: {add: [NET_BIND_SERVICE]}}",
            "controller.containerSecurityContext: on the host's network user 101 cannot listen",
        ),
        (
            "  hostNetwork: true\n  containerSecurityContext: {readOnlyRootFilesystem: true}",
            "controller.containerSecurityContext: on the host's network user 65532 cannot listen",
        ),
        (
            "  metrics: {enabled: true, service: {enabled: false}, serviceMonitor: {enabled: true}}",
            "controller.metrics.serviceMonitor.enabled: a ServiceMonitor needs the Service",
        ),
    ] {
        let values =
            if more.contains("repository") { format!("controller:\n{more}") } else { with_image(more) };
        let message = refusal(&values);
        assert!(message.contains(part), "{part}\n{message}");
    }
}

/// An image of ingress-nginx, or of another program, must not be run by mistake.
#[test]
fn the_image_has_to_be_named_and_has_to_be_one_of_sluice() {
    assert!(refusal("{}").contains("controller.image.repository: no image of Sluice is published yet"));
    let theirs =
        "controller: {image: {registry: registry.k8s.io, image: ingress-nginx/controller, tag: v1.15.1}}";
    assert!(refusal(theirs).contains("this is the image of ingress-nginx"));
}

/// The values file of an installation of ingress-nginx may pin the digest of its image. Beside the
/// repository of Sluice, it names an image that does not exist.
#[test]
fn the_digest_of_the_ingress_nginx_image_is_refused() {
    // Of v1.15.1 and of its variant with a chroot.
    for digest in [
        "594ceea76b01c592858f803f9ff4d2cb40542cae2060410b2c95f75907d659e1",
        "af31d00c9d82c612896b380a9003bd36843b7647b98e4588251c66325317bc72",
    ] {
        let image = format!("repository: r/sluice, tag: v1.15.1, digest: \"sha256:{digest}\"");
        let message = refusal(&format!("controller: {{image: {{{image}}}}}"));
        assert!(message.contains("controller.image.digest: this is the digest"), "{message}");
    }
    let own = format!("controller: {{image: {{repository: r/sluice, digest: \"sha256:{:064x}\"}}}}", 1);
    template_values(&own).unwrap_or_else(|message| panic!("{message}"));
}

/// Such a hook is common before ingress-nginx, whose image has a shell. Without one it failed, and
/// requests were lost at each rollout.
#[test]
fn a_hook_that_needs_a_shell_is_refused() {
    let shell = "exec: {command: [/bin/sh, -c, \"sleep 90; /wait-shutdown\"]}";
    for (handler, values, remedy) in [
        (
            "lifecycle.preStop",
            format!("lifecycle: {{preStop: {{{shell}}}}}"),
            "set controller.shutdownGracePeriod, or lifecycle.preStop.sleep",
        ),
        (
            "lifecycle.postStart",
            format!("lifecycle: {{postStart: {{{shell}}}}}"),
            "controller.extraVolumeMounts",
        ),
        ("livenessProbe", format!("livenessProbe: {{{shell}}}"), "httpGet"),
        ("readinessProbe", format!("readinessProbe: {{{shell}}}"), "httpGet"),
        ("startupProbe", format!("startupProbe: {{{shell}}}"), "httpGet"),
    ] {
        let message = refusal(&with_image(&format!("  {values}")));
        let line = format!("- controller.{handler}.exec.command: the image has no program /bin/sh");
        let line = message.lines().find(|printed| printed.contains(&line)).expect("it is named");
        assert!(line.contains(remedy), "{line}");
    }
    let pre_stop = |program: &str| format!("  lifecycle: {{preStop: {{exec: {{command: [{program}, x]}}}}}}");
    let mounts = "  extraVolumeMounts: [{name: tools, mountPath: /tools/}]";
    for values in [
        pre_stop("/wait-shutdown"),
        pre_stop("/sluice"),
        format!("{}\n{mounts}", pre_stop("/tools/sleep")),
        "  lifecycle: {preStop: {sleep: {seconds: 90}}}\n  startupProbe: null".to_owned(),
    ] {
        template_values(&with_image(&values)).unwrap_or_else(|message| panic!("{values}\n{message}"));
    }
    let beside = refusal(&with_image(&format!("{}\n{mounts}", pre_stop("/toolsx/sleep"))));
    assert!(beside.contains("no program /toolsx/sleep"), "{beside}");
}

/// Terraform and `--set-string` quote numbers.
#[test]
fn a_node_port_may_be_quoted() {
    let service = "type: NodePort, nodePorts: {http: \"30080\", https: 30443}";
    let rendered = template_values(&with_image(&format!("  service: {{{service}}}")));
    let objects = objects(&rendered.unwrap_or_else(|message| panic!("{message}")));
    let ports = &object(&objects, "Service", "gateway-sluice-controller")["spec"]["ports"];
    assert_eq!((&ports[0]["nodePort"], &ports[1]["nodePort"]), (&30080.into(), &30443.into()));
    let message = refusal(&with_image("  service: {nodePorts: {http: web}}"));
    assert!(message.contains("at '/controller/service/nodePorts/http'"), "{message}");
}

/// ingress-nginx creates no internal Service without annotations. Such a Service would be a second
/// load balancer, and public.
#[test]
fn an_internal_service_without_annotations_is_refused() {
    let message = refusal(&with_image("  service: {internal: {enabled: true}}"));
    assert!(message.contains("controller.service.internal.annotations: without annotations"), "{message}");
    for more in
        ["internal: {enabled: true, annotations: {a: b}}", "enabled: false, internal: {enabled: true}"]
    {
        let values = with_image(&format!("  service: {{{more}}}"));
        template_values(&values).unwrap_or_else(|message| panic!("{more}: {message}"));
    }
}

/// A selector by the name of ingress-nginx selects no Pod, so the Pods were not spread.
#[test]
fn a_literal_name_label_of_ingress_nginx_is_refused() {
    let spread = |labels: &str| {
        format!(
            "topologySpreadConstraints: [{{topologyKey: zone, labelSelector: {{matchLabels: {{{labels}}}}}}}]"
        )
    };
    let keep_apart = |more: &str| {
        format!(
            "affinity: {{podAntiAffinity: {{preferredDuringSchedulingIgnoredDuringExecution: [{{weight: 100, podAffinityTerm: \
             {{topologyKey: zone, labelSelector: {{matchExpressions: [{{key: app.kubernetes.io/name, operator: In, \
             values: [ingress-nginx]}}{more}]}}}}}}]}}}}"
        )
    };
    let of_release = |name: &str| {
        keep_apart(&format!(", {{key: app.kubernetes.io/instance, operator: In, values: [{name}]}}"))
    };
    let by_name = spread("app.kubernetes.io/name: ingress-nginx");
    for (field, value) in [
        ("topologySpreadConstraints", by_name.clone()),
        ("affinity", keep_apart("")),
        ("affinity", of_release("gateway")),
    ] {
        for (part, values) in [
            ("controller", with_image(&format!("  {value}"))),
            ("defaultBackend", with_image(&format!("defaultBackend: {{enabled: true, {value}}}"))),
        ] {
            let message = refusal(&values);
            assert!(message.contains(&format!("- {part}.{field}: it selects")), "{values}\n{message}");
        }
    }
    for value in [
        spread("app.kubernetes.io/name: '{{ include \"ingress-nginx.name\" . }}'"),
        spread("app.kubernetes.io/component: controller"),
        format!("{by_name}\nnameOverride: ingress-nginx"),
        of_release("old"),
    ] {
        let values = with_image(&format!("  {value}"));
        template_values(&values).unwrap_or_else(|message| panic!("{values}\n{message}"));
    }
}

#[test]
fn lint_finds_nothing() {
    for (name, path) in crate::helm::cases() {
        let path = path.to_str().expect("a path");
        helm(&["lint", "--strict"], &["--values", path])
            .unwrap_or_else(|message| panic!("{name}: {message}"));
    }
}
