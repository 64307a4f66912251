//! The rendered objects, for each file of `charts/sluice/ci` and for each value.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use sluice_testing::program;

use crate::helm::{cases, names, object, objects, template, template_values};
use crate::rights::rights_of;
use crate::values::{Described, alternatives, described};

/// Returns the objects of one of the files.
pub(crate) fn case(name: &str) -> Vec<Value> {
    let (_, path) = cases().into_iter().find(|(case, _)| case == &format!("{name}-values")).expect(name);
    rendered(path.to_str().expect("a path"))
}

pub(crate) fn rendered(path: &str) -> Vec<Value> {
    objects(&template(&["--values", path]).unwrap_or_else(|message| panic!("{path}: {message}")))
}

/// Returns the Deployment or DaemonSet of the gateway.
pub(crate) fn workload(all: &[Value]) -> &Value {
    all.iter()
        .find(|object| {
            ["Deployment", "DaemonSet"].contains(&object["kind"].as_str().unwrap_or_default())
                && object["metadata"]["labels"]["app.kubernetes.io/component"] == "controller"
        })
        .unwrap_or_else(|| panic!("no gateway among {}", names(all)))
}

pub(crate) fn container(all: &[Value]) -> &Value {
    &workload(all)["spec"]["template"]["spec"]["containers"][0]
}

pub(crate) fn arguments(all: &[Value]) -> Vec<&str> {
    container(all)["args"].as_array().expect("arguments").iter().filter_map(Value::as_str).collect()
}

fn contains(outer: &Value, inner: &Value) -> bool {
    inner.as_object().expect("a map").iter().all(|(key, value)| outer[key] == *value)
}

#[test]
fn rendered_objects_are_consistent() {
    for (name, path) in cases() {
        let all = rendered(path.to_str().expect("a path"));
        let pods: Vec<&Value> =
            all.iter().map(|object| &object["spec"]["template"]).filter(|t| t.is_object()).collect();
        for object in &all {
            let what = format!("{name}: {} {}", object["kind"], object["metadata"]["name"]);
            assert!(object["metadata"]["labels"]["app.kubernetes.io/instance"] == "gateway", "{what}");
            let whole =
                ["ClusterRole", "ClusterRoleBinding", "IngressClass", "ValidatingWebhookConfiguration"];
            let is_whole = whole.contains(&object["kind"].as_str().unwrap_or_default());
            assert_eq!(object["metadata"]["namespace"].is_null(), is_whole, "{what}");
            let selector = match object["kind"].as_str() {
                Some("Service") => &object["spec"]["selector"],
                Some("Deployment" | "DaemonSet" | "PodDisruptionBudget") => {
                    &object["spec"]["selector"]["matchLabels"]
                }
                Some("NetworkPolicy") => &object["spec"]["podSelector"]["matchLabels"],
                _ => continue,
            };
            let selected = pods.iter().filter(|pod| contains(&pod["metadata"]["labels"], selector)).count();
            // Both Jobs of the webhook share one policy.
            let jobs = selector["app.kubernetes.io/component"] == "admission-webhook";
            assert_eq!(selected, if jobs { 2 } else { 1 }, "{what} selects {selected} kinds of Pods");
        }
        for service in all.iter().filter(|object| object["kind"] == "Service") {
            let pod =
                pods.iter().find(|pod| contains(&pod["metadata"]["labels"], &service["spec"]["selector"]));
            let ports = pod.expect("a Pod")["spec"]["containers"][0]["ports"].as_array().expect("ports");
            for port in service["spec"]["ports"].as_array().expect("ports") {
                assert!(ports.iter().any(|own| own["name"] == port["targetPort"]), "{name}: {port}");
            }
        }
        for pod in pods {
            let volumes = pod["spec"]["volumes"].as_array().cloned().unwrap_or_default();
            for mount in pod["spec"]["containers"][0]["volumeMounts"].as_array().into_iter().flatten() {
                assert!(volumes.iter().any(|volume| volume["name"] == mount["name"]), "{name}: {mount}");
            }
        }
    }
}

