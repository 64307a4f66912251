//! Authorities and revocation lists for client certificates: `auth-tls-secret`.

use rustls_pki_types::CertificateRevocationListDer;
use rustls_pki_types::pem::PemObject;
use sluice_config::ClientAuthorities;

use super::{Bad, authorities};
use crate::store::Secret;

/// The key of the Secret with revocation lists.
const REVOCATIONS: &str = "ca.crl";

/// The keys of the Secret that are read, sorted.
pub(super) const FIELDS: [&str; 2] = [REVOCATIONS, authorities::KEY];

/// Parses both.
pub(super) fn read(secret: &Secret) -> Result<ClientAuthorities, Bad> {
    let authorities = authorities::read(secret)?;
    // An empty value counts as absent, as in ingress-nginx.
    let revocations = match secret.get(REVOCATIONS).filter(|text| !text.is_empty()) {
        Some(text) => revocations(text)?,
        None => Vec::new(),
    };
    Ok(ClientAuthorities { authorities, revocations })
}

fn revocations(text: &[u8]) -> Result<Vec<Vec<u8>>, Bad> {
    let remedy = "put revocation lists in PEM (X509 CRL) there, or remove the key";
    let lists: Result<Vec<Vec<u8>>, _> =
        CertificateRevocationListDer::pem_slice_iter(text).map(|one| one.map(|der| der.to_vec())).collect();
    match lists {
        Ok(lists) if !lists.is_empty() => Ok(lists),
        Ok(_) => Err(Bad { reason: format!("has no revocation list in its key {REVOCATIONS}"), remedy }),
        Err(error) => {
            Err(Bad { reason: format!("has a key {REVOCATIONS} that cannot be read: {error}"), remedy })
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::DataFields;

    fn read_of(data: &[(&str, &str)]) -> Result<ClientAuthorities, String> {
        let data = data.iter().map(|(key, value)| ((*key).into(), value.as_bytes().into())).collect();
        let secret = Secret {
            name: NamespacedName::new("n", "ca"),
            identity: Default::default(),
            fields: DataFields::All,
            data,
        };
        read(&secret).map_err(|bad| bad.reason)
    }

    #[test]
    fn a_secret_has_authorities_and_perhaps_revocation_lists() {
        let ca = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem();
        let crl = "-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n";
        assert_eq!(read_of(&[("ca.crt", &ca)]).unwrap().revocations.len(), 0);
        assert_eq!(read_of(&[("ca.crl", ""), ("ca.crt", &ca)]).unwrap().revocations.len(), 0);
        let both = read_of(&[("ca.crl", &[crl, crl].concat()), ("ca.crt", &ca)]).unwrap();
        assert_eq!((both.authorities.certificates.len(), both.revocations.len()), (1, 2));
        for (data, said) in [
            (&[("ca.crl", crl)][..], "no key ca.crt"),
            (&[("ca.crl", "nonsense"), ("ca.crt", &*ca)], "no revocation list"),
            (&[("ca.crl", "-----BEGIN X509 CRL-----\n?\n"), ("ca.crt", &ca)], "ca.crl that cannot be read"),
        ] {
            let reason = read_of(data).unwrap_err();
            assert!(reason.contains(said), "{said}: {reason}");
        }
    }
}
