//! The programs of a lab, built once from pinned Go packages into a cache outside the tree, by
//! version.
//!
//! All are packages of one Go module (`lab/go`), which gives each dependency one version. Go
//! therefore compiles a dependency once, not once for each program. The module's files are compiled
//! into this crate, so that a built `sluice-lab` needs no source tree. A build goes to a temporary
//! folder that is renamed when it is complete, under a lock per version: two labs that start at the
//! same time build once, and an interrupted build leaves nothing that looks complete.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The error message when Go is missing.
const GO_MISSING: &str = "Go is missing, and the lab's programs are built with it: install Go 1.26.7 or newer from \
                          https://go.dev/dl/ (or your distribution's `golang` package) and put `go` on the PATH";

/// The files of the Go module, by their paths in it.
const MODULE: [(&str, &str); 6] = [
    ("go.mod", include_str!("../go/go.mod")),
    ("go.sum", include_str!("../go/go.sum")),
    ("cert-manager/acmesolver/main.go", include_str!("../go/cert-manager/acmesolver/main.go")),
    ("cert-manager/controller/main.go", include_str!("../go/cert-manager/controller/main.go")),
    ("gateway-api/conformance_test.go", include_str!("../go/gateway-api/conformance_test.go")),
    ("streams/main.go", include_str!("../go/streams/main.go")),
];

/// A set of programs that are built together and have one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// kube-apiserver, kube-controller-manager, kube-scheduler, kubectl.
    Kubernetes,
    /// etcd.
    Etcd,
    /// The node's side of `kubectl port-forward` and `kubectl exec`.
    Streams,
    /// The echo server of Gateway API's conformance suite.
    EchoBasic,
    /// Gateway API's conformance suite, and the CRDs of its version.
    Conformance,
    /// Helm.
    Helm,
    /// k6.
    K6,
    /// cert-manager's controllers for ACME, its solver and its CRDs, and Pebble, an ACME server for
    /// tests.
    CertManager,
    /// Prometheus, and its tool promtool, which evaluates the alerts of the chart.
    Prometheus,
}

/// The build of a unit.
struct Recipe {
    name: &'static str,
    version: &'static str,
    /// File names in the cache with the Go package of each. A name that ends in `.test` is the
    /// package's test.
    programs: &'static [(&'static str, &'static str)],
    stamps: &'static [(&'static str, &'static str)],
    /// Build tags, separated by commas. The flags of Go's environment do not apply.
    tags: &'static str,
    /// A folder of a module to copy beside the programs, under its own name.
    folder: Option<(&'static str, &'static str)>,
}

impl Unit {
    /// Every unit.
    pub const ALL: [Self; 9] = [
        Self::Kubernetes,
        Self::Etcd,
        Self::Streams,
        Self::EchoBasic,
        Self::Conformance,
        Self::Helm,
        Self::K6,
        Self::CertManager,
        Self::Prometheus,
    ];
    /// The units that `up` needs.
    pub const CONTROL_PLANE: [Self; 3] = [Self::Etcd, Self::Kubernetes, Self::Streams];