#[test]
fn no_pod_may_do_more_than_it_needs() {
    for (name, path) in cases() {
        for object in rendered(path.to_str().expect("a path")) {
            let pod = &object["spec"]["template"]["spec"];
            if pod.is_null() {
                continue;
            }
            let context = &pod["containers"][0]["securityContext"];
            let on_host = pod["hostNetwork"] == true;
            assert_eq!(context["readOnlyRootFilesystem"], true, "{name}");
            assert_eq!(context["allowPrivilegeEscalation"], false, "{name}");
            assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault", "{name}");
            assert_eq!(context["capabilities"]["drop"], json!(["ALL"]), "{name}");
            // Only with the host's network a port below 1024 needs a capability.
            assert_eq!(context["runAsNonRoot"], !on_host, "{name}");
            let added = &context["capabilities"]["add"];
            assert_eq!(*added, if on_host { json!(["NET_BIND_SERVICE"]) } else { Value::Null }, "{name}");
            assert_eq!(context["runAsUser"] == 0, on_host, "{name}");
        }
        let all = rendered(path.to_str().expect("a path"));
        let gateway = container(&all);
        assert_eq!(gateway["livenessProbe"]["httpGet"]["path"], "/livez", "{name}");
        assert_eq!(gateway["readinessProbe"]["httpGet"]["path"], "/healthz", "{name}");
        let sysctls = &workload(&all)["spec"]["template"]["spec"]["securityContext"]["sysctls"];
        let on_host = workload(&all)["spec"]["template"]["spec"]["hostNetwork"] == true;
        assert_eq!(sysctls.is_null(), on_host, "{name}: {sysctls}");
    }
}

