//! What the server shows and trusts in a handshake, as it is now.
use orrery_access::Current;
use orrery_pki::{ClientAuth, LiveTls};
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_rustls::rustls::ServerConfig;

/// The server's side of TLS. Its own certificate and whom it trusts may change at any time; a
/// configuration is made anew only then, because sessions are resumed from within one.
pub struct ServerTls {
    live: LiveTls,
    authority: watch::Receiver<Option<Arc<Current>>>,
    made: Mutex<Option<Made>>,
}

struct Made {
    generation: u64,
    revision: u64,
    config: Arc<ServerConfig>,
}

impl ServerTls {
    pub fn new(live: LiveTls, authority: watch::Receiver<Option<Arc<Current>>>) -> Self {
        Self { live, authority, made: Mutex::new(None) }
    }

    /// What is current.
    pub fn live(&self) -> &LiveTls {
        &self.live
    }

    /// For the next handshake.
    pub fn config(&self) -> Arc<ServerConfig> {
        match self.live.refresh() {
            Ok(false) => {}
            Ok(true) => tracing::info!("the certificate was read anew"),
            Err(error) => {
                tracing::error!(%error, "the changed certificate cannot be used, going on with the old one");
            }
        }
        let (material, generation) = self.live.current();
        let authority = self.authority.borrow().clone();
        let revision = authority.as_ref().map_or(0, |current| current.revision());
        let mut made = self.made.lock();
        if let Some(made) = &*made
            && (made.generation, made.revision) == (generation, revision)
        {
            return made.config.clone();
        }
        let trusting = match &authority {
            Some(current) => material.trusting(current.roots_pem().as_bytes()),
            None => Ok(material.clone()),
        };
        let material = trusting.unwrap_or_else(|error| {
            tracing::error!(%error, "the authority's certificates cannot be read, going on without");
            material
        });
        let config = material.server_config(ClientAuth::Optional);
        *made = Some(Made { generation, revision, config: config.clone() });
        config
    }
}