    /// Returns the unit called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.recipe().name == name)
    }

    /// Returns the unit's name.
    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    /// Returns the pinned version.
    pub fn version(self) -> &'static str {
        self.recipe().version
    }

    /// Returns the folder of the unit's programs, built or not.
    pub fn folder(self) -> PathBuf {
        cache().join(format!("{}-{}", self.name(), self.version()))
    }

    /// Returns whether the unit is built.
    pub fn is_built(self) -> bool {
        let (folder, recipe) = (self.folder(), self.recipe());
        let copied =
            |(_, path): (_, &str)| Path::new(path).file_name().is_some_and(|name| folder.join(name).is_dir());
        recipe.programs.iter().all(|(file, _)| folder.join(file).is_file())
            && recipe.folder.is_none_or(copied)
    }

    /// Builds the unit unless it is in the cache.
    ///
    /// # Errors
    /// Returns an error if Go is missing or the build fails; the compiler's output goes to standard
    /// error.
    pub fn build(self) -> Result<()> {
        if self.is_built() {
            return Ok(());
        }
        let (recipe, folder) = (self.recipe(), self.folder());
        let beside = |ending| cache().join(format!("{}-{}.{ending}", recipe.name, recipe.version));
        fs::create_dir_all(cache())
            .with_context(|| format!("cannot make the folder {}", cache().display()))?;
        let lock = File::create(beside("lock"))?;
        lock.lock()?;
        if self.is_built() {
            return Ok(());
        }
        if Command::new("go").arg("version").output().is_err() {
            bail!(GO_MISSING);
        }
        eprintln!("building {} {} into {} (once)", recipe.name, recipe.version, folder.display());
        let (module, part) = (beside("module"), beside("part"));
        for dir in [&module, &part] {
            if dir.exists() {
                fs::remove_dir_all(dir)?;
            }
            fs::create_dir_all(dir)?;
        }
        for (file, text) in MODULE {
            let path = module.join(file);
            fs::create_dir_all(path.parent().unwrap_or(&module))?;
            fs::write(path, text)?;
        }
        recipe.run(&module, &part)?;
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::rename(&part, &folder)?;
        fs::remove_dir_all(&module)?;
        Ok(())
    }

    fn recipe(self) -> Recipe {
        let plain = Recipe { name: "", version: "", programs: &[], stamps: &[], tags: "", folder: None };
        match self {
            Self::Kubernetes => Recipe {
                name: "kubernetes",
                version: "v1.36.3",
                programs: &[
                    ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
                    ("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
                    ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
                    ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
                ],
                stamps: &[
                    ("k8s.io/component-base/version.gitVersion", "v1.36.3"),
                    ("k8s.io/component-base/version.gitMajor", "1"),
                    ("k8s.io/component-base/version.gitMinor", "36"),
                    ("k8s.io/component-base/version.gitTreeState", "clean"),
                ],
                ..plain
            },
            Self::Etcd => Recipe {
                name: "etcd",
                version: "v3.6.16",
                programs: &[("etcd", "go.etcd.io/etcd/server/v3")],
                ..plain
            },
            Self::Streams => {
                Recipe { name: "streams", version: "v0.36.3", programs: &[("streams", "./streams")], ..plain }
            }
            Self::EchoBasic => Recipe {
                name: "echo-basic",
                version: "v1.6.1",
                programs: &[("echo-basic", "sigs.k8s.io/gateway-api/conformance/echo-basic")],
                ..plain
            },
            Self::Conformance => Recipe {
                name: "conformance",
                version: "v1.6.1",
                programs: &[("conformance.test", "./gateway-api")],
                folder: Some(("sigs.k8s.io/gateway-api", "config/crd/standard")),
                ..plain
            },
            Self::Helm => Recipe {
                name: "helm",
                version: "v4.3.1",
                programs: &[("helm", "helm.sh/helm/v4/cmd/helm")],
                stamps: &[("helm.sh/helm/v4/internal/version.version", "v4.3.1")],
                ..plain
            },
            Self::K6 => Recipe { name: "k6", version: "v1.8.1", programs: &[("k6", "go.k6.io/k6")], ..plain },
            Self::CertManager => Recipe {
                name: "cert-manager",
                version: "v1.21.2",
                programs: &[
                    ("controller", "./cert-manager/controller"),
                    ("acmesolver", "./cert-manager/acmesolver"),
                    ("pebble", "github.com/letsencrypt/pebble/v2/cmd/pebble"),
                ],
                folder: Some(("github.com/cert-manager/cert-manager", "deploy/crds")),
                ..plain
            },
            Self::Prometheus => Recipe {
                name: "prometheus",
                version: "v0.316.0",
                programs: &[
                    ("prometheus", "github.com/prometheus/prometheus/cmd/prometheus"),
                    ("promtool", "github.com/prometheus/prometheus/cmd/promtool"),
                ],
                // Tests need no service discovery, whose clients are most of the build.
                tags: "remove_all_sd",
                ..plain
            },
        }
    }
}

impl Recipe {
    /// Runs Go in the folder `module`. The programs go to the folder `out`.
    fn run(&self, module: &Path, out: &Path) -> Result<()> {
        let mut flags = String::from("-s -w");
        for (variable, value) in self.stamps {
            flags += &format!(" -X {variable}={value}");
        }
        let mut go = Command::new("go");
        // Without cgo, programs are static, need no C compiler, and run in any Pod.
        go.current_dir(module).env("CGO_ENABLED", "0").env("GOFLAGS", format!("-tags={}", self.tags));
        match self.programs {
            [(file, package)] if file.ends_with(".test") => go
                .args(["test", "-c", "-trimpath", "-ldflags", &flags, "-o"])
                .arg(out.join(file))
                .arg(package),
            [(file, package)] => {
                go.args(["build", "-trimpath", "-ldflags", &flags, "-o"]).arg(out.join(file)).arg(package)
            }
            // Building several packages at once shares work. Go names each program after its
            // package's last element.
            several => go
                .args(["build", "-trimpath", "-ldflags", &flags, "-o"])
                .arg(format!("{}/", out.display()))
                .args(several.iter().map(|(_, package)| package)),
        };
        let status = go.status().context(GO_MISSING)?;
        if !status.success() {
            bail!("building {} {} with Go failed ({status}): see above", self.name, self.version);
        }
        self.folder.map_or(Ok(()), |(of, path)| copy_folder(module, of, path, out))
    }
}

