//! Certificates as secrets.
use super::inline;
use crate::secrets::CertificateBundle;
use crate::xds::{Kind, Resource};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;

/// What a proxy shows.
pub const CERTIFICATE_NAME: &str = "certificate";
/// What it checks others against.
pub const ROOTS_NAME: &str = "roots";

pub fn secrets(bundle: &CertificateBundle) -> [Resource; 2] {
    let certificate = tls::secret::Type::TlsCertificate(tls::TlsCertificate {
        certificate_chain: Some(inline(&bundle.certificate_chain)),
        private_key: Some(inline(&bundle.private_key)),
        ..Default::default()
    });
    let roots = tls::secret::Type::ValidationContext(tls::CertificateValidationContext {
        trusted_ca: Some(inline(&bundle.roots)),
        ..Default::default()
    });
    [secret(CERTIFICATE_NAME, certificate), secret(ROOTS_NAME, roots)]
}

fn secret(name: &str, content: tls::secret::Type) -> Resource {
    let message = tls::Secret { name: name.to_owned(), r#type: Some(content) };
    Resource::encode(Kind::Secret, name.into(), &message)
}
