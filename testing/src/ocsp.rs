//! OCSP responses as a responder signs them (RFC 6960), and a responder on loopback.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{KeyPair, SigningKey};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use x509_cert::Certificate;
use x509_cert::der::asn1::{BitString, GeneralizedTime, Null, ObjectIdentifier, OctetString};
use x509_cert::der::{DateTime, Decode, Encode};
use x509_cert::spki::AlgorithmIdentifierOwned;
use x509_ocsp::{
    BasicOcspResponse, CertId, CertStatus, OcspGeneralizedTime, OcspRequest, OcspResponse,
    OcspResponseStatus, ResponderId, ResponseBytes, ResponseData, RevokedInfo, SingleResponse, Version,
};

use crate::backend::{Backend, Reply};

/// `id-pkix-ocsp-basic` (RFC 6960 §4.2.1).
const BASIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");
/// `ecdsa-with-SHA256` (RFC 5758 §3.2).
const ECDSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.4.3.2");

/// What a response states about a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Statement {
    /// Whether it is revoked.
    pub revoked: bool,
    /// Begin of the validity of the response.
    pub since: SystemTime,
    /// Its end; `None` for a response without one.
    pub until: Option<SystemTime>,
}

impl Statement {
    /// States that the certificate is good, from now on.
    pub fn good(lifetime: Duration) -> Self {
        let now = SystemTime::now();
        Self { revoked: false, since: now, until: Some(now + lifetime) }
    }
}

/// The signer of responses.
pub struct Signer {
    key: KeyPair,
    name: CertificateDer<'static>,
    /// Whether responses contain the certificate of the signer.
    is_delegate: bool,
}

impl Signer {
    pub(crate) fn new(key: Vec<u8>, certificate: CertificateDer<'static>, is_delegate: bool) -> Self {
        let key = PrivateKeyDer::try_from(key).unwrap();
        Self { key: KeyPair::try_from(&key).unwrap(), name: certificate, is_delegate }
    }

    /// Returns the response to a request in DER.
    ///
    /// # Panics
    /// The request is malformed.
    pub fn respond(&self, request: &[u8], statement: Statement) -> Vec<u8> {
        let request = OcspRequest::from_der(request).unwrap();
        self.respond_about(request.tbs_request.request_list[0].req_cert.clone(), statement)
    }

    fn respond_about(&self, cert_id: CertId, statement: Statement) -> Vec<u8> {
        let own = Certificate::from_der(&self.name).unwrap();
        let revoked = RevokedInfo { revocation_time: time(statement.since), revocation_reason: None };
        let tbs_response_data = ResponseData {
            version: Version::default(),
            responder_id: ResponderId::ByName(own.tbs_certificate.subject.clone()),
            produced_at: time(statement.since),
            responses: vec![SingleResponse {
                cert_id,
                cert_status: match statement.revoked {
                    true => CertStatus::Revoked(revoked),
                    false => CertStatus::Good(Null),
                },
                this_update: time(statement.since),
                next_update: statement.until.map(time),
                single_extensions: None,
            }],
            response_extensions: None,
        };
        let signature = self.key.sign(&tbs_response_data.to_der().unwrap()).unwrap();
        let basic = BasicOcspResponse {
            tbs_response_data,
            signature_algorithm: AlgorithmIdentifierOwned { oid: ECDSA, parameters: None },
            signature: BitString::from_bytes(&signature).unwrap(),
            certs: self.is_delegate.then(|| vec![own]),
        };
        let response = OctetString::new(basic.to_der().unwrap()).unwrap();
        let response = OcspResponse {
            response_status: OcspResponseStatus::Successful,
            response_bytes: Some(ResponseBytes { response_type: BASIC, response }),
        };
        response.to_der().unwrap()
    }
}

fn time(time: SystemTime) -> OcspGeneralizedTime {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    let time = DateTime::from_unix_duration(Duration::from_secs(since.as_secs())).unwrap();
    OcspGeneralizedTime(GeneralizedTime::from_date_time(time))
}

/// A responder on loopback.
pub struct OcspResponder {
    backend: Backend,
    answer: Arc<Mutex<Answer>>,
}

type Answer = Box<dyn Fn(&[u8]) -> Option<Vec<u8>> + Send>;

impl OcspResponder {
    /// Starts a responder that answers 503 until [`set`](Self::set) is called.
    pub fn start() -> Self {
        let answer: Arc<Mutex<Answer>> = Arc::new(Mutex::new(Box::new(|_| None)));
        let current = answer.clone();
        let backend = Backend::with("ocsp", move |request| match current.lock().unwrap()(&request.body) {
            Some(body) => Reply::Raw(
                [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(), &body]
                    .concat(),
            ),
            None => Reply::status(503),
        });
        Self { backend, answer }
    }

    /// Sets the response to the requests from now on; `None` answers 503.
    ///
    /// # Panics
    /// An answer has panicked.
    pub fn set(&self, answer: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + 'static) {
        *self.answer.lock().unwrap() = Box::new(answer);
    }

    /// Returns the address for a certificate.
    pub fn url(&self) -> String {
        format!("http://{}/ocsp", self.address())
    }

    /// Returns its socket address.
    pub fn address(&self) -> SocketAddr {
        self.backend.address
    }

    /// Returns the number of requests so far.
    pub fn requests(&self) -> usize {
        self.backend.requests()
    }
}
