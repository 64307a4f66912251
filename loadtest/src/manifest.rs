//! Folders of manifests, written as operators and controllers write them: a new file renamed over the old.

use std::fmt::Write;
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tempfile::TempDir;

use crate::certificate::Certificate;

/// A temporary folder, in memory where the machine has such a file system.
#[derive(Debug)]
pub struct Folder {
    root: TempDir,
}

impl Folder {
    /// An empty one.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn new() -> anyhow::Result<Self> {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Ok(Self { root: root.context("cannot make a temporary folder")? })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.root.path()
    }

    /// Puts a file in place in one step.
    ///
    /// # Errors
    /// The file system refuses.
    pub fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let draft: PathBuf = self.path().join(format!(".{name}"));
        let file = self.path().join(name);
        fs::write(&draft, text)
            .and_then(|()| fs::rename(&draft, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

/// The IngressClass that everything here uses.
pub const CLASS: &str = "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata:\n  name: nginx\n\
                         spec:\n  controller: k8s.io/ingress-nginx\n";

/// A Service with port 80, named `http`.
pub fn service(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\n  namespace: default\nspec:\n  ports:\n  \
         - name: http\n    port: 80\n    targetPort: http\n"
    )
}

/// The EndpointSlice of a Service.
pub fn slice(service: &str, addresses: &[IpAddr], port: u16) -> String {
    let mut text = format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {service}\n  \
         namespace: default\n  labels:\n    kubernetes.io/service-name: {service}\naddressType: IPv4\n\
         ports:\n- name: http\n  port: {port}\n  protocol: TCP\nendpoints:{}\n",
        if addresses.is_empty() { " []" } else { "" }
    );
    for address in addresses {
        write!(text, "- addresses: [{address}]\n  conditions: {{ready: true}}\n")
            .expect("a String takes any text");
    }
    text
}

/// An Ingress that sends all paths of some hosts to a Service; with TLS when a Secret is named, and without a redirect
/// to it.
pub fn ingress(name: &str, hosts: &[&str], service: &str, secret: Option<&str>) -> String {
    annotated_ingress(name, &[("ssl-redirect", "false")], hosts, service, secret)
}

/// The same with annotations, named without their prefix.
pub fn annotated_ingress(
    name: &str,
    annotations: &[(&str, &str)],
    hosts: &[&str],
    service: &str,
    secret: Option<&str>,
) -> String {
    ingress_of_path(name, annotations, hosts, ("/", "Prefix"), service, secret)
}

/// The same for one path and its type.
pub fn ingress_of_path(
    name: &str,
    annotations: &[(&str, &str)],
    hosts: &[&str],
    (path, path_type): (&str, &str),
    service: &str,
    secret: Option<&str>,
) -> String {
    let mut text = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: default\n  \
         annotations:\n"
    );
    for (name, value) in annotations {
        writeln!(text, "    nginx.ingress.kubernetes.io/{name}: {value:?}").expect("a String takes any text");
    }
    text.push_str("spec:\n  ingressClassName: nginx\n");
    if let Some(secret) = secret {
        write!(text, "  tls:\n  - hosts: {hosts:?}\n    secretName: {secret}\n")
            .expect("a String takes any text");
    }
    text.push_str("  rules:\n");
    for host in hosts {
        write!(
            text,
            "  - host: {host}\n    http:\n      paths:\n      - path: {path}\n        pathType: {path_type}\n        \
             backend: {{service: {{name: {service}, port: {{number: 80}}}}}}\n"
        )
        .expect("a String takes any text");
    }
    text
}

/// A Secret of these keys.
pub fn opaque_secret(name: &str, keys: &[(&str, &str)]) -> String {
    let mut text = format!(
        "apiVersion: v1\nkind: Secret\ntype: Opaque\nmetadata:\n  name: {name}\n  namespace: default\ndata:\n"
    );
    for (key, value) in keys {
        writeln!(text, "  {key}: {}", STANDARD.encode(value)).expect("a String takes any text");
    }
    text
}

/// A TLS Secret.
pub fn secret(name: &str, certificate: &Certificate) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\ntype: kubernetes.io/tls\nmetadata:\n  name: {name}\n  namespace: default\n\
         data:\n  tls.crt: {}\n  tls.key: {}\n",
        STANDARD.encode(&certificate.pem),
        STANDARD.encode(&certificate.key_pem)
    )
}

/// The gateway's ConfigMap, `default/sluice`.
pub fn config_map(data: &[(&str, &str)]) -> String {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: sluice\n  namespace: default\ndata:\n"
            .to_owned();
    for (key, value) in data {
        writeln!(text, "  {key}: {value:?}").expect("a String takes any text");
    }
    text
}
