//! The plugin with a fake kubectl: its calls, and the handling of its output.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::arguments::Target;
use super::*;

fn read(line: &str) -> PluginArguments {
    PluginArguments::read(line.split_whitespace().map(str::to_owned)).unwrap()
}

#[test]
fn the_program_name_selects_it() {
    for (name, asked) in [
        ("/usr/local/bin/kubectl-sluice", true),
        ("kubectl-sluice.exe", true),
        ("/sluice", false),
        ("kubectl-sluiceway", false),
    ] {
        assert_eq!(is_asked([name].iter()), asked, "{name}");
    }
}

#[test]
fn gateway_flags_may_stand_anywhere_others_belong_to_subcommands() {
    let words = read("-n edge routes --host shop.example -o json --pod=p-1 --context c --path /cart");
    assert_eq!(words.command, "routes");
    assert_eq!(words.rest, ["--host", "shop.example", "-o", "json", "--path", "/cart"]);
    let expected = Target {
        namespace: Some("edge".into()),
        pod: Some("p-1".into()),
        context: Some("c".into()),
        ..Target::default()
    };
    assert_eq!(words.target, expected);
    assert_eq!(read("--help").command, "");
    assert_eq!(read("check --help").rest, ["--help"]);
    for (line, part) in [
        ("routes -n", "-n needs a value"),
        ("routes --pod a --deployment b", "exclude each other"),
        ("--nonsense routes", "unknown flag --nonsense"),
    ] {
        let error =
            PluginArguments::read(line.split_whitespace().map(str::to_owned)).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn the_help_names_every_subcommand() {
    for command in arguments::COMMANDS {
        assert!(HELP.contains(&format!("\n  {command} ")), "{command}");
    }
}

/// Returns a substitute for kubectl, which records its arguments and prints one fixed response.
fn kubectl(folder: &Path, answer: &serde_json::Value, target: &Target) -> Kubectl {
    fs::write(folder.join("answer"), answer.to_string()).unwrap();
    let script = format!("echo \"$*\" >> {0}/asked; cat {0}/answer", folder.display());
    Kubectl::by("sh", vec!["-c".into(), script, "kubectl".into()], target)
}

fn asked(folder: &Path) -> String {
    fs::read_to_string(folder.join("asked")).unwrap()
}

fn pod(namespace: &str, name: &str, ready: &str) -> serde_json::Value {
    serde_json::json!({
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"containers": [{"name": "controller", "args": ["/nginx-ingress-controller",
            "--configmap=$(POD_NAMESPACE)/settings", "--ingress-class", "nginx"]}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
}

fn found(pods: &[serde_json::Value], target: &Target) -> (Result<pods::GatewayPod>, String) {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = kubectl(folder.path(), &serde_json::json!({"items": pods}), target);
    (pods::find(&kubectl, target), asked(folder.path()))
}

#[test]
fn a_ready_pod_is_queried_with_its_flags() {
    let target = Target { namespace: Some("edge".into()), ..Target::default() };
    let ended =
        serde_json::json!({"metadata": {"namespace": "edge", "name": "a"}, "status": {"phase": "Succeeded"}});
    let (pod, asked) = found(&[pod("edge", "b", "False"), pod("edge", "c", "True"), ended], &target);
    let pod = pod.unwrap();
    assert_eq!(pod.name, "c");
    let flags: Vec<String> = pod.flags().collect();
    assert_eq!(flags, ["--configmap=edge/settings", "--ingress-class", "nginx"]);
    assert!(asked.starts_with("get pods --selector app.kubernetes.io/name=sluice,"), "{asked}");
    assert!(asked.contains("--namespace edge --output json"), "{asked}");
}

#[test]
fn the_port_of_the_admin_listener_is_that_of_the_flag() {
    let port = |arguments: &[&str]| {
        let mut pod = pod("edge", "c", "True");
        pod["spec"]["containers"] = serde_json::json!([{"name": "controller", "args": arguments}]);
        found(&[pod], &Target::default()).0.unwrap().admin_port(10246)
    };
    assert_eq!(port(&["--v=2"]), 10246);
    assert_eq!(port(&["--v=2", "--admin-address=127.0.0.1:1"]), 1);
    assert_eq!(port(&["--admin-address", "[::1]:2", "--v=2"]), 2);
}

#[test]
fn ports_that_cannot_be_forwarded_are_reported_with_the_message_of_kubectl() {
    let folder = tempfile::tempdir().unwrap();
    let pods = serde_json::json!({"items": [pod("edge", "a", "True")]});
    let pods = pods::all(&kubectl(folder.path(), &pods, &Target::default()), &Target::default()).unwrap();
    let failing = |script: &str| {
        let kubectl = Kubectl::by("sh", vec!["-c".into(), script.into()], &Target::default());
        Forwards::to(&kubectl, &pods, 10246).unwrap_err().to_string()
    };
    let message = failing("echo 'E: first' >&2; echo 'error: no such Pod' >&2; exit 1");
    assert_eq!(message, "cannot forward a port to Pod edge/a: kubectl: error: no such Pod");
    assert!(failing("exit 0").contains("it ended and printed nothing"));
    let script = "echo 'Forwarding from 127.0.0.1:41235 -> 10246'; exec sleep 30";
    let kubectl = Kubectl::by("sh", vec!["-c".into(), script.into()], &Target::default());
    let forwards = Forwards::to(&kubectl, &pods, 10246).unwrap();
    assert_eq!(forwards.replicas[0].address, "127.0.0.1:41235".parse().unwrap());
    assert_eq!(forwards.replicas[0].name, "edge/a");
}

/// If a container sets `command`, its flags are there.
#[test]
fn flags_are_found_behind_a_program_that_starts_the_gateway() {
    let mut other = pod("edge", "c", "True");
    let command = ["/usr/bin/dumb-init", "--", "/nginx-ingress-controller", "--ingress-class=edge", "-v=2"];
    other["spec"]["containers"] = serde_json::json!([{"name": "controller", "command": command}]);
    let flags: Vec<String> = found(&[other], &Target::default()).0.unwrap().flags().collect();
    assert_eq!(flags, ["--ingress-class=edge", "-v=2"]);
}

#[test]
fn none_and_too_many_pods_are_reported_with_a_remedy() {
    let (none, asked) = found(&[], &Target::default());
    let none = none.unwrap_err().to_string();
    assert!(none.contains("there is no running Pod with the labels") && none.contains("-n"), "{none}");
    assert!(asked.contains("--all-namespaces"), "{asked}");
    let (two, _) = found(&[pod("one", "a", "True"), pod("two", "b", "True")], &Target::default());
    let two = two.unwrap_err().to_string();
    assert!(two.contains("one, two") && two.contains("name one with -n"), "{two}");
}

#[test]
fn the_named_cluster_is_queried() {
    let target = Target {
        pod: Some("p".into()),
        context: Some("staging".into()),
        kubeconfig: Some("/k".into()),
        ..Target::default()
    };
    let folder = tempfile::tempdir().unwrap();
    let kubectl = kubectl(folder.path(), &serde_json::json!({}), &target);
    pods::find(&kubectl, &target).unwrap_err();
    let asked = asked(folder.path());
    let expected = "--kubeconfig /k --context staging get pods --field-selector metadata.name=p";
    assert!(asked.starts_with(expected), "{asked}");
    let config = kubectl.kubeconfig().unwrap();
    let mode = fs::metadata(config.path()).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "it may hold a password");
}
