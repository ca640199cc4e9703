//! A certificate such as Terraform makes for itself: a self-signed authority on the curve P-521.
use p521::ecdsa::signature::Signer as _;
use p521::ecdsa::{Signature, SigningKey};
use rustls::client::ResolvesClientCert;
use rustls::sign::{CertifiedKey, Signer};
use rustls::{SignatureAlgorithm, SignatureScheme};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::process::Command;
use std::sync::Arc;

#[derive(Clone)]
pub struct Certificate {
    pub pem: String,
    key: Arc<SigningKey>,
}

impl Certificate {
    pub fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (key, der, pem) = (&at("key.pem"), &at("key.der"), &at("certificate.pem"));
        let curve = "ec_paramgen_curve:P-521";
        openssl(&["genpkey", "-algorithm", "EC", "-pkeyopt", curve, "-out", key]);
        openssl(&["ec", "-in", key, "-outform", "DER", "-out", der]);
        let subject = ["-subj", "/O=Host/CN=localhost", "-days", "2", "-sha512"];
        openssl(&[&["req", "-x509", "-new", "-key", key, "-out", pem], &subject[..]].concat());
        let secret = p521::SecretKey::from_sec1_der(&std::fs::read(der).unwrap()).unwrap();
        let key = SigningKey::from_slice(&secret.to_bytes()).unwrap();
        Self { pem: std::fs::read_to_string(pem).unwrap(), key: Arc::new(key) }
    }

    /// This certificate, with a key that is not its own.
    pub fn with_key_of(&self, other: &Self) -> Self {
        Self { pem: self.pem.clone(), key: other.key.clone() }
    }
}

fn openssl(arguments: &[&str]) {
    let output = Command::new("openssl").args(arguments).output().expect("openssl is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate")
    }
}

impl ResolvesClientCert for Certificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let der = CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap();
        Some(Arc::new(CertifiedKey::new(vec![der], Arc::new(self.clone()))))
    }
    fn has_certs(&self) -> bool {
        true
    }
}

impl rustls::sign::SigningKey for Certificate {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        let ours = offered.contains(&SignatureScheme::ECDSA_NISTP521_SHA512);
        ours.then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }
    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for Certificate {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let signature: Signature = self.key.sign(message);
        Ok(signature.to_der().as_bytes().to_vec())
    }
    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}