/// Copies the files in a folder of the Go module `of`, which the build has downloaded.
fn copy_folder(module: &Path, of: &str, path: &str, out: &Path) -> Result<()> {
    let mut go = Command::new("go");
    go.current_dir(module).env_remove("GOFLAGS").args(["list", "-m", "-f", "{{.Dir}}", of]);
    let output = go.output().context(GO_MISSING)?;
    let folder = Path::new(String::from_utf8_lossy(&output.stdout).trim()).join(path);
    let copy = out.join(folder.file_name().unwrap_or_default());
    fs::create_dir_all(&copy)?;
    let entries = fs::read_dir(&folder).with_context(|| format!("{of} has no folder {path}"))?;
    for entry in entries {
        let file = entry?.path();
        let text = fs::read(&file).with_context(|| file.display().to_string())?;
        fs::write(copy.join(file.file_name().unwrap_or_default()), text)?;
    }
    Ok(())
}

/// Returns the path of a program that the lab runs.
///
/// # Errors
/// Returns an error if it is not built; the message states how to build it.
pub fn find(unit: Unit, program: &str) -> Result<PathBuf> {
    let path = unit.folder().join(program);
    if !path.is_file() {
        bail!("{program} is not built: run `sluice-lab build {}`", unit.name());
    }
    Ok(path)
}

/// Returns the `PATH` of this process, preceded by the folders of programs built for labs.
pub fn search_path() -> OsString {
    let built = Unit::ALL.into_iter().filter(|unit| unit.is_built()).map(Unit::folder);
    let inherited = env::var_os("PATH").unwrap_or_default();
    env::join_paths(built.chain(env::split_paths(&inherited))).unwrap_or(inherited)
}

/// Returns the cache folder: `$SLUICE_LAB_CACHE`, else `sluice-lab` in the user's cache folder.
pub fn cache() -> PathBuf {
    if let Some(cache) = env::var_os("SLUICE_LAB_CACHE") {
        return cache.into();
    }
    let caches = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/root".into())).join(".cache");
    caches.unwrap_or_else(home).join("sluice-lab")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn the_versions_are_those_of_the_go_module() {
        for (unit, module) in [
            (Unit::Kubernetes, "k8s.io/kubernetes"),
            (Unit::Etcd, "go.etcd.io/etcd/server/v3"),
            (Unit::Streams, "k8s.io/cri-streaming"),
            (Unit::EchoBasic, "sigs.k8s.io/gateway-api/conformance"),
            (Unit::Conformance, "sigs.k8s.io/gateway-api"),
            (Unit::Helm, "helm.sh/helm/v4"),
            (Unit::K6, "go.k6.io/k6"),
            (Unit::CertManager, "github.com/cert-manager/cert-manager"),
            (Unit::Prometheus, "github.com/prometheus/prometheus"),
        ] {
            let recipe = unit.recipe();
            let line = format!("{module} {}", recipe.version);
            assert!(MODULE[0].1.contains(&line), "{}: go.mod does not require {line}", recipe.name);
            assert_eq!(Unit::named(recipe.name), Some(unit));
        }
    }

    /// So Go compiles what the agent of the firewall and the programs of the lab share once.
    #[test]
    fn the_firewalls_agent_has_the_versions_of_the_lab() {
        let agent = include_str!("../../waf-agent/go.mod");
        let of =
            |text: &'static str| text.lines().filter_map(|line| line.strip_prefix('\t')?.split_once(' '));
        let lab: HashMap<&str, &str> = of(MODULE[0].1).collect();
        let version = |text: &'static str| text.split_whitespace().next();
        let mut shared = 0;
        for (module, required) in of(agent) {
            let Some(other) = lab.get(module) else { continue };
            assert_eq!(version(required), version(other), "{module}");
            shared += 1;
        }
        assert!(shared > 3, "{shared}");
    }

    #[test]
    fn every_staging_module_follows_kubernetes() {
        let version = Unit::Kubernetes.version().replacen("v1.", "v0.", 1);
        let replaced: Vec<&str> = MODULE[0].1.lines().filter(|line| line.contains(" => ")).collect();
        assert_eq!(replaced.len(), 33);
        assert!(replaced.iter().all(|line| line.ends_with(&version)), "{replaced:?}");
    }
}
