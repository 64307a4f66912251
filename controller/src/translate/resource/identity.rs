//! Authorities and client certificate for endpoints: `proxy-ssl-secret`.

use std::sync::Arc;

use sluice_config::{EndpointIdentity, Resource};

use super::{Bad, authorities};
use crate::store::Secret;
use crate::translate::certificate::pem;

/// The keys of the Secret that are read.
pub(super) const FIELDS: [&str; 3] = [authorities::KEY, pem::FIELDS[0], pem::FIELDS[1]];

/// Parses the Secret. With `trusts`, endpoints are verified, which requires authorities.
pub(super) fn read(secret: &Secret, trusts: bool) -> Result<EndpointIdentity, Bad> {
    let has_pair = pem::FIELDS.iter().any(|key| secret.get(key).is_some());
    let authorities = match secret.get(authorities::KEY) {
        Some(_) => authorities::read(secret)?,
        None if trusts => {
            return Err(Bad {
                reason: "has no key ca.crt, and proxy-ssl-verify is on".to_owned(),
                remedy: "put the certificates of the authorities that endpoints are verified by in PEM there",
            });
        }
        None if has_pair => Default::default(),
        None => {
            return Err(Bad {
                reason: "has neither ca.crt nor tls.crt and tls.key".to_owned(),
                remedy: "put authorities in PEM into ca.crt, or a certificate and its key into tls.crt and tls.key",
            });
        }
    };
    let certificate = has_pair.then(|| pem::read(&secret.name, secret).map(Arc::new)).transpose();
    let certificate =
        certificate.map_err(|fault| Bad { reason: fault.to_string(), remedy: fault.remedy() })?;
    Ok(EndpointIdentity { authorities, certificate })
}

/// Returns whether both contain authorities or neither, and likewise a certificate: other Ingresses
/// of a host inherit the parts that exist.
pub(super) fn have_same_parts(one: &Resource, other: &Resource) -> bool {
    let parts = |resource: &Resource| match resource {
        Resource::EndpointIdentity(identity) => {
            Some((identity.authorities.certificates.is_empty(), identity.certificate.is_some()))
        }
        _ => None,
    };
    parts(one) == parts(other)
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::DataFields;

    fn read_of(data: &[(&str, &str)], trusts: bool) -> Result<EndpointIdentity, String> {
        let data = data.iter().map(|(key, value)| ((*key).into(), value.as_bytes().into())).collect();
        let secret = Secret {
            name: NamespacedName::new("n", "upstream"),
            identity: Default::default(),
            fields: DataFields::All,
            data,
        };
        read(&secret, trusts).map_err(|bad| bad.reason)
    }

    #[test]
    fn it_has_authorities_or_a_pair_or_both() {
        let made = rcgen::generate_simple_self_signed(["gateway".to_owned()]).unwrap();
        let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
        let (ca, pair) = (("ca.crt", &*certificate), [("tls.crt", &*certificate), ("tls.key", &*key)]);
        let both = read_of(&[ca, pair[0], pair[1]], true).unwrap();
        assert_eq!((both.authorities.certificates.len(), both.certificate.is_some()), (1, true));
        assert!(read_of(&[ca], true).unwrap().certificate.is_none());
        assert!(read_of(&pair, false).unwrap().authorities.certificates.is_empty());
        for (data, trusts, said) in [
            (&[][..], false, "neither"),
            (&pair, true, "no key ca.crt"),
            (&[pair[0]], false, "no key tls.key"),
            (&[ca, ("tls.crt", "nonsense"), pair[1]], false, "tls.crt"),
            (&[("ca.crt", "nonsense")], false, "no certificate"),
        ] {
            let reason = read_of(data, trusts).unwrap_err();
            assert!(reason.contains(said), "{said}: {reason}");
        }
    }
}
