//! Configurations that show and trust, in every handshake, what is current then.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DistinguishedName, Error, ServerConfig, SignatureScheme,
};

use super::LiveTls;
use crate::identity::Identity;
use crate::material::{ALPN_H2, ALPN_HTTP1, ClientAuth, VERSIONS, provider};

impl LiveTls {
    /// For listeners, as [`crate::TlsMaterial::server_config`]. Sessions are not resumed: a resumed
    /// one is not verified again, and the certificate may have been taken back since.
    pub fn server_config(&self, client_auth: ClientAuth) -> Arc<ServerConfig> {
        let verifier = Trusted { live: self.clone(), client_auth, made: Mutex::new(None) };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .expect("ring has cipher suites for both versions")
            .with_client_cert_verifier(Arc::new(verifier))
            .with_cert_resolver(Arc::new(Shown(self.clone())));
        config.alpn_protocols = vec![ALPN_H2.to_vec(), ALPN_HTTP1.to_vec()];
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Arc::new(config)
    }

    /// For connections, as [`crate::TlsMaterial::client_config`].
    pub fn client_config(&self) -> Arc<ClientConfig> {
        let verifier = Trusting { live: self.clone(), made: Mutex::new(None) };
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&VERSIONS)
            .expect("ring has cipher suites for both versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::new(Shown(self.clone())));
        config.alpn_protocols = vec![ALPN_H2.to_vec()];
        Arc::new(config)
    }
}

/// Shows the current certificate.
#[derive(Debug)]
struct Shown(LiveTls);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.0.look();
        Some(Arc::new(self.0.current().0.shown_with_roots()))
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.look();
        Some(self.0.current().0.certified())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

type Made<T> = Mutex<Option<(u64, Arc<T>)>>;

/// What was made for the current material, made anew when it has changed.
fn current<T: ?Sized>(
    made: &Made<T>,
    generation: u64,
    make: impl FnOnce() -> Result<Arc<T>, Error>,
) -> Result<Arc<T>, Error> {
    let mut made = made.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((of, known)) = &*made
        && *of == generation
    {
        return Ok(Arc::clone(known));
    }
    let fresh = make()?;
    *made = Some((generation, Arc::clone(&fresh)));
    Ok(fresh)
}

/// Verifies clients against the current roots, and refuses those who are disabled.
struct Trusted {
    live: LiveTls,
    client_auth: ClientAuth,
    made: Made<dyn ClientCertVerifier>,
}

impl fmt::Debug for Trusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trusted").field("live", &self.live).finish_non_exhaustive()
    }
}

impl ClientCertVerifier for Trusted {
    fn offer_client_auth(&self) -> bool {
        true
    }

    fn client_auth_mandatory(&self) -> bool {
        self.client_auth == ClientAuth::Required
    }

    /// None: clients show what they have.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let (material, generation) = self.live.current();
        let verifier = current(&self.made, generation, || {
            WebPkiClientVerifier::builder_with_provider(material.roots(), provider())
                .build()
                .map_err(|error| Error::General(error.to_string()))
        })?;
        let verified = verifier.verify_client_cert(end_entity, intermediates, now)?;
        let refused = Identity::from_der(end_entity).is_ok_and(|peer| self.live.refuses(&peer));
        if refused {
            return Err(Error::InvalidCertificate(CertificateError::Revoked));
        }
        Ok(verified)
    }

    crate::signatures::checked!();
}

/// Verifies servers against the current roots.
struct Trusting {
    live: LiveTls,
    made: Made<WebPkiServerVerifier>,
}

impl fmt::Debug for Trusting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trusting").field("live", &self.live).finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.live.look();
        let (material, generation) = self.live.current();
        let verifier = current(&self.made, generation, || {
            WebPkiServerVerifier::builder_with_provider(material.roots(), provider())
                .build()
                .map_err(|error| Error::General(error.to_string()))
        })?;
        verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    crate::signatures::checked!();
}
