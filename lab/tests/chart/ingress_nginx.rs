//! Values files of the ingress-nginx chart: all of its values, and the templates in them.

use std::path::Path;

use serde_json::{Value, json};

use crate::helm::{chart, helm, object, objects, template, template_values};
use crate::rendered::{arguments, case, container, parses_the_arguments, workload};

/// Renders the chart with an image and further values.
fn rendered_with(more: &str) -> Vec<Value> {
    let values = format!("controller:\n  image: {{repository: r/sluice}}\n{more}");
    objects(&template_values(&values).unwrap_or_else(|message| panic!("{values}\n{message}")))
}

/// Returns the Pod template of the gateway.
fn pod(all: &[Value]) -> &Value {
    &workload(all)["spec"]["template"]["spec"]
}

#[test]
fn a_values_file_with_all_defaults_of_the_ingress_nginx_chart_renders() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/ingress-nginx-values.yaml");
    let file = file.to_str().expect("a path");
    let image = "controller.image.repository=r/sluice,controller.image.tag=v1,controller.image.digest=";
    for more in ["defaultBackend.enabled=true", "controller.kind=DaemonSet", "controller.hostNetwork=true"] {
        let rendered = template(&["--values", file, "--set", image, "--set", more]);
        let all = objects(&rendered.unwrap_or_else(|message| panic!("{more}: {message}")));
        assert_eq!(container(&all)["image"], "r/sluice:v1", "{more}");
    }
}

