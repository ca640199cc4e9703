//! What a PEM file holds, for people to read. Nothing secret of a key is in it.

use std::path::Path;

use crate::error::Error;
use crate::identity::{Fingerprint, Identity};
use crate::pem::Pem;
use crate::pkcs8;

/// One section of a PEM file.
#[derive(Clone, Debug)]
pub enum Described {
    Certificate {
        authority: bool,
        identity: Box<Identity>,
    },
    Key {
        /// "RSA", "P-256", "P-384" or "Ed25519".
        kind: &'static str,
        /// Of its public half: a certificate with the same belongs to it.
        key: Fingerprint,
    },
}

/// Every certificate of a file, and its key if it holds one. A file that holds neither is an error.
pub fn describe_pem_file(file: &Path) -> Result<Vec<Described>, Error> {
    let pem = Pem::read(file)?;
    let mut found = match pem.certificates() {
        Ok(certificates) => certificates
            .iter()
            .enumerate()
            .map(|(index, der)| certificate(&pem, index, der))
            .collect::<Result<_, _>>()?,
        Err(Error::NoCertificate { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    match pem.private_key() {
        Ok(private) => found.push(key(&pem, &private)?),
        Err(Error::NoKey { .. }) if !found.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

fn certificate(pem: &Pem, index: usize, der: &[u8]) -> Result<Described, Error> {
    let unusable =
        |reason: String| Error::Certificate { file: pem.name(), position: index + 1, reason };
    let (_, parsed) =
        x509_parser::parse_x509_certificate(der).map_err(|error| unusable(error.to_string()))?;
    let identity = Identity::from_der(der).map_err(|error| unusable(error.to_string()))?;
    Ok(Described::Certificate { authority: parsed.is_ca(), identity: Box::new(identity) })
}

fn key(pem: &Pem, private: &rustls_pki_types::PrivateKeyDer<'_>) -> Result<Described, Error> {
    use rcgen::PublicKeyData as _;
    let wrapped = zeroize::Zeroizing::new(pkcs8::of(private));
    let pair = rcgen::KeyPair::try_from(wrapped.as_slice())
        .map_err(|error| Error::UnusableKey { file: pem.name(), reason: error.to_string() })?;
    let algorithm = pair.algorithm();
    let kind = if algorithm == &rcgen::PKCS_ECDSA_P256_SHA256 {
        "P-256"
    } else if algorithm == &rcgen::PKCS_ECDSA_P384_SHA384 {
        "P-384"
    } else if algorithm == &rcgen::PKCS_ED25519 {
        "Ed25519"
    } else {
        "RSA"
    };
    Ok(Described::Key { kind, key: Fingerprint::of(&pair.subject_public_key_info()) })
}
