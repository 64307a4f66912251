//! Runs the commands of `docs/migrate-from-ingress-nginx.md` and `docs/migrate-traffic.md`
//! unchanged. Parts of a reader's environment that the lab lacks (names of addresses, a values
//! file, `kubectl exec`) are provided here.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use sluice_lab::harness::Cluster;
use sluice_lab::lab::Lab;
use sluice_lab::programs::{Unit, find};
use sluice_testing::program;

/// Beginnings of commands that build and install the program, which are not run.
const BY_HAND: [&str; 2] = ["make build", "install -m 755 "];

/// Its pages, in the order of the steps.
const PAGES: [&str; 2] = ["docs/migrate-from-ingress-nginx.md", "docs/migrate-traffic.md"];

/// The document, and which of its commands were run.
pub(crate) struct Document {
    text: String,
    blocks: Vec<String>,
    run: RefCell<BTreeSet<usize>>,
    desk: PathBuf,
    addresses: RefCell<BTreeMap<&'static str, String>>,
}

impl Document {
    /// Reads the document, and creates a folder like that of a reader.
    ///
    /// # Errors
    /// The document or a program is missing.
    pub(crate) fn open(cluster: &Cluster, lab: &Lab) -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
        let pages = PAGES.map(|page| fs::read_to_string(root.join(page)));
        let text = pages.into_iter().collect::<Result<String, _>>()?;
        let blocks =
            text.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap_or(rest).to_owned());
        let desk = cluster.file("desk");
        let document = Self {
            blocks: blocks.collect(),
            text,
            run: RefCell::default(),
            addresses: RefCell::default(),
            desk,
        };
        document.furnish(cluster, lab, &root)?;
        Ok(document)
    }

    fn furnish(&self, cluster: &Cluster, lab: &Lab, root: &Path) -> Result<()> {
        let bin = self.desk.join("bin");
        fs::create_dir_all(&bin)?;
        fs::create_dir_all(self.desk.join(".kube"))?;
        fs::copy(cluster.kubeconfig(), self.desk.join(".kube/config"))?;
        symlink(root.join("charts"), self.desk.join("charts"))?;
        let sluice = program::find("sluice")?;
        for name in ["sluice", "kubectl-sluice"] {
            symlink(&sluice, bin.join(name))?;
        }
        let kubectl = find(Unit::Kubernetes, "kubectl")?;
        let helm = find(Unit::Helm, "helm")?;
        // A lab has no `kubectl exec`: the program is run in the Pod's network namespace instead.
        let namespaces = lab.layout().pod_netns("");
        let exec = format!(
            r#"#!/bin/sh
[ "$1" = exec ] || exec {kubectl} "$@"
address=$({kubectl} get pod "$2" --namespace "$4" --output 'jsonpath={{.status.podIP}}')
while [ "$1" != -- ]; do shift; done
shift 2
exec nsenter --net=/run/netns/{namespaces}$(printf '%02x%02x%02x%02x' $(echo "$address" | tr . ' ')) {sluice} "$@"
"#,
            kubectl = kubectl.display(),
            sluice = sluice.display(),
        );
        // A lab's load balancers react to the end of a Pod at once.
        fs::write(self.desk.join("lab.yaml"), "controller:\n  shutdownGracePeriod: 3\n")?;
        let lab_helm = format!(
            "#!/bin/sh\ncase $1 in install | upgrade) set -- \"$@\" --wait --timeout 90s --values lab.yaml;; \
             uninstall) set -- \"$@\" --wait;; esac\nexec {} \"$@\"\n",
            helm.display()
        );
        for (name, script) in [("kubectl", exec), ("helm", lab_helm)] {
            let path = bin.join(name);
            fs::write(&path, script)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    /// Writes a file that the document assumes to exist.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn file(&self, name: &str, text: &str) -> Result<()> {
        let path = self.desk.join(name);
        fs::create_dir_all(path.parent().context("a folder")?)?;
        Ok(fs::write(path, text)?)
    }

    /// Returns the content of a file that a command has written.
    ///
    /// # Errors
    /// The file does not exist.
    pub(crate) fn written(&self, name: &str) -> Result<String> {
        Ok(fs::read_to_string(self.desk.join(name))?)
    }

    /// Defines an address of the document.
    pub(crate) fn address(&self, name: &'static str, address: impl ToString) {
        self.addresses.borrow_mut().insert(name, address.to_string());
    }

    /// Runs the one block with these words, and returns its output.
    ///
    /// # Errors
    /// There is no such block, or a command of it fails.
    pub(crate) fn block(&self, cluster: &Cluster, words: &str) -> Result<String> {
        let found: Vec<usize> =
            (0..self.blocks.len()).filter(|at| self.blocks[*at].contains(words)).collect();
        ensure!(found.len() == 1, "{} blocks have {words:?}", found.len());
        self.run.borrow_mut().insert(found[0]);
        self.shell(cluster, &self.blocks[found[0]])
    }

    /// Checks that the text contains this as code.
    ///
    /// # Errors
    /// It does not.
    pub(crate) fn says(&self, code: &str) -> Result<()> {
        ensure!(self.text.contains(&format!("`{code}`")), "the document has no {code:?}");
        Ok(())
    }

    /// Runs a command of the text.
    ///
    /// # Errors
    /// The text does not contain it, or it fails.
    pub(crate) fn command(&self, cluster: &Cluster, command: &str) -> Result<String> {
        self.says(command)?;
        self.shell(cluster, command)
    }

    /// Runs commands as a reader would.
    ///
    /// # Errors
    /// A command fails.
    pub(crate) fn shell(&self, cluster: &Cluster, commands: &str) -> Result<String> {
        let by_hand = |line: &&str| !BY_HAND.iter().any(|start| line.starts_with(start));
        let mut script = commands.lines().filter(by_hand).collect::<Vec<_>>().join("\n");
        for (name, address) in self.addresses.borrow().iter() {
            script = script.replace(name, address);
        }
        let mut path = self.desk.join("bin").into_os_string();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
        let output = cluster
            .command("bash")
            .args(["-euc", &script])
            .current_dir(&self.desk)
            .env("PATH", path)
            .env("HOME", &self.desk)
            .env("CURL_CA_BUNDLE", self.desk.join("trusted.pem"))
            .stdin(Stdio::null())
            .output()?;
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (text, errors) = (said(&output.stdout), said(&output.stderr));
        ensure!(output.status.success(), "{script}\n{}:\n{text}\n{errors}", output.status);
        println!("-- {script}\n{text}{errors}");
        Ok(text + &errors)
    }

    /// Checks that every block was run.
    ///
    /// # Errors
    /// A block was not run; the error names it.
    pub(crate) fn finished(&self) -> Result<()> {
        let left: Vec<&String> = (0..self.blocks.len())
            .filter(|at| !self.run.borrow().contains(at))
            .map(|at| &self.blocks[at])
            .collect();
        ensure!(left.is_empty(), "not tried: {left:#?}");
        Ok(())
    }
}
