//! The plugin with a fake kubectl: its calls, and the handling of its output.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use super::arguments::GatewaySelection;
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
        assert_eq!(is_called([name].iter()), asked, "{name}");
    }
}

#[test]
fn gateway_flags_may_stand_anywhere_others_belong_to_subcommands() {
    let words = read("-n edge routes --host shop.example -o json --pod=p-1 --context c --path /cart");
    assert_eq!(words.command, "routes");
    assert_eq!(words.rest, ["--host", "shop.example", "-o", "json", "--path", "/cart"]);
    let expected = GatewaySelection {
        namespace: Some("edge".into()),
        pod: Some("p-1".into()),
        context: Some("c".into()),
        ..GatewaySelection::default()
    };
    assert_eq!(words.target, expected);
    assert_eq!(read("--help").command, "");
    assert!(read("check --help").has_help_flag());
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

#[test]
fn every_subcommand_of_the_plugin_has_help_without_a_cluster() {
    // A kubeconfig that does not exist: a command that needed the cluster would fail.
    for command in arguments::COMMANDS {
        for flag in ["-h", "--help"] {
            let words = ["--kubeconfig", "/nowhere", command, flag].map(OsString::from);
            let exit = run(words.into_iter()).unwrap_or_else(|error| panic!("{command} {flag}: {error:#}"));
            assert_eq!(exit, ExitCode::SUCCESS, "{command} {flag}");
        }
    }
    assert_eq!(read("--version").command, "version");
}

/// Returns a substitute for kubectl, which records its arguments and prints one fixed response.
fn kubectl(folder: &Path, answer: &serde_json::Value, target: &GatewaySelection) -> Kubectl {
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

fn found(pods: &[serde_json::Value], target: &GatewaySelection) -> (Result<pods::GatewayPod>, String) {
    let folder = tempfile::tempdir().unwrap();
    let kubectl = kubectl(folder.path(), &serde_json::json!({"items": pods}), target);
    (pods::find(&kubectl, target), asked(folder.path()))
}

#[test]
fn a_ready_pod_is_queried_with_its_flags() {
    let target = GatewaySelection { namespace: Some("edge".into()), ..GatewaySelection::default() };
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
        found(&[pod], &GatewaySelection::default()).0.unwrap().admin_port(10246)
    };
    assert_eq!(port(&["--v=2"]), 10246);
    assert_eq!(port(&["--v=2", "--admin-address=127.0.0.1:1"]), 1);
    assert_eq!(port(&["--admin-address", "[::1]:2", "--v=2"]), 2);
}

#[test]
fn ports_that_cannot_be_forwarded_are_reported_with_kubectls_message() {
    let folder = tempfile::tempdir().unwrap();
    let pods = serde_json::json!({"items": [pod("edge", "a", "True")]});
    let pods =
        pods::all(&kubectl(folder.path(), &pods, &GatewaySelection::default()), &GatewaySelection::default())
            .unwrap();
    let address = |script: &str| {
        let kubectl = Kubectl::by("sh", vec!["-c".into(), script.into()], &GatewaySelection::default());
        let mut forwards = Forwards::to(&kubectl, &pods, 10246, STARTS_WITHIN).unwrap();
        assert_eq!(forwards.replicas[0].name, "edge/a");
        forwards.replicas.remove(0).address
    };
    assert_eq!(
        address("echo 'E: first' >&2; echo 'error: no such Pod' >&2; exit 1").unwrap_err(),
        "cannot forward a port to this Pod: kubectl: error: no such Pod"
    );
    assert!(address("exit 0").unwrap_err().contains("kubectl ended and printed nothing"));
    let script = "echo 'Forwarding from 127.0.0.1:41235 -> 10246'; exec sleep 30";
    assert_eq!(address(script), Ok("127.0.0.1:41235".parse().unwrap()));
}

#[test]
fn a_pod_that_could_not_be_reached_held_up_all_others() {
    let folder = tempfile::tempdir().unwrap();
    let pods = serde_json::json!({"items": [pod("edge", "a", "True"), pod("edge", "b", "True")]});
    let pods =
        pods::all(&kubectl(folder.path(), &pods, &GatewaySelection::default()), &GatewaySelection::default())
            .unwrap();
    let script =
        "case \"$*\" in *pod/b*) echo 'Forwarding from 127.0.0.1:41235 -> 10246' ;; esac; exec sleep 60";
    let kubectl =
        Kubectl::by("sh", vec!["-c".into(), script.into(), "kubectl".into()], &GatewaySelection::default());
    let begun = Instant::now();
    let forwards = Forwards::to(&kubectl, &pods, 10246, Duration::from_secs(5)).unwrap();
    let [a, b] = &forwards.replicas[..] else { panic!("{forwards:?}") };
    assert_eq!(
        a.address.as_ref().unwrap_err(),
        "cannot forward a port to this Pod: its node does not answer in time"
    );
    assert_eq!(b.address, Ok("127.0.0.1:41235".parse().unwrap()));
    assert!(begun.elapsed() < Duration::from_secs(30), "the process runs for a minute");
}

/// If a container sets `command`, its flags are there.
#[test]
fn flags_are_found_behind_a_program_that_starts_the_gateway() {
    let mut other = pod("edge", "c", "True");
    let command = ["/usr/bin/dumb-init", "--", "/nginx-ingress-controller", "--ingress-class=edge", "-v=2"];
    other["spec"]["containers"] = serde_json::json!([{"name": "controller", "command": command}]);
    let flags: Vec<String> = found(&[other], &GatewaySelection::default()).0.unwrap().flags().collect();
    assert_eq!(flags, ["--ingress-class=edge", "-v=2"]);
}

#[test]
fn none_and_too_many_pods_are_reported_with_a_remedy() {
    let (none, asked) = found(&[], &GatewaySelection::default());
    let none = none.unwrap_err().to_string();
    assert!(none.contains("there is no running Pod with the labels") && none.contains("-n"), "{none}");
    assert!(asked.contains("--all-namespaces"), "{asked}");
    let (two, _) = found(&[pod("one", "a", "True"), pod("two", "b", "True")], &GatewaySelection::default());
    let two = two.unwrap_err().to_string();
    assert!(two.contains("one, two") && two.contains("name one with -n"), "{two}");
}

#[test]
fn the_named_cluster_is_queried() {
    let target = GatewaySelection {
        pod: Some("p".into()),
        context: Some("staging".into()),
        kubeconfig: Some("/k".into()),
        ..GatewaySelection::default()
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
