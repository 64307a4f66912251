//! Verification of endpoint certificates: `proxy-ssl-verify`.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::tls::{Authorities, handshake_signature, provider};

/// Accepts certificates for the expected name whose chain ends at one of the authorities.
#[derive(Debug)]
pub(super) struct Verifier {
    authorities: Arc<Authorities>,
    /// Maximum number of intermediate certificates.
    depth: u32,
}

impl Verifier {
    pub(super) fn new(authorities: Arc<Authorities>, depth: u32) -> Self {
        Self { authorities, depth }
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
        match self.authorities.verify_endpoint(end_entity, intermediates, server_name, self.depth, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(failure) => Err(CertificateError::Other(OtherError(Arc::new(failure))).into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake_signature::verify_1_2(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        handshake_signature::verify_1_3(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa, Issuer,
        KeyPair, NameConstraints, SanType, date_time_ymd,
    };
    use sluice_config::{CaBundle, EndpointIdentity};

    use super::*;
    use crate::tls::Identity;

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

    fn trusting(roots: &[&CertificateDer<'_>], depth: u32) -> Verifier {
        let certificates = roots.iter().map(|root| root.to_vec()).collect();
        let identity = EndpointIdentity { authorities: CaBundle { certificates }, certificate: None };
        Verifier::new(Identity::compile(&identity).unwrap().authorities, depth)
    }

    fn verify(chain: &Chain, root: &CertificateDer<'_>, depth: u32, name: &str) -> Result<(), String> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        trusting(&[root], depth)
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
        let without_authorities = trusting(&[], 9);
        let name = ServerName::try_from("shop.example").unwrap();
        let now = UnixTime::now();
        assert!(
            without_authorities
                .verify_server_cert(&own.end_entity, &own.intermediates, &name, &[], now)
                .is_err()
        );
    }

    #[test]
    fn a_chain_is_no_longer_than_it_may_be() {
        for (between, depth, good) in [(0, 0, true), (1, 0, false), (1, 1, true), (2, 1, false), (2, 2, true)]
        {
            let chain = chain(between);
            assert_eq!(verify(&chain, &chain.root, depth, "shop.example").is_ok(), good, "{between} {depth}");
        }
    }

    /// Returns the certificate of an endpoint and that of its issuer.
    fn issue(root: impl FnOnce(&mut CertificateParams), own: impl FnOnce(&mut CertificateParams)) -> Chain {
        let key = KeyPair::generate().unwrap();
        let mut issuer = CertificateParams::new(Vec::new()).unwrap();
        issuer.distinguished_name.push(DnType::CommonName, "root");
        issuer.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root(&mut issuer);
        let root = issuer.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(issuer, key);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "shop.example");
        own(&mut params);
        let end_entity = params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().clone();
        Chain { root, intermediates: Vec::new(), end_entity }
    }

    fn verify_issued(chain: &Chain) -> Result<(), String> {
        verify(chain, &chain.root, 1, "shop.example")
    }

    #[test]
    fn an_authority_that_may_not_issue_or_has_expired_vouches_for_no_endpoint() {
        let expired = issue(|root| root.not_after = date_time_ymd(2021, 1, 1), |_| ());
        assert!(verify_issued(&expired).unwrap_err().contains("Expired"));
        let pin = issue(|root| root.is_ca = IsCa::ExplicitNoCa, |_| ());
        assert!(verify_issued(&pin).unwrap_err().contains("Purpose"));
        let of_clients = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let of_clients = issue(|root| root.extended_key_usages = of_clients, |_| ());
        assert!(verify_issued(&of_clients).unwrap_err().contains("Purpose"));
    }

    #[test]
    fn the_common_name_counts_if_there_is_no_dns_name() {
        let named = |names: Vec<SanType>| issue(|_| (), |own| own.subject_alt_names = names);
        assert_eq!(verify_issued(&named(Vec::new())), Ok(()));
        assert_eq!(verify_issued(&named(vec![SanType::IpAddress([127, 0, 0, 1].into())])), Ok(()));
        let other = named(vec![SanType::DnsName("other.example".try_into().unwrap())]);
        assert!(verify_issued(&other).unwrap_err().contains("Name"));
        let alone = named(Vec::new());
        assert!(verify(&alone, &alone.root, 1, "other.example").unwrap_err().contains("Name"));
        // Constraints of an authority do not apply to common names in webpki.
        let permitted_subtrees = vec![GeneralSubtree::DnsName("example".to_owned())];
        let constraints = NameConstraints { permitted_subtrees, excluded_subtrees: Vec::new() };
        let constrained = issue(|root| root.name_constraints = Some(constraints), |_| ());
        assert!(verify_issued(&constrained).unwrap_err().contains("NameConstraint"));
    }
}