/// Checks that the program parses the arguments: with `--version` it reports invalid ones and
/// starts nothing.
pub(crate) fn parses_the_arguments(name: &str, all: &[Value]) {
    let sluice = program::find("sluice").expect("sluice");
    let arguments = arguments(all).into_iter().map(|argument| argument.replace("$(POD_NAMESPACE)", "edge"));
    let output = Command::new(&sluice).args(arguments).arg("--version").output().expect("sluice runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_gateway_takes_the_arguments() {
    for (name, path) in cases() {
        parses_the_arguments(&name, &rendered(path.to_str().expect("a path")));
    }
}

#[test]
fn objects_of_ingress_nginx_are_served_unless_it_is_switched_off() {
    let all = case("default");
    let class = object(&all, "IngressClass", "nginx");
    assert_eq!(class["spec"]["controller"], "k8s.io/ingress-nginx");
    assert!(arguments(&all).contains(&"--controller-class=k8s.io/ingress-nginx"));
    assert!(arguments(&all).contains(&"--ingress-class=nginx"));
    let all = case("quick-start");
    assert_eq!(object(&all, "IngressClass", "sluice")["spec"]["controller"], "sluice.dev/ingress-controller");
    assert!(arguments(&all).contains(&"--ingress-class=sluice"));
}

#[test]
fn a_values_file_of_ingress_nginx_keeps_its_meaning() {
    let all = case("ingress-nginx");
    let gateway = object(&all, "Deployment", "ingress-nginx-controller");
    assert_eq!(gateway["spec"]["replicas"], 3);
    let pod = &gateway["spec"]["template"];
    assert_eq!(pod["metadata"]["labels"]["tier"], "edge");
    assert_eq!(pod["spec"]["terminationGracePeriodSeconds"], 300);
    assert_eq!(pod["spec"]["imagePullSecrets"], json!([{"name": "registry"}]));
    let container = container(&all);
    assert_eq!(container["image"], "registry.example/edge/sluice:v1");
    assert_eq!(container["securityContext"]["runAsUser"], 101);
    assert_eq!(container["lifecycle"]["preStop"]["exec"]["command"], json!(["/wait-shutdown"]));
    for argument in [
        "--configmap=$(POD_NAMESPACE)/ingress-nginx-controller",
        "--default-ssl-certificate=ingress-nginx/wildcard",
        "--watch-ingress-without-class=true",
        "--enable-metrics=true",
        "--v=2",
    ] {
        assert!(arguments(&all).contains(&argument), "{argument} is not among {:?}", arguments(&all));
    }
    let settings = &object(&all, "ConfigMap", "ingress-nginx-controller")["data"];
    assert_eq!(settings["proxy-read-timeout"], "120");
    assert_eq!(settings["use-forwarded-headers"], "true");
    let service = object(&all, "Service", "ingress-nginx-controller");
    assert_eq!(service["spec"]["externalTrafficPolicy"], "Local");
    assert_eq!(object(&all, "PodDisruptionBudget", "ingress-nginx-controller")["spec"]["minAvailable"], 2);
    let class = object(&all, "IngressClass", "nginx");
    assert_eq!(class["metadata"]["annotations"]["ingressclass.kubernetes.io/is-default-class"], "true");
    assert_eq!(object(&all, "IngressClass", "nginx-old")["metadata"]["annotations"], Value::Null);
    assert_eq!(
        object(&all, "Service", "ingress-nginx-controller-metrics")["spec"]["ports"][0]["port"],
        10254
    );
}

/// YAML parses a long number as a float, which templates would print with an exponent.
#[test]
fn numbers_of_settings_and_flags_are_written_as_they_are() {
    let text = template_values(
        "controller: {image: {repository: r/sluice}, config: {keep-alive-requests: 12000000}, extraArgs: {v: 3}}",
    );
    let all = objects(&text.expect("it renders"));
    assert_eq!(
        object(&all, "ConfigMap", "gateway-sluice-controller")["data"]["keep-alive-requests"],
        "12000000"
    );
    assert!(arguments(&all).contains(&"--v=3"));
}

/// A flag of the user replaces that of the chart.
#[test]
fn a_flag_is_given_once() {
    let values = "controller: {image: {repository: r/sluice}, extraArgs: {shutdown-grace-period: 3, watch-namespace: a}}";
    let all = objects(&template_values(values).expect("it renders"));
    let given: Vec<&str> =
        arguments(&all).into_iter().filter(|a| a.starts_with("--shutdown-grace-period")).collect();
    assert_eq!(given, ["--shutdown-grace-period=3"]);
    // Rights follow the flags, however these are given.
    assert!(all.iter().any(|object| object["kind"] == "Role" && object["metadata"]["namespace"] == "a"));
}

#[test]
fn stored_responses_get_a_volume_of_their_own() {
    let with = |settings: Value| {
        let mut values = json!({"controller": {"image": {"repository": "r/sluice"}}});
        values["controller"]["cacheFiles"] = settings;
        objects(&template_values(&values.to_string()).expect("objects"))
    };
    let volume = |all: &[Value]| {
        let volumes = workload(all)["spec"]["template"]["spec"]["volumes"].as_array().expect("volumes");
        volumes.iter().find(|volume| volume["name"] == "sluice-cache").cloned()
    };
    let none = with(json!({}));
    assert!(volume(&none).is_none() && !arguments(&none).iter().any(|flag| flag.contains("cache-path")));
    let own = with(json!({"enabled": true, "mountPath": "/cache", "sizeLimit": "3Gi"}));
    assert!(arguments(&own).contains(&"--cache-path=/cache"), "{:?}", arguments(&own));
    assert_eq!(volume(&own).expect("a volume")["emptyDir"], json!({"sizeLimit": "3Gi"}));
    let mounts = container(&own)["volumeMounts"].as_array().expect("mounts");
    assert!(mounts.contains(&json!({"name": "sluice-cache", "mountPath": "/cache"})), "{mounts:?}");
    let claim = json!({"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}});
    let other = volume(&with(json!({"enabled": true, "volume": claim}))).expect("a volume");
    assert_eq!(other["ephemeral"], claim["ephemeral"]);
    assert!(other["emptyDir"].is_null());
}

#[test]
fn an_update_never_has_fewer_pods_than_before_and_drains_within_its_grace() {
    let all = case("default");
    let spec = &workload(&all)["spec"];
    assert_eq!(spec["strategy"]["rollingUpdate"], json!({"maxUnavailable": 0, "maxSurge": 1}));
    assert!(arguments(&all).contains(&"--shutdown-grace-period=10"));
    // 10 s in which load balancers react and 240 s for running requests.
    assert!(spec["template"]["spec"]["terminationGracePeriodSeconds"].as_u64().expect("seconds") > 250);
}

#[test]
fn monitoring_objects_point_at_the_metrics() {
    let all = case("metrics");
    let monitor = object(&all, "ServiceMonitor", "gateway-sluice-controller");
    let service = object(&all, "Service", "gateway-sluice-controller-metrics");
    assert!(contains(&service["metadata"]["labels"], &monitor["spec"]["selector"]["matchLabels"]));
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], service["spec"]["ports"][0]["name"]);
    assert_eq!(monitor["spec"]["namespaceSelector"]["matchNames"], json!(["edge"]));
    // The main Service must not be scraped as well.
    let main = object(&all, "Service", "gateway-sluice-controller");
    assert!(!contains(&main["metadata"]["labels"], &monitor["spec"]["selector"]["matchLabels"]));
    let groups = object(&all, "PrometheusRule", "gateway-sluice-controller")["spec"]["groups"].as_array();
    assert_eq!(groups.expect("groups").len(), 2);
    let dashboard = object(&all, "ConfigMap", "gateway-sluice-controller-dashboard-requests");
    let text = dashboard["data"]["requests.json"].as_str().expect("a dashboard");
    serde_json::from_str::<Value>(text).expect("JSON");
}

#[test]
fn the_webhook_is_reached_with_a_certificate_for_its_name() {
    for (case_name, by_jobs) in [("default", true), ("webhook", true), ("cert-manager", false)] {
        let all = case(case_name);
        let name = "edge-gateway-sluice-admission";
        let webhooks = object(&all, "ValidatingWebhookConfiguration", name);
        let config = &webhooks["webhooks"][0]["clientConfig"];
        assert!(config["caBundle"].is_null(), "an upgrade would take away what was written there: {config}");
        let service = object(&all, "Service", config["service"]["name"].as_str().expect("a name"));
        assert_eq!(service["spec"]["ports"][0]["port"], config["service"]["port"]);
        let pod = &workload(&all)["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().expect("volumes");
        let volume = volumes.iter().find(|volume| volume["name"] == "webhook-cert").expect("a volume");
        let secret = volume["secret"]["secretName"].as_str().expect("a name");
        assert_eq!(volume["secret"]["optional"], true, "a gateway without a webhook serves as well");
        let host = "gateway-sluice-controller-admission.edge.svc";
        let jobs = all.iter().filter(|object| object["kind"] == "Job").count();
        assert_eq!(jobs, if by_jobs { 2 } else { 0 }, "{case_name}");
        if by_jobs {
            let create = job(&all, "gateway-sluice-admission-create");
            assert!(create.contains(&format!("--secret-name={secret}")), "{create:?}");
            let hosts = create.iter().find_map(|argument| argument.strip_prefix("--host=")).expect("hosts");
            assert!(hosts.split(',').any(|name| name == host), "{hosts}");
            let patch = job(&all, "gateway-sluice-admission-patch");
            assert!(patch.contains(&format!("--webhook-name={name}")), "{patch:?}");
            let policy = webhooks["webhooks"][0]["failurePolicy"].as_str().expect("a policy");
            assert!(patch.contains(&format!("--patch-failure-policy={policy}")), "{patch:?}");
        } else {
            let certificate = object(&all, "Certificate", secret);
            assert!(certificate["spec"]["dnsNames"].as_array().expect("names").contains(&host.into()));
            let from = &webhooks["metadata"]["annotations"]["cert-manager.io/inject-ca-from"];
            assert_eq!(from.as_str(), Some(format!("edge/{secret}").as_str()));
        }
        assert!(arguments(&all).contains(&"--validating-webhook=:8443"));
        assert!(arguments(&all).contains(&"--validating-webhook-key=/usr/local/certificates/key"));
    }
}

/// Returns the arguments of a Job.
fn job(all: &[Value], name: &str) -> Vec<String> {
    let arguments = &object(all, "Job", name)["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments = arguments.as_array().expect("arguments").iter().filter_map(Value::as_str);
    arguments.map(|argument| argument.replace("$(POD_NAMESPACE)", "edge")).collect()
}

/// The Jobs may read and change one Secret and one webhook, and all their objects are removed when
/// they have ended.
#[test]
fn the_webhook_jobs_have_minimal_rights_and_leave_nothing() {
    let all = case("default");
    let names =
        |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let component = "admission-webhook";
    assert_eq!(
        rights_of(&all, component, "Role", Some("edge")),
        names(&[
            "create /secrets",
            "get /secrets [gateway-sluice-admission]",
            "patch /secrets [gateway-sluice-admission]"
        ])
    );
    let webhook =
        "admissionregistration.k8s.io/validatingwebhookconfigurations [edge-gateway-sluice-admission]";
    assert_eq!(
        rights_of(&all, component, "ClusterRole", None),
        names(&[&format!("get {webhook}"), &format!("patch {webhook}")])
    );
    let own: Vec<&Value> = all
        .iter()
        .filter(|object| object["metadata"]["labels"]["app.kubernetes.io/component"] == component)
        .collect();
    assert_eq!(own.len(), 7, "two Jobs, an account, two roles and their bindings");
    for object in own {
        let annotations = &object["metadata"]["annotations"];
        let policy = annotations["helm.sh/hook-delete-policy"].as_str();
        assert_eq!(policy, Some("before-hook-creation,hook-succeeded"), "{object}");
        let weight = annotations["helm.sh/hook-weight"].as_str();
        assert_eq!(
            weight.is_none(),
            object["kind"] == "Job",
            "rights come before those who need them: {object}"
        );
    }
}

/// The program parses the arguments: exit code 1 means that there is no cluster, 2 an unknown flag.
#[test]
fn the_program_takes_the_arguments_of_the_jobs() {
    let sluice = program::find("sluice").expect("sluice");
    for (name, path) in cases() {
        for object in rendered(path.to_str().expect("a path")) {
            if object["kind"] != "Job" {
                continue;
            }
            let arguments =
                job(std::slice::from_ref(&object), object["metadata"]["name"].as_str().expect("a name"));
            let output = Command::new(&sluice)
                .args(arguments)
                .arg("--kubeconfig=/nonexistent/kubeconfig")
                .output()
                .expect("sluice runs");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                output.status.code() == Some(1) && said.contains("cannot use the kubeconfig"),
                "{name}: {said}"
            );
        }
    }
}

/// The settings in which a value is tested: most have an effect if many features are enabled, some
/// only in combination with others.
const SETTINGS: [&str; 15] = [
    "{controller: {image: {repository: r/sluice}, autoscaling: {enabled: true, minReplicas: 2}, networkPolicy: {enabled: true},
      metrics: {enabled: true, serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboards: {enabled: true}},
      service: {internal: {enabled: true, annotations: {a: b}}}, hostPort: {enabled: true}, updateStrategy: {type: Recreate}},
      defaultBackend: {enabled: true, autoscaling: {enabled: true, minReplicas: 2}, networkPolicy: {enabled: true}}}",
    "{controller: {image: {repository: r/sluice}, replicaCount: 2, keda: {triggers: [{type: cpu}]},
      metrics: {enabled: true, prometheusRule: {enabled: true, slo: {enabled: true}}}}, defaultBackend: {enabled: true, replicaCount: 2}}",
    "{controller: {image: {repository: r/sluice}, keda: {enabled: true, minReplicas: 2, triggers: [{type: cpu}]}}}",
    "{controller: {image: {repository: r/sluice}, scope: {enabled: true}, service: {internal: {annotations: {a: b}}}},
      serviceAccount: {create: false}}",
    "{controller: {image: {repository: r/sluice}, hostNetwork: true, containerPort: {http: 8080, https: 8443},
      publishService: {enabled: false}}, defaultBackend: {enabled: true, serviceAccount: {create: false}}}",
    "{controller: {image: {registry: r}, kind: DaemonSet}, defaultBackend: {enabled: true}}",
    "{global: {image: {registry: r}}, defaultBackend: {enabled: true, image: {registry: \"\"}}}",
    "{controller: {image: {repository: r/sluice}, service: {type: NodePort, internal: {enabled: true, annotations: {a: b}}},
      metrics: {enabled: true, service: {type: NodePort}}}, tcp: {\"9000\": default/a:1}, udp: {\"9001\": default/b:1}}",
    "{controller: {image: {repository: r/sluice}, admissionWebhooks: {patch: {networkPolicy: {enabled: true}}}}}",
    "{controller: {image: {repository: r/sluice}, admissionWebhooks: {patch: {serviceAccount: {create: false}}}}}",
    "{controller: {image: {repository: r/sluice}, admissionWebhooks: {certManager: {enabled: true}}}}",
    "{controller: {image: {repository: r/sluice}}, waf: {enabled: true, image: {repository: r/waf}}}",
    "{controller: {image: {registry: r}}, waf: {enabled: true}}",
    "{controller: {image: {repository: r/sluice}}, replicaLimits: {enabled: true, secretName: own}}",
    "{controller: {image: {repository: r/sluice}, cacheFiles: {enabled: true}}}",
];

