//! The OCSP responder of a certificate, and the request to it (RFC 6960).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use http::Uri;
use http::uri::Scheme;
use rustls_pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::asn1::{AnyRef, ObjectIdentifier, OctetString};
use x509_cert::der::{self, Decode, Encode};
use x509_cert::ext::pkix::AuthorityInfoAccessSyntax;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{CertId, OcspRequest, Request, TbsRequest};

/// `id-ad-ocsp` (RFC 5280 §4.2.2.1).
const OCSP: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1");
/// SHA-1, which identifies certificates here and protects nothing. Every responder supports it.
const SHA_1: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.14.3.2.26");

/// A responder, and the certificate that it is asked about.
#[derive(Debug)]
pub(super) struct Responder {
    /// An `http` URL.
    pub(super) url: Uri,
    /// The issuer of the certificate, in DER.
    pub(super) issuer: CertificateDer<'static>,
    /// Key of the issuer, in DER.
    pub(super) issuer_key: Vec<u8>,
    id: CertId,
}

impl Responder {
    /// Returns the responder that the first certificate of a chain names. `None` if it names none
    /// with an `http` URL, or the chain lacks its issuer.
    pub(super) fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let [own, issuer, ..] = chain else { return None };
        Self::read(own, issuer).ok().flatten()
    }

    fn read(own: &CertificateDer<'_>, issuer_der: &CertificateDer<'_>) -> der::Result<Option<Self>> {
        let own = Certificate::from_der(own)?.tbs_certificate;
        let issuer = Certificate::from_der(issuer_der)?.tbs_certificate;
        let Some((_, access)) = own.get::<AuthorityInfoAccessSyntax>()? else { return Ok(None) };
        let urls =
            access.0.iter().filter(|access| access.access_method == OCSP).filter_map(|access| match &access
                .access_location
            {
                GeneralName::UniformResourceIdentifier(uri) => uri.as_str().parse::<Uri>().ok(),
                _ => None,
            });
        let url = urls.into_iter().find(|url| url.scheme() == Some(&Scheme::HTTP) && url.host().is_some());
        let Some(url) = url.filter(|_| own.issuer == issuer.subject) else { return Ok(None) };
        let hash = |bytes: &[u8]| OctetString::new(digest(&SHA1_FOR_LEGACY_USE_ONLY, bytes).as_ref());
        let key = &issuer.subject_public_key_info;
        Ok(Some(Self {
            url,
            issuer: issuer_der.clone().into_owned(),
            issuer_key: key.to_der()?,
            id: CertId {
                hash_algorithm: AlgorithmIdentifierOwned {
                    oid: SHA_1,
                    parameters: Some(AnyRef::NULL.into()),
                },
                issuer_name_hash: hash(&issuer.subject.to_der()?)?,
                issuer_key_hash: hash(key.subject_public_key.raw_bytes())?,
                serial_number: own.serial_number,
            },
        }))
    }

    /// Returns the request in DER. It has no nonce: responders may answer with a response that they
    /// have signed before (RFC 5019).
    pub(super) fn request(&self) -> der::Result<Vec<u8>> {
        let request = Request { req_cert: self.id.clone(), single_request_extensions: None };
        let tbs_request = TbsRequest { request_list: vec![request], ..TbsRequest::default() };
        OcspRequest { tbs_request, optional_signature: None }.to_der()
    }

    /// Returns whether a response with this identifier is about the certificate.
    pub(super) fn is_about(&self, id: &CertId) -> bool {
        // Parameters of the algorithm may be left out.
        id.hash_algorithm.oid == self.id.hash_algorithm.oid
            && id.issuer_name_hash == self.id.issuer_name_hash
            && id.issuer_key_hash == self.id.issuer_key_hash
            && id.serial_number == self.id.serial_number
    }
}
