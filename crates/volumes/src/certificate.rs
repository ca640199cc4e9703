//! Reads the names out of a peer's certificate.
use crate::caller::{Caller, Name};
use rustls_pki_types::CertificateDer;
use x509_parser::{extensions::GeneralName, prelude::FromDer};

#[derive(Debug, thiserror::Error)]
#[error("the peer's certificate cannot be read: {0}")]
pub struct Unreadable(String);

/// The caller that a verified certificate chain stands for. Only subject alternative names count:
/// TLS stacks have stopped looking at the common name, and so do we.
pub fn caller(chain: &[CertificateDer<'_>]) -> Result<Caller, Unreadable> {
    let Some(leaf) = chain.first() else { return Ok(Caller::Peer(Vec::new())) };
    let (_, certificate) = x509_parser::certificate::X509Certificate::from_der(leaf)
        .map_err(|error| Unreadable(error.to_string()))?;
    let extension =
        certificate.subject_alternative_name().map_err(|error| Unreadable(error.to_string()))?;
    let names = extension.map(|found| found.value.general_names.as_slice()).unwrap_or_default();
    Ok(Caller::Peer(names.iter().filter_map(name).collect()))
}

fn name(general: &GeneralName<'_>) -> Option<Name> {
    if let GeneralName::URI(uri) = general {
        return Name::from_uri(uri);
    }
    if let GeneralName::DNSName(dns) = general { Some(Name::from_dns(dns)) } else { None }
}
