//! The identity of a cluster, determined without access rights and without a response of the API:
//! the address of the API server and its certificate authority. Inside of clusters the address is
//! usually the same; each cluster has an authority of its own.

use std::fmt;

use kube::Config;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use serde::{Deserialize, Serialize};

/// A cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    /// URL of the API server.
    pub server: String,
    /// SHA-256 of the authority's certificates in hexadecimal; `None` for the system's
    /// certificates.
    pub authority: Option<String>,
}

impl Cluster {
    /// Returns the cluster that this configuration refers to.
    pub(super) fn of(config: &Config) -> Self {
        let authority = config.root_cert.as_ref().map(|certificates| sha256(&certificates.concat()));
        Self { server: config.cluster_url.to_string(), authority }
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority =
            self.authority.as_deref().map_or("the system's", |hash| hash.get(..16).unwrap_or(hash));
        write!(f, "{} with certificate authority {authority}", self.server)
    }
}

fn sha256(bytes: &[u8]) -> String {
    // A cipher suite of TLS 1.3 includes its hash function.
    let hash = TLS13_AES_128_GCM_SHA256.tls13().map(|suite| suite.common.hash_provider.hash(bytes));
    let hash = hash.expect("it is a suite of TLS 1.3");
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_its_server_and_its_authority() {
        let mut config = Config::new("https://10.96.0.1:443".parse().unwrap());
        let plain = Cluster::of(&config);
        assert_eq!((plain.server.as_str(), &plain.authority), ("https://10.96.0.1:443/", &None));
        config.root_cert = Some(vec![b"ab".to_vec(), b"c".to_vec()]);
        let signed = Cluster::of(&config);
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(signed.authority.as_deref(), Some(abc));
        assert!(signed.to_string().ends_with("authority ba7816bf8f01cfea"), "{signed}");
    }
}
