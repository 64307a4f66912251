//! Certificate authorities in PEM.

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use sluice_config::CaBundle;

use super::Bad;
use crate::store::Secret;

/// The key of the Secret with the certificates.
pub(super) const KEY: &str = "ca.crt";

/// Parses the certificates.
pub(super) fn read(secret: &Secret) -> Result<CaBundle, Bad> {
    let remedy = "put the certificates of the authorities in PEM there";
    let Some(text) = secret.get(KEY) else {
        return Err(Bad { reason: format!("has no key {KEY}"), remedy });
    };
    let certificates: Result<Vec<Vec<u8>>, _> =
        CertificateDer::pem_slice_iter(text).map(|one| one.map(|der| der.to_vec())).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(CaBundle { certificates }),
        Ok(_) => Err(Bad { reason: format!("has no certificate in its key {KEY}"), remedy }),
        Err(error) => Err(Bad { reason: format!("has a key {KEY} that cannot be read: {error}"), remedy }),
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::DataFields;

    fn read_of(data: &[(&str, &str)]) -> Result<CaBundle, Bad> {
        let data = data.iter().map(|(key, value)| ((*key).into(), value.as_bytes().into())).collect();
        read(&Secret {
            name: NamespacedName::new("n", "ca"),
            identity: Default::default(),
            fields: DataFields::All,
            data,
        })
    }

    #[test]
    fn a_bundle_has_at_least_one_certificate() {
        let pem = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem();
        assert_eq!(read_of(&[(KEY, &format!("{pem}{pem}"))]).unwrap().certificates.len(), 2);
        for (data, said) in [(&[][..], "no key ca.crt"), (&[(KEY, "nonsense")], "no certificate")] {
            assert!(read_of(data).unwrap_err().reason.contains(said), "{said}");
        }
    }
}
