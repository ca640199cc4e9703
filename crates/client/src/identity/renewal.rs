//! A certificate that renews itself before it ends.
use super::{JoinError, client, refused};
use crate::endpoint::Endpoint;
use orrery_pki::{Identity, LiveTls, Requested, TlsFiles, read_pem_file, renewal_at};
use orrery_proto::identity::v1 as wire;
use std::convert::Infallible;
use std::time::{Duration, SystemTime};
use tokio_util::sync::CancellationToken;

/// How often the server is asked whether the authority has changed.
const ASK_INTERVAL: Duration = Duration::from_secs(600);
/// How long to wait after a renewal that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// A certificate with little life is looked at more often than it ends, but not all the time.
const LOOK_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Keeps the certificate of a machine that has joined. The key stays the same, so that the server
/// knows the machine again.
#[derive(Debug)]
pub struct Renewal {
    pub endpoint: Endpoint,
    pub files: TlsFiles,
    pub live: LiveTls,
    /// How often the server is asked; for tests.
    pub ask_interval: Duration,
}

impl Renewal {
    pub fn new(endpoint: Endpoint, files: TlsFiles, live: LiveTls) -> Self {
        Self { endpoint, files, live, ask_interval: ASK_INTERVAL }
    }

    /// Renews when it is time, for ever.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Infallible> {
        let chance: f64 = rand::random();
        let mut wait = self.next_look(chance);
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(wait) => {}
            }
            wait = match self.look(chance).await {
                Ok(()) => self.next_look(chance),
                Err(error) => {
                    tracing::warn!(%error, "cannot renew the certificate, will try again");
                    RETRY_INTERVAL.min(self.next_look(chance).max(LOOK_INTERVAL_MIN))
                }
            };
        }
    }

    /// Renews if it is time, or if the authority goes that signed the certificate.
    async fn look(&self, chance: f64) -> Result<(), JoinError> {
        if due(self.live.current().0.identity(), chance) <= now() {
            return self.renew().await;
        }
        let trust = super::trust(&self.endpoint).await?;
        if trust.renew {
            return self.renew().await;
        }
        Ok(())
    }

    /// Asks for the next certificate, and uses it from the next connection on.
    pub async fn renew(&self) -> Result<(), JoinError> {
        let (material, _) = self.live.current();
        let identity = material.identity();
        let name = identity.name().unwrap_or_default();
        let key = self.files.key.as_deref().map(read_pem_file).transpose()?.unwrap_or_default();
        let request = Requested::for_key(&key, name)?;
        let request = wire::RenewRequest { request: request.der().to_vec() };
        let answer = client(&self.endpoint).await?.renew(request).await;
        let answer = answer.map_err(|status| refused(&self.endpoint, &status))?.into_inner();
        let (roots, certificate) = (answer.roots.as_bytes(), answer.certificate.as_bytes());
        let material = orrery_pki::TlsMaterial::from_pem(roots, certificate, key.as_bytes())?;
        self.files.write(&answer.roots, &answer.certificate, None)?;
        let serial = material.identity().serial.clone();
        tracing::info!(serial, "the certificate was renewed");
        self.live.set(material);
        Ok(())
    }

    fn next_look(&self, chance: f64) -> Duration {
        let due = due(self.live.current().0.identity(), chance);
        let wait = due.duration_since(now()).unwrap_or_default();
        wait.clamp(LOOK_INTERVAL_MIN.min(self.ask_interval), self.ask_interval)
    }
}

fn due(identity: &Identity, chance: f64) -> SystemTime {
    renewal_at(identity.not_before, identity.not_after, chance)
}

#[allow(clippy::disallowed_methods, reason = "certificates are judged by the time of day")]
fn now() -> SystemTime {
    SystemTime::now()
}
