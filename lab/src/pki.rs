//! Certificates, the signing key of ServiceAccount tokens, and kubeconfigs for all clients of the
//! API. Created at every `up` and removed with the lab.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use crate::addresses::{API_PORT, FIRST_SERVICE, GATEWAY, NodeIndex};
use crate::layout::{LabSettings, Layout};

/// The subject of a certificate.
struct Subject<'a> {
    common_name: &'a str,
    organization: Option<&'a str>,
    names: Vec<String>,
}

/// Writes all identities that `up` needs: `pki/` and `kubeconfig/` of the lab's folder.
pub fn create(layout: &Layout, settings: &LabSettings) -> Result<()> {
    let ca = authority()?;
    write(&layout.pki("ca.crt"), &ca.pem())?;

    let server = Subject {
        common_name: "kube-apiserver",
        organization: None,
        names: [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
            "127.0.0.1",
        ]
        .into_iter()
        .map(str::to_owned)
        .chain([GATEWAY.to_string(), FIRST_SERVICE.to_string()])
        .collect(),
    };
    issue(layout, &ca, "apiserver", &server)?;

    let mut people = vec![
        ("admin".to_owned(), "kubernetes-admin".to_owned(), Some("system:masters")),
        ("scheduler".to_owned(), "system:kube-scheduler".to_owned(), None),
        ("kubelet-client".to_owned(), "kube-apiserver-kubelet-client".to_owned(), Some("system:masters")),
    ];
    people.extend(
        NodeIndex::first(settings.nodes)
            .map(|node| (node.name(), format!("system:node:{}", node.name()), Some("system:nodes"))),
    );
    for (who, common_name, organization) in people {
        let names = NodeIndex::named(&who).map(|node| vec![node.address().to_string(), node.name()]);
        let subject = Subject { common_name: &common_name, organization, names: names.unwrap_or_default() };
        issue(layout, &ca, &who, &subject)?;
        kubeconfig(layout, &who)?;
    }

    let tokens = KeyPair::generate()?;
    write(&layout.pki("tokens.key"), &tokens.serialize_pem())?;
    write(&layout.pki("tokens.pub"), &tokens.public_key_pem())
}

fn kubeconfig(layout: &Layout, who: &str) -> Result<()> {
    let file = |name: String| layout.pki(&name).display().to_string();
    let text = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "clusters": [{"name": "lab", "cluster": {
            "server": format!("https://{GATEWAY}:{API_PORT}"), "certificate-authority": file("ca.crt".into()),
        }}],
        "users": [{"name": who, "user": {
            "client-certificate": file(format!("{who}.crt")), "client-key": file(format!("{who}.key")),
        }}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": who}}],
    });
    write(&layout.kubeconfig(who), &text.to_string())
}

fn authority() -> Result<CertifiedIssuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "sluice-lab");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn issue(
    layout: &Layout,
    ca: &CertifiedIssuer<'static, KeyPair>,
    file: &str,
    subject: &Subject<'_>,
) -> Result<()> {
    let mut params = CertificateParams::new(subject.names.clone())?;
    params.distinguished_name.push(DnType::CommonName, subject.common_name);
    if let Some(organization) = subject.organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, ca)?;
    write(&layout.pki(&format!("{file}.crt")), &certificate.pem())?;
    write(&layout.pki(&format!("{file}.key")), &key.serialize_pem())
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::set_permissions(path, fs::Permissions::from_mode(0o600))?)
}
