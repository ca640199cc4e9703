//! TLS between host and plugin: each side shows a certificate that it has just made, and knows the other's.
//!
//! The host's is a self-signed authority on the curve P-521. No path is built to it: it is the very certificate
//! that the host named in the handshake, or nobody's. That its key signed the handshake is checked all the same.
use p521::ecdsa::signature::Verifier as _;
use p521::ecdsa::{Signature, VerifyingKey};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// The name that hosts ask for.
const NAME: &str = "localhost";

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    #[error("cannot set up TLS: {0}")]
    Config(#[from] rustls::Error),
    #[error("the certificate of the host has no key that can be read")]
    Key,
}

/// Takes connections of this host, with a certificate that lives as long as the process.
pub fn acceptor(
    host: CertificateDer<'static>,
) -> Result<(TlsAcceptor, CertificateDer<'static>), TlsError> {
    let own = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate = own.cert.der().clone();
    let key =
        PrivateKeyDer::try_from(own.signing_key.serialize_der()).map_err(|_| TlsError::Key)?;
    let provider = orrery_pki::crypto_provider();
    let verifier = Pinned::new(host, provider.signature_verification_algorithms)?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(vec![certificate.clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), certificate))
}

/// Lets in whoever shows one certificate and has its key.
struct Pinned {
    host: CertificateDer<'static>,
    /// The key, where it is on the curve that our TLS does not have.
    key: Option<VerifyingKey>,
    others: WebPkiSupportedAlgorithms,
}

impl std::fmt::Debug for Pinned {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pinned")
    }
}

impl Pinned {
    fn new(
        host: CertificateDer<'static>,
        others: WebPkiSupportedAlgorithms,
    ) -> Result<Self, TlsError> {
        let (_, parsed) = x509_parser::parse_x509_certificate(&host).map_err(|_| TlsError::Key)?;
        let point = &parsed.public_key().subject_public_key.data;
        let key = VerifyingKey::from_sec1_bytes(point).ok();
        Ok(Self { host, key, others })
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        if *shown == self.host {
            return Ok(ClientCertVerified::assertion());
        }
        Err(rustls::CertificateError::ApplicationVerificationFailure.into())
    }

    /// Only TLS 1.3 is offered.
    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let Some(key) = &self.key else {
            return verify_tls13_signature(message, shown, signed, &self.others);
        };
        let signature = match signed.scheme {
            SignatureScheme::ECDSA_NISTP521_SHA512 => Signature::from_der(signed.signature()).ok(),
            _ => None,
        };
        match signature.is_some_and(|signature| key.verify(message, &signature).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(rustls::CertificateError::BadSignature.into()),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        match self.key {
            Some(_) => vec![SignatureScheme::ECDSA_NISTP521_SHA512],
            None => self.others.supported_schemes(),
        }
    }
}