/// Returns values other than the default that are recognisable in the output.
fn samples(value: &Described, number: usize) -> Vec<Value> {
    let mark = format!("m{number}x");
    let port = 20_000 + number;
    match value.kind.as_str() {
        // The port of SETTINGS.
        _ if value.path.ends_with("nodePorts.tcp") => vec![json!({"9000": "31000"})],
        _ if value.path.ends_with("nodePorts.udp") => vec![json!({"9001": "31000"})],
        "boolean" => vec![json!(value.default != true)],
        "boolean or null" => vec![json!(true)],
        // A path stays within its folder.
        "string" => vec![match value.default.as_str().filter(|path| path.starts_with('/')) {
            Some(path) => format!("{path}{mark}").into(),
            None => mark.into(),
        }],
        "string or {}" | "target" => vec![mark.into()],
        "integer" | "integer or null" | "integer or percentage" => vec![json!(100_000 + number)],
        "percentage" => vec![json!(50.0 + number as f64 / 10_000.0)],
        "port" | "port or empty" => vec![json!(port)],
        "ports" => vec![json!({"http": port})],
        "map" | "map of strings" => vec![json!({mark: "y"})],
        "list" => vec![json!([{"name": mark}])],
        "list of strings" => vec![json!([mark])],
        "flags" => vec![json!({"v": 100_000 + number})],
        "keys" => vec![json!({"worker-shutdown-timeout": mark})],
        other => {
            let values = alternatives(other.strip_prefix("one of ").expect("alternatives"));
            values.into_iter().filter(|other| value.default != **other).map(Value::from).collect()
        }
    }
}

