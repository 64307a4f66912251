//! Signatures of X.509 structures, with the algorithms of the provider.

use rustls_pki_types::SubjectPublicKeyInfoDer;
use webpki::RawPublicKeyEntity;

use super::provider::provider;

/// Tag of DER (X.690).
const OBJECT_IDENTIFIER: u8 = 0x06;

/// RSASSA-PSS (RFC 4055 §3.1), whose parameters are not known here.
const PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];

/// Returns whether a key has made a signature. `key` is a SubjectPublicKeyInfo in DER, `algorithm`
/// the content of an object identifier.
pub(super) fn is_valid(key: &[u8], algorithm: &[u8], signed: &[u8], signature: &[u8]) -> bool {
    let key = SubjectPublicKeyInfoDer::from(key);
    let Ok(key) = RawPublicKeyEntity::try_from(&key) else { return false };
    let is_named = |id: &[u8]| match id {
        [OBJECT_IDENTIFIER, length, rest @ ..] => {
            usize::from(*length) == algorithm.len() && rest.starts_with(algorithm)
        }
        _ => false,
    };
    algorithm != PSS
        && provider()
            .signature_verification_algorithms
            .all
            .iter()
            .filter(|known| is_named(known.signature_alg_id().as_ref()))
            .any(|known| key.verify_signature(*known, signed, signature).is_ok())
}
