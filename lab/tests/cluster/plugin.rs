//! `kubectl sluice` with the real kubectl, which forwards ports to the Pods of a gateway.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::Value;
use sluice_lab::addresses::NodeIndex;
use sluice_lab::harness::{Cluster, GatewayPods, TestClass, in_lab, own, restarts, shared};
use sluice_lab::layout::LabSettings;
use sluice_lab::programs;
use sluice_testing::program;

const HOST: &str = "web.example";
/// The name of the gateway.
const GATEWAY: &str = "gateway";

/// Returns the label of the gateway's Pods.
fn label() -> String {
    format!("app={GATEWAY}")
}

/// A gateway with several Pods.
struct Replicas<'c> {
    cluster: &'c Cluster,
    class: TestClass,
    pods: Vec<Replica>,
}

/// A Pod of the gateway.
#[derive(Clone, Debug)]
struct Replica {
    /// Namespace and name.
    name: String,
    address: String,
}

impl Replica {
    fn of(pod: &Pod) -> Result<Self> {
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
        Ok(Self { name, address: address.context("a Pod without an address")? })
    }

    /// Returns the name without the namespace.
    fn pod(&self) -> &str {
        self.name.split_once('/').map_or(&*self.name, |(_, name)| name)
    }

    /// Sends a request, which must be served.
    async fn get(&self, cluster: &Cluster, host: &str, path: &str) -> Result<()> {
        let answer = cluster.get(format!("{}:80", self.address), host, path).await?;
        ensure!(answer.status() == 200, "{} answers {host}{path} with {}", self.name, answer.status());
        Ok(())
    }

    /// Waits until a host is served.
    async fn serves(&self, cluster: &Cluster, host: &str) -> Result<()> {
        let what = format!("{} to serve {host}", self.name);
        cluster.until(&what, async || self.get(cluster, host, "/").await.map(Some)).await
    }
}

impl<'c> Replicas<'c> {
    async fn start(cluster: &'c Cluster, replicas: u32) -> Result<Self> {
        let class = TestClass::web(cluster, 1).await?;
        let flags = class.flags();
        GatewayPods::start(cluster, GATEWAY, replicas, &[&flags[0], &flags[1], "--enable-metrics"]).await?;
        let pods = cluster.pods(&label()).await?;
        let pods = pods.iter().map(Replica::of).collect::<Result<Vec<_>>>()?;
        symlink(program::find("sluice")?, cluster.file("kubectl-sluice"))?;
        let this = Self { cluster, class, pods };
        for replica in &this.pods {
            replica.serves(cluster, HOST).await?;
        }
        Ok(this)
    }

    fn names(&self) -> BTreeSet<&str> {
        self.pods.iter().map(|pod| &*pod.name).collect()
    }

    /// Returns a call of the plugin by kubectl.
    fn plugin(&self, arguments: &[&str]) -> Command {
        let mut command = self.cluster.command("kubectl");
        let folder = self.cluster.file("");
        let programs = programs::search_path();
        let paths = std::iter::once(folder).chain(std::env::split_paths(&programs));
        // Paths in a PATH contain no colon.
        command.env("PATH", std::env::join_paths(paths).unwrap_or_default());
        command.args(["sluice", "--namespace", &self.cluster.namespace, "--selector", &label()]);
        command.args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<String> {
        let output = self.plugin(arguments).output()?;
        ensure!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        Ok(text(&output.stdout))
    }

    /// Starts `tap` and waits until it reads all Pods.
    fn tap(&self, arguments: &[&str]) -> Result<Tap> {
        let mut command = self.plugin(&["tap", "--for", "1m", "-o", "json"]);
        let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut errors = BufReader::new(child.stderr.take().context("a pipe")?);
        let mut begin = String::new();
        while !begin.contains("reading requests") {
            ensure!(errors.read_line(&mut begin)? > 0, "tap has ended: {begin}");
        }
        Ok(Tap { child, begin, errors: Box::new(errors) })
    }
}

/// A running `tap`.
struct Tap {
    child: Child,
    /// The messages until it reads requests.
    begin: String,
    errors: Box<dyn BufRead>,
}

impl Tap {
    /// Waits for the end, and returns the requests and the messages.
    fn end(mut self) -> Result<(Vec<Value>, String)> {
        let mut messages = String::new();
        self.errors.read_to_string(&mut messages)?;
        let requests = text(&self.child.wait_with_output()?.stdout);
        Ok((requests.lines().map(serde_json::from_str).collect::<Result<_, _>>()?, messages))
    }
}

/// A bundle, unpacked.
struct Bundle {
    folder: PathBuf,
    /// What the command has printed.
    said: String,
}

impl Bundle {
    fn write(replicas: &Replicas<'_>) -> Result<Self> {
        let (file, folder) = (replicas.cluster.file("bundle.tar.gz"), replicas.cluster.file("bundle"));
        let said = replicas.run(&["bundle", "-o", file.to_str().context("a path")?])?;
        fs::create_dir(&folder)?;
        let unpack = ["--strip-components=1", "--directory"];
        let status = Command::new("tar").arg("-xzf").arg(&file).args(unpack).arg(&folder).status()?;
        ensure!(status.success(), "tar: {status}");
        Ok(Self { folder, said })
    }

