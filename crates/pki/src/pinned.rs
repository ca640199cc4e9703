//! Trusting a server by the hash of its authority: how a joiner knows whom it tells its secret.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, Error, OtherError, RootCertStore};

use crate::identity::Fingerprint;
use crate::material::{ALPN_H2, VERSIONS, provider};

/// What the error says when the server shows no certificate with the wanted hash.
pub const PIN_MISMATCH: &str = "the server's authority is not the one that the token was made for";

/// For the first connection of a joiner: HTTP/2, the server verified against the authority with this
/// hash, which it must show, and by the name dialled. No certificate of our own.
pub fn pinned_client_config(authority: Fingerprint) -> Arc<ClientConfig> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&VERSIONS)
        .expect("ring has cipher suites for both versions")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { authority }))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN_H2.to_vec()];
    Arc::new(config)
}

/// Finds the authority by its hash among what the server shows, then verifies as always.
#[derive(Debug)]
struct Pinned {
    authority: Fingerprint,
}

#[derive(Debug, thiserror::Error)]
#[error("{PIN_MISMATCH}")]
struct Mismatch;

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let shown = intermediates.iter().find(|der| Fingerprint::of(der) == self.authority);
        let authority = shown.ok_or_else(|| Error::Other(OtherError(Arc::new(Mismatch))))?;
        let mut roots = RootCertStore::empty();
        roots.add(authority.clone().into_owned())?;
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    crate::signatures::checked!();
}
