//! Verification of endpoint certificates: `proxy-ssl-verify`.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, VerifiedPath};

use crate::tls::provider;

/// Accepts certificates for the expected name whose chain ends at one of the authorities. Uses
/// webpki directly, because the verifier of rustls cannot limit the length of a chain.
#[derive(Debug)]
pub(super) struct Verifier {
    anchors: Arc<[TrustAnchor<'static>]>,
    /// Maximum number of intermediate certificates.
    depth: u32,
}

impl Verifier {
    pub(super) fn new(anchors: Arc<[TrustAnchor<'static>]>, depth: u32) -> Self {
        Self { anchors, depth }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let certificate = EndEntityCert::try_from(end_entity).map_err(refused)?;
        let is_short = |path: &VerifiedPath<'_>| {
            let count = path.intermediate_certificates().count();
            match u32::try_from(count).is_ok_and(|count| count <= self.depth) {
                true => Ok(()),
                false => Err(webpki::Error::MaximumPathDepthExceeded),
            }
        };
        certificate
            .verify_for_usage(
                provider().signature_verification_algorithms.all,
                &self.anchors,
                intermediates,
                now,
                KeyUsage::server_auth(),
                None,
                Some(&is_short),
            )
            .map_err(refused)?;
        certificate.verify_is_valid_for_subject_name(server_name).map_err(refused)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &provider().signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

fn refused(error: webpki::Error) -> rustls::Error {
    rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(error))))
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    use super::*;

    struct Chain {
        root: CertificateDer<'static>,
        intermediates: Vec<CertificateDer<'static>>,
        end_entity: CertificateDer<'static>,
    }

    /// Returns a certificate for `shop.example` with `between` intermediates below its authority.
    fn chain(between: usize) -> Chain {
        let authority = |name: &str| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name.push(rcgen::DnType::CommonName, name);
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            params
        };
        let key = KeyPair::generate().unwrap();
        let params = authority("root");
        let root = params.self_signed(&key).unwrap().der().clone();
        let mut issuer = Issuer::new(params, key);
        let mut intermediates = Vec::new();
        for number in 0..between {
            let key = KeyPair::generate().unwrap();
            let params = authority(&format!("intermediate {number}"));
            intermediates.push(params.signed_by(&key, &issuer).unwrap().der().clone());
            issuer = Issuer::new(params, key);
        }
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["shop.example".to_owned()]).unwrap();
        Chain { root, intermediates, end_entity: params.signed_by(&key, &issuer).unwrap().der().clone() }
    }

    fn verify(chain: &Chain, root: &CertificateDer<'_>, depth: u32, name: &str) -> Result<(), String> {
        let anchor = webpki::anchor_from_trusted_cert(root).unwrap().to_owned();
        let verifier = Verifier::new([anchor].into(), depth);
        let name = ServerName::try_from(name.to_owned()).unwrap();
        verifier
            .verify_server_cert(&chain.end_entity, &chain.intermediates, &name, &[], UnixTime::now())
            .map(drop)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_certificate_is_of_the_authority_and_for_the_name() {
        let (own, other) = (chain(1), chain(0));
        assert_eq!(verify(&own, &own.root, 1, "shop.example"), Ok(()));
        assert!(verify(&own, &own.root, 1, "other.example").is_err());
        assert!(verify(&own, &other.root, 1, "shop.example").is_err());
        let nobody = Verifier::new([].into(), 9);
        let name = ServerName::try_from("shop.example").unwrap();
        let now = UnixTime::now();
        assert!(nobody.verify_server_cert(&own.end_entity, &own.intermediates, &name, &[], now).is_err());
    }

    #[test]
    fn a_chain_is_no_longer_than_it_may_be() {
        for (between, depth, good) in [(0, 0, true), (1, 0, false), (1, 1, true), (2, 1, false), (2, 2, true)]
        {
            let chain = chain(between);
            assert_eq!(verify(&chain, &chain.root, depth, "shop.example").is_ok(), good, "{between} {depth}");
        }
    }
}