    /// Returns the content of a file of a Pod.
    fn file(&self, pod: &str, name: &str) -> Result<String> {
        let path = self.folder.join(pod).join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns a field of each element of a list.
fn each<'v>(list: &'v Value, field: &str) -> Vec<&'v Value> {
    list.as_array().into_iter().flatten().map(|one| &one[field]).collect()
}

#[test]
fn top_adds_the_requests_of_all_pods() {
    shared(async |cluster| {
        let replicas = Replicas::start(cluster, 3).await?;
        let top = replicas.plugin(&["top", "--interval", "2s", "-o", "json"]);
        let mut top = { top }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut sent = 0;
        while top.try_wait()?.is_none() {
            // The second Pod has twice the requests of the first, and the third three times.
            for (number, replica) in replicas.pods.iter().enumerate() {
                for _ in 0..=number {
                    replica.get(cluster, HOST, "/").await?;
                    sent += 1;
                }
            }
        }
        let output = top.wait_with_output()?;
        let figures: Value = serde_json::from_slice(&output.stdout).with_context(|| text(&output.stderr))?;
        let names: BTreeSet<&str> =
            each(&figures["replicas"], "name").iter().filter_map(|n| n.as_str()).collect();
        ensure!(names == replicas.names(), "{figures:#}");
        let rates = each(&figures["replicas"], "requestsPerSecond");
        let rates: Vec<f64> = rates.iter().filter_map(|rate| rate.as_f64()).collect();
        ensure!(rates.len() == 3 && rates.iter().all(|rate| *rate > 0.0), "{figures:#}");
        let rule = &figures["rules"][0];
        ensure!(rule["ingress"] == "web" && figures["rules"][1].is_null(), "{figures:#}");
        let (requests, rate) = (rule["requests"].as_u64().unwrap_or(0), &rule["requestsPerSecond"]);
        ensure!(requests > 0 && requests <= sent, "{requests} of {sent}: {figures:#}");
        // Two samples of a Pod may each fall between the counts of a request.
        let (sum, rate) = (rates.iter().sum::<f64>(), rate.as_f64().context("a rate")?);
        ensure!((sum - rate).abs() < 6.0, "{sum} is not {rate}: {figures:#}");
        Ok(())
    });
}

#[test]
fn tap_and_trace_next_show_requests_of_each_pod() {
    shared(async |cluster| {
        let replicas = Replicas::start(cluster, 3).await?;
        let tap = replicas.tap(&["--count", "3"])?;
        for replica in &replicas.pods {
            replica.get(cluster, HOST, &format!("/{}", replica.pod())).await?;
        }
        let (requests, messages) = tap.end()?;
        let shown: BTreeSet<&str> = requests.iter().filter_map(|one| one["replica"].as_str()).collect();
        ensure!(shown == replicas.names(), "{requests:#?} {messages}");
        for request in &requests {
            let (namespace, target) = (&cluster.namespace, request["target"].as_str().unwrap_or_default());
            ensure!(request["replica"] == format!("{namespace}{target}"), "{request:#}");
        }

        let last = replicas.pods.last().context("a Pod")?;
        let trace = replicas.plugin(&["trace-next", "--for", "1m", "--path", "/traced"]);
        let mut trace = { trace }.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(trace.stderr.take().context("a pipe")?).read_line(&mut line)?;
        ensure!(line.contains("waiting for a request"), "{line}");
        last.get(cluster, HOST, "/traced").await?;
        let shown = text(&trace.wait_with_output()?.stdout);
        let first = shown.lines().next().unwrap_or_default();
        ensure!(first.ends_with(&format!(" at {}", last.name)), "{shown}");
        Ok(())
    });
}

#[test]
fn routes_are_read_by_the_program_in_a_pod() {
    shared(async |cluster| {
        let replicas = Replicas::start(cluster, 1).await?;
        let routes = replicas.run(&["routes"])?;
        ensure!(routes.contains(HOST), "{routes}");
        let explained = replicas.run(&["routes", "--host", HOST, "--path", "/cart"])?;
        ensure!(explained.contains(&format!("Ingress {}/web", cluster.namespace)), "{explained}");
        let output = replicas.plugin(&["routes", "--host", HOST, "--path", "no-path"]).output()?;
        ensure!(!output.status.success(), "{output:?}");
        Ok(())
    });
}

/// The Pod has lost its network: its admin listener answers, and its state is behind.
#[test]
fn top_names_the_pod_whose_state_is_behind() {
    in_lab(async |cluster, lab| {
        let replicas = Replicas::start(cluster, 3).await?;
        let [first, second, behind] = &replicas.pods[..] else { unreachable!() };
        lab.plug_pod(&cluster.client, &cluster.namespace, behind.pod(), false).await?;
        cluster.apply(&replicas.class.ingress("new", "new.example", "web")).await?;
        first.serves(cluster, "new.example").await?;
        second.serves(cluster, "new.example").await?;
        // Pods may differ for a moment after any change.
        let until_shown = async |what: &str, is_shown: &dyn Fn(&str) -> bool| {
            let attempt = async || {
                let table = replicas.run(&["top", "--once", "--all", "--interval", "500ms"])?;
                ensure!(is_shown(&table), "{table}");
                Ok(Some(()))
            };
            cluster.until(what, attempt).await
        };
        let lacks = format!("\n{} lacks new.example/ ({}/new)\n", behind.name, cluster.namespace);
        let is_named = |table: &str| {
            let lines: Vec<&str> = table.lines().filter(|line| line.contains(" differs ")).collect();
            lines.len() == 1 && lines[0].starts_with(&behind.name) && table.contains(&lacks)
        };
        until_shown("the Pod that differs", &is_named).await?;

        lab.plug_pod(&cluster.client, &cluster.namespace, behind.pod(), true).await?;
        behind.serves(cluster, "new.example").await?;
        let are_equal = |table: &str| !table.contains("differs") && !table.contains("lacks");
        until_shown("no difference", &are_equal).await
    });
}

#[test]
fn a_bundle_has_a_folder_for_each_pod() {
    shared(async |cluster| {
        let replicas = Replicas::start(cluster, 2).await?;
        let bundle = Bundle::write(&replicas)?;
        ensure!(bundle.said.contains(": 18 documents;"), "{}", bundle.said);
        for replica in &replicas.pods {
            let read = |name: &str| bundle.file(&replica.name.replace('/', "_"), name);
            ensure!(read("routes.json")?.contains(HOST), "{}", read("routes.json")?);
            ensure!(read("metrics.txt")?.contains("sluice_"), "{}", read("metrics.txt")?);
            ensure!(read("log.txt")?.contains("listening"), "{}", read("log.txt")?);
        }
        let errors = bundle.folder.join("errors.txt");
        ensure!(!errors.exists(), "{}", fs::read_to_string(errors)?);
        Ok(())
    });
}

#[test]
fn a_pod_that_is_gone_is_reported_and_the_others_are_shown() {
    shared(async |cluster| {
        let replicas = Replicas::start(cluster, 3).await?;
        let [first, second, gone] = &replicas.pods[..] else { unreachable!() };
        let mut tap = replicas.tap(&["--count", "2"])?;
        cluster.api::<Pod>().delete(gone.pod(), &DeleteParams::default().grace_period(0)).await?;
        let mut message = String::new();
        while !message.contains(&gone.name) {
            message.clear();
            ensure!(tap.errors.read_line(&mut message)? > 0, "tap has ended");
        }
        for replica in [first, second] {
            replica.get(cluster, HOST, "/").await?;
        }
        let (requests, messages) = tap.end()?;
        let shown: BTreeSet<&str> = requests.iter().filter_map(|one| one["replica"].as_str()).collect();
        ensure!(shown == BTreeSet::from([&*first.name, &*second.name]), "{requests:#?} {message}{messages}");
        Ok(())
    });
}

/// Each command waits for it, but no longer than for one answer.
#[test]
fn a_pod_that_hangs_is_reported_and_the_others_are_shown() {
    in_lab(async |cluster, lab| {
        let replicas = Replicas::start(cluster, 3).await?;
        let [first, second, hanging] = &replicas.pods[..] else { unreachable!() };
        lab.suspend_pod(&cluster.client, &cluster.namespace, hanging.pod()).await?;
        let piped = |command: &mut Command| command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let top = piped(&mut replicas.plugin(&["top", "-o", "json", "--all"]))?;
        let file = cluster.file("bundle.tar.gz");
        let bundle = piped(&mut replicas.plugin(&["bundle", "-o", file.to_str().context("a path")?]))?;
        let tap = replicas.tap(&["--count", "2"])?;
        for replica in [first, second] {
            replica.get(cluster, HOST, "/").await?;
        }
        let named = format!("sluice: {}: cannot ask", hanging.name);
        ensure!(tap.begin.contains(&named), "{}", tap.begin);
        let (requests, _) = tap.end()?;
        let shown: BTreeSet<&str> = requests.iter().filter_map(|one| one["replica"].as_str()).collect();
        ensure!(shown == BTreeSet::from([&*first.name, &*second.name]), "{requests:#?}");

        let bundle = bundle.wait_with_output()?;
        ensure!(text(&bundle.stdout).contains(": 18 documents;"), "{bundle:?}");
        let named = format!("{}/generation.json: cannot ask", hanging.name.replace('/', "_"));
        ensure!(text(&bundle.stderr).contains(&named), "{bundle:?}");
        ensure!(text(&bundle.stderr).lines().count() == 1, "{bundle:?}");

        let top = top.wait_with_output()?;
        let figures: Value = serde_json::from_slice(&top.stdout).with_context(|| text(&top.stderr))?;
        for replica in figures["replicas"].as_array().context("replicas")? {
            ensure!(replica["error"].is_string() == (replica["name"] == *hanging.name), "{figures:#}");
        }
        Ok(())
    });
}

/// Its program ends at once, for instance because of a wrong flag. Its port is forwarded, because
/// it has a network, but nothing listens there.
#[test]
fn a_bundle_has_the_log_of_a_pod_that_crashes() {
    shared(async |cluster| {
        let replicas = Replicas::start(cluster, 1).await?;
        let crashing = r#"
apiVersion: v1
kind: Pod
metadata: {name: crashing, labels: {app: gateway}}
spec:
  containers:
  - {name: gateway, image: shell, command: ["/bin/sh", "-c", "echo wrong flag; exit 1"]}
"#;
        cluster.apply(crashing).await?;
        cluster.wait::<Pod>("crashing", "restarted", |pod| restarts(pod) > 0).await?;
        let bundle = Bundle::write(&replicas)?;
        let name = format!("{}_crashing", cluster.namespace);
        ensure!(bundle.file(&name, "log.txt")?.contains("wrong flag"), "{:?}", bundle.folder);
        let errors = fs::read_to_string(bundle.folder.join("errors.txt"))?;
        ensure!(errors.starts_with(&format!("{name}/generation.json: cannot ask")), "{errors}");
        ensure!(errors.contains("it closed the connection"), "{errors}");
        let [replica] = &replicas.pods[..] else { unreachable!() };
        ensure!(bundle.file(&replica.name.replace('/', "_"), "routes.json")?.contains(HOST), "{errors}");

        let table = replicas.run(&["top", "--once", "--interval", "500ms"])?;
        ensure!(table.contains(&format!("\n{}/crashing: cannot ask", cluster.namespace)), "{table}");
        ensure!(table.contains(&format!("\n{}  ", replica.name)), "{table}");
        Ok(())
    });
}

/// kubectl itself would wait for ever.
#[test]
fn a_pod_of_an_unreachable_node_is_reported_and_the_others_are_shown() {
    own(LabSettings { nodes: 2, dual_stack: false, images: Vec::new() }, async |cluster, lab| {
        let replicas = Replicas::start(cluster, 3).await?;
        let node = NodeIndex::new(1).context("there is a first node")?;
        let pods = cluster.pods(&label()).await?;
        let on_node =
            |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) == Some(node.name());
        let (frozen, others): (Vec<_>, Vec<_>) = pods.iter().partition(|pod| on_node(pod));
        ensure!(!frozen.is_empty() && !others.is_empty(), "Pods stand on one node only");

        lab.freeze_node(node)?;
        let mut top = replicas.plugin(&["top", "--once", "--interval", "500ms"]);
        let top = top.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let bundle = Bundle::write(&replicas)?;
        let top = top.wait_with_output()?;
        let table = text(&top.stdout);
        let errors = fs::read_to_string(bundle.folder.join("errors.txt"))?;
        for pod in frozen {
            let name = Replica::of(pod)?.name;
            ensure!(table.contains(&format!("\n{name}: cannot forward a port to this Pod: ")), "{top:?}");
            let place = name.replace('/', "_");
            ensure!(errors.contains(&format!("{place}/generation.json: cannot forward a port")), "{errors}");
            ensure!(errors.contains(&format!("{place}/log.txt: kubectl: ")), "{errors}");
        }
        for pod in others {
            let name = Replica::of(pod)?.name;
            ensure!(table.contains(&format!("\n{name}  ")), "{top:?}");
            ensure!(bundle.file(&name.replace('/', "_"), "routes.json")?.contains(HOST), "{errors}");
        }
        lab.thaw_node(node)?;
        Ok(())
    });
}
