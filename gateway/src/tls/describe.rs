//! The store as an operator sees it: `sluice certs`.

use std::collections::BTreeMap;

use serde::Serialize;
use sluice_config::CertificateId;

use super::table::{Served, Table};

/// One certificate in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CertificateDescription {
    /// The Secret as `namespace/name`; `None` is the self-signed fallback.
    pub secret: Option<String>,
    /// Hosts that it answers for now, sorted. Those whose own certificate is missing stand with the default.
    pub hosts: Vec<String>,
    /// DNS names in the certificate.
    pub names: Vec<String>,
    /// End of validity, Unix seconds.
    pub not_after: i64,
    /// Whether it answers for names that have no certificate of their own.
    pub default: bool,
}

pub(super) fn describe(table: &Table) -> Vec<CertificateDescription> {
    let mut hosts: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for (pattern, certificate) in table.patterns() {
        hosts.entry(certificate.map(ToString::to_string)).or_default().push(pattern);
    }
    let default = table.default.as_ref().filter(|id| table.certificates.contains_key(*id));
    let mut entry = |id: Option<&CertificateId>, served: &Served| {
        let secret = id.map(ToString::to_string);
        let mut hosts = hosts.remove(&secret).unwrap_or_default();
        hosts.sort_unstable();
        CertificateDescription {
            secret,
            hosts,
            names: served.names.iter().map(|name| name.to_string()).collect(),
            not_after: served.not_after,
            default: id == default,
        }
    };
    let mut all: Vec<_> = table.certificates.iter().map(|(id, served)| entry(Some(id), served)).collect();
    all.sort_by(|a, b| a.secret.cmp(&b.secret));
    all.push(entry(None, &table.fallback));
    all
}