fn set(values: &mut Value, path: &str, to: Value) {
    *path.split('.').fold(values, |at, key| &mut at[key]) = to;
}

/// A value that no template reads would be ignored silently.
#[test]
fn every_value_has_an_effect() {
    let settings: Vec<Value> =
        SETTINGS.iter().map(|text| serde_yaml::from_str(text).expect("YAML")).collect();
    let mut left: Vec<(Described, Vec<Value>)> = described()
        .into_iter()
        .filter(|value| !value.is_refused() && !value.is_ignored() && value.path != "enabled")
        .enumerate()
        .map(|(number, value)| (value.clone(), samples(&value, number)))
        // There is only one API version.
        .filter(|(_, samples)| !samples.is_empty())
        .collect();
    for setting in &settings {
        let text = |values: &Value| template_values(&values.to_string());
        let before = text(setting).unwrap_or_else(|message| panic!("{setting}: {message}"));
        let given = |path: &str| path.split('.').fold(setting, |at, key| &at[key]).clone();
        // Sets all recognisable values at once.
        let mut all = setting.clone();
        let marked = |value: &Described| {
            !value.kind.starts_with("boolean")
                && !value.kind.starts_with("one of")
                && given(&value.path).is_null()
        };
        // A value that replaces another one is tested separately.
        let alone = [
            "maxUnavailable",
            "containerSecurityContext",
            "repository",
            "pathOverride",
            "namespace",
            "hostname",
            "certificate",
            "key",
            "issuerRef",
            "cacheFiles.volume",
            // Its key is a port.
            "nodePorts.tcp",
            "nodePorts.udp",
        ];
        let alone = |value: &Described| alone.iter().any(|name| value.path.ends_with(name));
        for (value, samples) in left.iter().filter(|(value, _)| marked(value) && !alone(value)) {
            set(&mut all, &value.path, samples[0].clone());
        }
        let after = text(&all).unwrap_or_else(|message| panic!("{all}: {message}"));
        let mark = |sample: &Value| match sample {
            Value::Object(map) if map.contains_key("v") => map["v"].to_string(),
            Value::Object(map) if map.contains_key("worker-shutdown-timeout") => {
                map["worker-shutdown-timeout"].to_string()
            }
            Value::Object(map) if map.contains_key("http") => map["http"].to_string(),
            Value::Object(map) => map.keys().next().cloned().unwrap_or_default(),
            Value::Array(list) => list[0].as_str().map_or_else(|| list[0]["name"].to_string(), str::to_owned),
            other => other.to_string(),
        };
        left.retain(|(value, samples)| {
            let found = |sample| after.contains(mark(sample).trim_matches('"'));
            !(marked(value) && !alone(value) && found(&samples[0]))
        });
        // Tests the others one by one.
        for (value, samples) in left.iter_mut().filter(|(value, _)| !marked(value) || alone(value)) {
            samples.retain(|sample| {
                let mut values = setting.clone();
                set(&mut values, &value.path, sample.clone());
                text(&values).map_or(true, |after| after == before)
            });
        }
        left.retain(|(_, samples)| !samples.is_empty());
    }
    let left: Vec<&str> = left.iter().map(|(value, _)| value.path.as_str()).collect();
    assert!(left.is_empty(), "these values have no effect: {left:?}");
}

/// A values file without a purpose is not tested by anything.
#[test]
fn every_values_file_states_its_purpose() {
    let read = |path| fs::read_to_string(path).expect("a file");
    assert!(cases().iter().all(|(name, path)| name.ends_with("-values") && read(path).contains("image")));
}
