//! Access to a Kubernetes API: the kubeconfig, address or ServiceAccount that the flags select.

use std::path::{Path, PathBuf};

use kube::Config;
use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Path of the token of a Pod's ServiceAccount.
const TOKEN: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Environment variable that is set in every Pod.
const HOST: &str = "KUBERNETES_SERVICE_HOST";

/// The API server and the credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAccess {
    /// `--kubeconfig`, with its current context.
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// `--apiserver-host`, which overrides the file's address.
        server: Option<String>,
    },
    /// `--apiserver-host` alone, without credentials.
    Server {
        /// Its URL.
        url: String,
        /// `--certificate-authority`; the system's certificates if absent.
        authority: Option<PathBuf>,
    },
    /// The ServiceAccount of this Pod.
    InCluster,
}

/// Why the API cannot be accessed.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// No flag selects a cluster.
    #[error(
        "there is nothing to serve: name a folder of manifests with --manifests DIR or a cluster with \
         --kubeconfig FILE, or run in a Pod with a ServiceAccount ({0})"
    )]
    Nothing(String),
    /// The kubeconfig is invalid.
    #[error("cannot use the kubeconfig {}: {reason}; --kubeconfig names a file as kubectl uses it", .file.display())]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// The error.
        reason: Box<KubeconfigError>,
    },
    /// `--apiserver-host` is not a URL.
    #[error("--apiserver-host {url:?} is not a URL ({reason}); write it like https://10.0.0.1:6443")]
    Url {
        /// The value.
        url: String,
        /// The error.
        reason: String,
    },
    /// `--certificate-authority` is invalid.
    #[error("cannot use --certificate-authority {}: {reason}; it names certificates in PEM", .file.display())]
    Authority {
        /// The file.
        file: PathBuf,
        /// The error.
        reason: String,
    },
    /// The ServiceAccount cannot be used.
    #[error("cannot use the Pod's ServiceAccount: {0}; set automountServiceAccountToken to true")]
    ServiceAccount(#[from] InClusterError),
    /// No client can be created from the configuration.
    #[error(
        "cannot make a client for the Kubernetes API: {0}; check the credentials and certificates it names"
    )]
    Client(#[source] Box<kube::Error>),
    /// The kubeconfig requires a proxy.
    #[error(
        "the kubeconfig names proxy-url {0}, and proxies in front of the Kubernetes API are not supported; name the \
         API server itself"
    )]
    Proxy(String),
    /// No thread can be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl ApiAccess {
    /// Selects the access from the flags. In a Pod none is needed.
    ///
    /// # Errors
    /// No cluster is selected; the message states what is missing.
    pub fn choose(
        kubeconfig: Option<&Path>,
        server: Option<&str>,
        authority: Option<&Path>,
    ) -> Result<Self, AccessError> {
        if let Some(file) = kubeconfig {
            return Ok(Self::Kubeconfig { file: file.to_owned(), server: server.map(str::to_owned) });
        }
        if let Some(url) = server {
            return Ok(Self::Server { url: url.to_owned(), authority: authority.map(Path::to_owned) });
        }
        if std::env::var_os(HOST).is_none_or(|host| host.is_empty()) {
            return Err(AccessError::Nothing(format!("{HOST} is not set, so this is not a Pod")));
        }
        if !Path::new(TOKEN).exists() {
            return Err(AccessError::Nothing(format!(
                "there is no {TOKEN}: set automountServiceAccountToken to true"
            )));
        }
        Ok(Self::InCluster)
    }

    /// Reads the configuration.
    pub(crate) async fn config(&self) -> Result<Config, AccessError> {
        let config = match self {
            Self::Kubeconfig { file, server } => {
                let refused =
                    |reason| AccessError::Kubeconfig { file: file.clone(), reason: Box::new(reason) };
                let read = Kubeconfig::read_from(file).map_err(refused)?;
                let options = KubeConfigOptions::default();
                let mut config = Config::from_custom_kubeconfig(read, &options).await.map_err(refused)?;
                if let Some(server) = server {
                    config.cluster_url = url(server)?;
                }
                config
            }
            Self::Server { url: server, authority } => {
                let mut config = Config::new(url(server)?);
                if let Some(file) = authority {
                    config.root_cert = Some(certificates(file)?);
                }
                config
            }
            Self::InCluster => Config::incluster_env()?,
        };
        match &config.proxy_url {
            Some(proxy) => Err(AccessError::Proxy(proxy.to_string())),
            None => Ok(config),
        }
    }
}

fn url(text: &str) -> Result<http::Uri, AccessError> {
    let bad = |reason: String| AccessError::Url { url: text.to_owned(), reason };
    let url: http::Uri = text.parse().map_err(|error: http::uri::InvalidUri| bad(error.to_string()))?;
    match url.scheme_str() {
        Some("http" | "https") => Ok(url),
        _ => Err(bad("it begins with neither https:// nor http://".into())),
    }
}

fn certificates(file: &Path) -> Result<Vec<Vec<u8>>, AccessError> {
    use rustls_pki_types::CertificateDer;
    use rustls_pki_types::pem::PemObject;
    let bad = |reason: String| AccessError::Authority { file: file.to_owned(), reason };
    let read = CertificateDer::pem_file_iter(file).map_err(|error| bad(error.to_string()))?;
    let all: Vec<Vec<u8>> = read
        .map(|one| one.map(|one| one.to_vec()))
        .collect::<Result<_, _>>()
        .map_err(|error| bad(error.to_string()))?;
    if all.is_empty() { Err(bad("it has none".into())) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubeconfig_comes_before_an_address_and_both_before_the_pod() {
        let file = Path::new("/etc/kubeconfig");
        let host = Some("https://10.0.0.1:6443");
        assert_eq!(
            ApiAccess::choose(Some(file), host, None).unwrap(),
            ApiAccess::Kubeconfig { file: file.into(), server: host.map(str::to_owned) }
        );
        assert!(matches!(ApiAccess::choose(None, host, None).unwrap(), ApiAccess::Server { .. }));
    }

    #[tokio::test]
    async fn invalid_access_is_reported_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none");
        let error = ApiAccess::Kubeconfig { file: missing.clone(), server: None }.config().await.unwrap_err();
        assert!(error.to_string().contains("--kubeconfig names a file"), "{error}");
        for bad in ["10.0.0.1:6443", "ftp://x", "https://a b"] {
            let error = ApiAccess::Server { url: bad.into(), authority: None }.config().await.unwrap_err();
            assert!(error.to_string().contains("write it like https://"), "{error}");
        }
        std::fs::write(&missing, "no certificate").unwrap();
        let access = ApiAccess::Server { url: "https://a".into(), authority: Some(missing) };
        let error = access.config().await.unwrap_err();
        assert!(error.to_string().contains("it has none"), "{error}");
    }
}