#[test]
fn templates_in_values_may_include_the_helpers_of_the_ingress_nginx_chart() {
    let selector = r#"
        matchLabels:
          app.kubernetes.io/name: '{{ include "ingress-nginx.name" . }}'
          app.kubernetes.io/instance: '{{ .Release.Name }}'
    "#;
    let affinity = format!(
        "podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{{topologyKey: zone, labelSelector: {{{}}}}}]}}",
        r#"matchExpressions: [{key: app.kubernetes.io/name, operator: In, values: ['{{ include "ingress-nginx.name" . }}']}]"#
    );
    let all = rendered_with(&format!(
        "  affinity: {{{affinity}}}\n  topologySpreadConstraints:\n    - topologyKey: zone\n      labelSelector: {selector}\n  \
         hostAliases: [{{ip: 192.0.2.1, hostnames: ['{{{{ .Release.Name }}}}.example']}}]\n  \
         extraInitContainers: [{{name: wait, image: i, command: ['{{{{ include \"ingress-nginx.controller.fullname\" . }}}}']}}]\n  \
         extraContainers: [{{name: side, image: i, args: ['{{{{ .literal }}}}']}}]\n\
         defaultBackend:\n  enabled: true\n  affinity: {{{affinity}}}\n  \
         extraVolumes: [{{name: pages, configMap: {{name: '{{{{ include \"ingress-nginx.fullname\" . }}}}-pages'}}}}]\n"
    ));
    let expected = json!([{"key": "app.kubernetes.io/name", "operator": "In", "values": ["sluice"]}]);
    let rule = |pod: &Value| {
        let rules = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
        rules[0]["labelSelector"]["matchExpressions"].clone()
    };
    let backend = &object(&all, "Deployment", "gateway-sluice-defaultbackend")["spec"]["template"]["spec"];
    assert_eq!((rule(pod(&all)), rule(backend)), (expected.clone(), expected));
    let labels = &workload(&all)["spec"]["template"]["metadata"]["labels"];
    let spread = &pod(&all)["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
    for (key, value) in spread.as_object().expect("labels") {
        assert_eq!(labels[key], *value, "the constraint is about Pods of the gateway");
    }
    assert_eq!(pod(&all)["hostAliases"][0]["hostnames"][0], "gateway.example");
    assert_eq!(pod(&all)["initContainers"][0]["command"][0], "gateway-sluice-controller");
    assert_eq!(pod(&all)["containers"][1]["args"][0], "{{ .literal }}", "no template in that chart either");
    assert_eq!(backend["volumes"][0]["configMap"]["name"], "gateway-sluice-pages");
}

/// Each helper returns the name of the chart's own object.
#[test]
fn helpers_of_the_ingress_nginx_chart_name_the_objects_of_this_one() {
    let helpers = [
        ("name", "sluice"),
        ("chart", "sluice-0.1.0"),
        ("fullname", "gateway-sluice"),
        ("namespace", "edge"),
        ("controller.fullname", "gateway-sluice-controller"),
        ("controller.electionID", "gateway-sluice-leader"),
        ("controller.publishServicePath", "$(POD_NAMESPACE)/gateway-sluice-controller"),
        ("serviceAccountName", "gateway-sluice"),
        ("defaultBackend.fullname", "gateway-sluice-defaultbackend"),
        ("defaultBackend.serviceAccountName", "gateway-sluice-backend"),
        ("admissionWebhooks.fullname", "gateway-sluice-admission"),
        ("admissionWebhooks.patch.serviceAccountName", "gateway-sluice-admission"),
        ("admissionWebhooks.createSecretJob.fullname", "gateway-sluice-admission-create"),
        ("admissionWebhooks.patchWebhookJob.fullname", "gateway-sluice-admission-patch"),
    ];
    // Values of settings are templates, too, so any key can be used.
    for (helper, expected) in helpers {
        let config =
            format!("  config: {{worker-processes: '{{{{ include \"ingress-nginx.{helper}\" . }}}}'}}\n");
        let all = rendered_with(&config);
        let settings = &object(&all, "ConfigMap", "gateway-sluice-controller")["data"];
        assert_eq!(settings["worker-processes"], expected, "{helper}");
    }
    for helper in ["labels", "selectorLabels"] {
        let init = format!(
            "  extraInitContainers: [{{name: '{{{{ (include \"ingress-nginx.{helper}\" . | fromYaml) | toJson | b64enc }}}}'}}]\n"
        );
        let all = rendered_with(&format!("{init}commonLabels: {{team: edge}}\n"));
        let text = pod(&all)["initContainers"][0]["name"].as_str().expect("a name").to_owned();
        let given: Value = serde_json::from_slice(&decode(&text)).expect("JSON");
        let labels = &workload(&all)["metadata"]["labels"];
        let given = given.as_object().expect("labels");
        assert!(given.len() >= 2 && given.iter().all(|(key, value)| labels[key] == *value), "{given:?}");
    }
}

fn decode(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
}

#[test]
fn fields_of_headers_become_configmaps_that_the_settings_name() {
    let values = "  proxySetHeaders: {X-Request-Start: t=1, X-Number: 12000000}\n  addHeaders: {X-Frame-Options: DENY}\n";
    for (more, namespace) in [("", "edge"), ("  scope: {enabled: true, namespace: shop}\n", "shop")] {
        let all = rendered_with(&format!("{values}{more}"));
        let settings = &object(&all, "ConfigMap", "gateway-sluice-controller")["data"];
        for (key, name, fields) in [
            (
                "proxy-set-headers",
                "gateway-sluice-custom-proxy-headers",
                json!({"X-Request-Start": "t=1", "X-Number": "12000000"}),
            ),
            ("add-headers", "gateway-sluice-custom-add-headers", json!({"X-Frame-Options": "DENY"})),
        ] {
            let map = object(&all, "ConfigMap", name);
            assert_eq!(map["data"], fields);
            // The namespace that the gateway reads.
            assert_eq!(map["metadata"]["namespace"], namespace);
            assert_eq!(settings[key], format!("{namespace}/{name}"));
        }
    }
    let all = rendered_with(&format!("{values}  config: {{add-headers: other/map}}\n"));
    let settings = &object(&all, "ConfigMap", "gateway-sluice-controller")["data"];
    assert_eq!(settings["add-headers"], "other/map", "what is named explicitly counts");
}

#[test]
fn the_jobs_of_the_webhook_have_their_deadlines_and_volumes() {
    let job = "{activeDeadlineSeconds: 90, ttlSecondsAfterFinished: 60, volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /v}]}";
    let all = rendered_with(&format!(
        "  admissionWebhooks: {{annotations: {{a: b}}, createSecretJob: {job}, patchWebhookJob: {job}}}\n"
    ));
    for name in ["create", "patch"] {
        let job = object(&all, "Job", &format!("gateway-sluice-admission-{name}"));
        assert_eq!(job["spec"]["activeDeadlineSeconds"], 90);
        // A value of the maintained fork (chart 4.15.7).
        assert_eq!(job["spec"]["ttlSecondsAfterFinished"], 60);
        assert_eq!(job["metadata"]["annotations"]["a"], "b");
        let pod = &job["spec"]["template"]["spec"];
        assert_eq!(pod["volumes"][0]["name"], "v");
        assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/v");
    }
    let all = rendered_with("");
    let job = object(&all, "Job", "gateway-sluice-admission-create");
    assert!(job["spec"]["activeDeadlineSeconds"].is_null(), "0 means no deadline: {job}");
    assert!(job["spec"]["ttlSecondsAfterFinished"].is_null(), "Helm deletes it: {job}");
}

#[test]
fn an_image_of_the_webhook_jobs_is_ignored_with_a_note() {
    let image = "controller.admissionWebhooks.patch.image.registry=mirror.example";
    let arguments = ["--dry-run=client", "--set", "controller.image.repository=r/sluice", "--set", image];
    // Renders the notes only, without a cluster.
    let notes = |arguments: &[&str]| helm(&["install", "gateway", "--namespace", "edge"], arguments);
    let with = notes(&arguments).unwrap_or_else(|message| panic!("{message}"));
    assert!(
        with.contains("NOTE: controller.admissionWebhooks.patch.image is ignored: the Jobs run"),
        "{with}"
    );
    assert!(!with.contains("mirror.example"));
    let without = notes(&arguments[..3]).unwrap_or_else(|message| panic!("{message}"));
    assert!(!without.contains("NOTE:"), "{without}");
}

/// TLS ends at the load balancer: the ports for HTTP and HTTPS are one, and a third one redirects.
/// The gateway exited, because both flags had the same port.
#[test]
fn the_values_of_the_aws_manifest_render_and_its_arguments_are_accepted() {
    let all = case("tls-at-load-balancer");
    let ports = |all: &[Value]| {
        let ports = container(all)["ports"].as_array().expect("ports").clone();
        ports
            .into_iter()
            .filter(|port| port["name"] != "metrics" && port["name"] != "webhook")
            .collect::<Vec<_>>()
    };
    let expected =
        [json!({"name": "http", "containerPort": 80}), json!({"name": "tohttps", "containerPort": 2443})];
    assert_eq!(ports(&all), expected);
    let targets = |all: &[Value]| {
        let ports = object(all, "Service", "gateway-sluice-controller")["spec"]["ports"].clone();
        [0, 1].map(|at| ports[at]["targetPort"].clone())
    };
    assert_eq!(targets(&all), [json!("tohttps"), json!("http")]);
    let policy = &object(&all, "NetworkPolicy", "gateway-sluice-controller")["spec"]["ingress"][0]["ports"];
    for port in [80, 2443] {
        assert!(
            policy.as_array().expect("ports").contains(&json!({"protocol": "TCP", "port": port})),
            "{policy}"
        );
    }
    assert!(arguments(&all).contains(&"--http-port=80"));
    parses_the_arguments("AWS", &all);

    // A Service that names the second port still reaches it, and ports of nodes have the same
    // names.
    let both = "  containerPort: {http: 80, https: 80, tohttps: 2443}\n";
    assert_eq!(targets(&rendered_with(both)), [json!("http"), json!(80)]);
    let of_nodes = rendered_with(&format!("{both}  hostPort: {{enabled: true, ports: {{tohttps: 2080}}}}\n"));
    let of_nodes: Vec<Value> = ports(&of_nodes).iter().map(|port| port["hostPort"].clone()).collect();
    assert_eq!(of_nodes, [80, 443, 2080]);
}

#[test]
fn the_default_backend_comes_from_the_registry_of_all_images() {
    let image = |more: &str| {
        let all = rendered_with(&format!("defaultBackend: {{enabled: true{more}}}\n"));
        let backend = object(&all, "Deployment", "gateway-sluice-defaultbackend").clone();
        backend["spec"]["template"]["spec"]["containers"][0]["image"].as_str().expect("an image").to_owned()
    };
    assert_eq!(image(""), "registry.k8s.io/defaultbackend-amd64:1.5");
    assert_eq!(image("}\nglobal: {image: {registry: r.example}"), "r.example/defaultbackend-amd64:1.5");
    let own = image(", image: {registry: own.example}}\nglobal: {image: {registry: r.example}");
    assert_eq!(own, "own.example/defaultbackend-amd64:1.5");
}

#[test]
fn the_default_backend_has_account_and_grace_period_of_ingress_nginx() {
    let all = rendered_with("defaultBackend: {enabled: true, serviceAccount: {create: false}}\n");
    let backend = &object(&all, "Deployment", "gateway-sluice-defaultbackend")["spec"]["template"]["spec"];
    assert_eq!(backend["serviceAccountName"], "default-backend");
    assert_eq!(backend["terminationGracePeriodSeconds"], 60);
}

#[test]
fn a_fallback_of_keda_may_leave_out_its_replicas() {
    let fallback = |given: &str| {
        let keda = format!("maxReplicas: 7, triggers: [{{type: cpu}}], fallback: {given}");
        let all = rendered_with(&format!("  keda: {{enabled: true, {keda}}}\n"));
        object(&all, "ScaledObject", "gateway-sluice-controller")["spec"]["fallback"].clone()
    };
    assert_eq!(fallback("{failureThreshold: 5}"), json!({"failureThreshold": 5, "replicas": 7}));
    assert_eq!(fallback("{replicas: 2}"), json!({"failureThreshold": 3, "replicas": 2}));
    assert_eq!(fallback("{}"), Value::Null);
}

#[test]
fn security_contexts_may_name_kernel_settings_and_no_seccomp_profile() {
    let all = rendered_with(
        "  podSecurityContext: {fsGroup: 82, sysctls: [{name: net.core.somaxconn, value: \"8192\"}]}\n  \
         sysctls: {net.ipv4.tcp_tw_reuse: 1}\n",
    );
    let context = &pod(&all)["securityContext"];
    let sysctls = json!([
        {"name": "net.core.somaxconn", "value": "8192"},
        {"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"},
        {"name": "net.ipv4.tcp_tw_reuse", "value": "1"},
    ]);
    assert_eq!((&context["fsGroup"], &context["sysctls"]), (&json!(82), &sysctls));
    let values = "controller: {image: {repository: r/sluice, seccompProfile: null}}\n\
                  defaultBackend: {enabled: true, image: {seccompProfile: null}}";
    let all = objects(&template_values(values).expect("it renders"));
    assert!(container(&all)["securityContext"].get("seccompProfile").is_none());
}

/// A gateway whose probes used the wrong port or path never became ready, or was restarted
/// endlessly.
#[test]
fn probes_follow_the_port_and_the_path_of_health() {
    for (values, port, path) in [
        ("", 10254, "/healthz"),
        ("  metrics: {port: 10300}\n  healthCheckPath: /ready\n", 10300, "/ready"),
        ("  extraArgs: {healthz-port: 10300, health-check-path: /ready}\n", 10300, "/ready"),
    ] {
        let startup = "  startupProbe: {httpGet: {path: /healthz, port: 10254}}\n";
        let all = rendered_with(&format!("{values}{startup}"));
        let container = container(&all);
        let asks = |probe: &str| container[probe]["httpGet"].clone();
        assert_eq!(asks("livenessProbe"), json!({"path": "/livez", "port": port, "scheme": "HTTP"}));
        assert_eq!(asks("readinessProbe"), json!({"path": path, "port": port, "scheme": "HTTP"}));
        assert_eq!(asks("startupProbe"), json!({"path": path, "port": port}));
        assert!(arguments(&all).contains(&format!("--healthz-port={port}").as_str()));
    }
    let own = "  readinessProbe: {httpGet: {path: /own, port: 1}}\n  metrics: {port: 10300}\n";
    let all = rendered_with(own);
    assert_eq!(container(&all)["readinessProbe"]["httpGet"]["port"], 1, "another probe stays as it is");
}

/// The name and the number are free for ports of other containers, as in ingress-nginx.
#[test]
fn no_port_is_named_metrics_without_metrics() {
    let metrics = |values: &str| -> Vec<Value> {
        let all = rendered_with(values);
        let ports = container(&all)["ports"].as_array().expect("ports").clone();
        ports.into_iter().filter(|port| port["name"] == "metrics").collect()
    };
    let port = |number: u16| [json!({"name": "metrics", "containerPort": number})];
    assert_eq!(metrics(""), [] as [Value; 0]);
    for number in [10254, 9000] {
        let own = format!("  containerPort: {{http: 80, https: 443, metrics: {number}}}\n");
        assert_eq!(metrics(&own), port(number));
    }
    assert_eq!(metrics("  metrics: {enabled: true, port: 10300}\n"), port(10300));
    assert_eq!(metrics("  metrics: {enabled: true}\n  extraArgs: {healthz-port: 10300}\n"), port(10300));
}

/// Server-side apply refuses a name that comes twice.
#[test]
fn names_of_the_operators_own_volumes_and_variables_do_not_collide() {
    let names = ["bodies", "snapshot", "cache", "geoip", "waf-bodies", "webhook-certificate"];
    let list = |each: fn(&str) -> String| names.map(each).join(", ");
    let all = rendered_with(&format!(
        "  enableTopologyAwareRouting: true\n  maxmindLicenseKey: key\n  cacheFiles: {{enabled: true}}\n  \
         extraEnvs: [{{name: NODE_NAME, value: a}}, {{name: POD_NAME, value: b}}, {{name: TZ, value: UTC}}]\n  \
         extraVolumes: [{}]\n  extraVolumeMounts: [{}]\nwaf: {{enabled: true, image: {{repository: r/waf}}}}\n",
        list(|name| format!("{{name: {name}, emptyDir: {{}}}}")),
        list(|name| format!("{{name: {name}, mountPath: /own/{name}}}")),
    ));
    let container = container(&all);
    for (list, key) in [
        (&pod(&all)["volumes"], "name"),
        (&container["env"], "name"),
        (&container["volumeMounts"], "mountPath"),
        (&container["ports"], "name"),
    ] {
        let keys: Vec<&str> =
            list.as_array().expect("a list").iter().map(|one| one[key].as_str().expect(key)).collect();
        let unique: std::collections::BTreeSet<&str> = keys.iter().copied().collect();
        assert_eq!(unique.len(), keys.len(), "{keys:?}");
    }
    let env = |name: &str| {
        let mut all = container["env"].as_array().expect("variables").iter();
        all.find(|one| one["name"] == name).expect(name)["value"].clone()
    };
    assert_eq!(["NODE_NAME", "POD_NAME", "POD_NAMESPACE"].map(env), [json!("a"), json!("b"), Value::Null]);
}

/// Routes with the annotation `nginx` were lost where the IngressClass had another name.
#[test]
fn the_annotation_class_does_not_follow_the_name_of_the_ingressclass() {
    let class = "controller:\n  image: {repository: r/s}\n  ingressClassResource: {name: internal, \
                 controllerValue: k8s.io/internal}\n";
    for (more, expected) in [
        ("", "nginx"),
        ("  ingressClass: web\n", "web"),
        ("compatibility: {ingressNginx: false}\n", "internal"),
        // The class is recognised by its name only, which is this flag.
        ("  scope: {enabled: true}\nrbac: {scope: true}\n", "internal"),
    ] {
        let values = format!("{class}{more}");
        let all = objects(&template_values(&values).unwrap_or_else(|message| panic!("{values}\n{message}")));
        assert!(arguments(&all).contains(&format!("--ingress-class={expected}").as_str()), "{values}");
        let webhook = object(&all, "ValidatingWebhookConfiguration", "edge-gateway-sluice-admission");
        let condition = webhook["webhooks"][0]["matchConditions"][0]["expression"].to_string();
        let annotation = format!(r#"kubernetes.io/ingress.class\"] in [\"{expected}\"]"#);
        assert!(condition.contains(&annotation), "{annotation}\n{condition}");
        assert!(condition.contains(r#"ingressClassName in [\"internal\"]"#), "{condition}");
    }
}

/// The program interpreted the flag after an empty value as the value of a flag that is not a
/// switch.
#[test]
fn a_flag_with_an_empty_value_does_not_take_the_next_one() {
    let all = rendered_with(
        "  extraArgs: {watch-namespace: \"\", publish-service: \"\", watch-namespace-selector: \"\", disable-catch-all: \"\"}\n",
    );
    let arguments = arguments(&all);
    for argument in
        ["--watch-namespace=", "--publish-service=", "--watch-namespace-selector=", "--disable-catch-all"]
    {
        assert!(arguments.contains(&argument), "{argument}: {arguments:?}");
    }
    let rights = crate::rights::rights_of(&all, "controller", "ClusterRole", None);
    assert!(rights.contains("list /secrets"), "all namespaces are served: {rights:?}");
    assert!(rights.contains("get /nodes"), "the addresses are those of nodes: {rights:?}");
    assert!(!rights.contains("list /namespaces"), "{rights:?}");
}

/// Memory does not follow the load: an idle gateway uses half of a small request.
#[test]
fn an_idle_gateway_is_not_scaled_for_its_memory() {
    let metrics = |more: &str| -> Vec<Value> {
        let all = rendered_with(&format!("  autoscaling: {{enabled: true{more}}}\n"));
        let scaler = object(&all, "HorizontalPodAutoscaler", "gateway-sluice-controller");
        let metrics = scaler["spec"]["metrics"].as_array().expect("metrics").iter();
        metrics.map(|metric| metric["resource"]["name"].clone()).collect()
    };
    assert_eq!(metrics(""), ["cpu"]);
    assert_eq!(metrics(", targetMemoryUtilizationPercentage: 80"), ["cpu", "memory"]);
}

#[test]
fn every_helper_that_values_of_ingress_nginx_may_include_is_defined_once() {
    let text = std::fs::read_to_string(chart().join("templates/_ingress-nginx.tpl")).expect("the helpers");
    let names: Vec<&str> =
        text.split("define \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let unique: std::collections::BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(names.len(), unique.len());
    assert!(names.iter().all(|name| name.starts_with("ingress-nginx.")), "{names:?}");
}
