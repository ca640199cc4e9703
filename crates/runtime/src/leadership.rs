//! Acting alone: one server of many does what must not be done twice.
//!
//! ```text
//!   follower ──acquire──> leader: the term runs, the lease is renewed ──lost or stopped──> follower
//! ```
//! The lease says who should act; the fence in every write of the term makes sure of it: a leader
//! that was held up past the end of its lease cannot write any more.
use futures::future::BoxFuture;
use orrery_hub::{Error, Hub, Lease};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a lease lasts without being renewed: a leader that is killed is replaced within this, half a second in which
/// etcd looks which leases have ended, and one look of a follower, together less than 3 s.
pub const LEASE_TTL: Duration = Duration::from_secs(2);
/// How often the leader renews: it may fail twice before the lease ends.
const RENEW_INTERVAL: Duration = Duration::from_millis(500);
/// How often a follower looks whether the lease is free.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// What a leader does, on the hub it is given, until the token is cancelled.
pub type Term =
    Box<dyn Fn(Hub, CancellationToken) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

/// A candidate for one lease.
pub struct Leadership {
    pub hub: Hub,
    /// The lease: one leader for each name.
    pub name: String,
    /// Who this is, for people who look.
    pub holder: String,
}

impl Leadership {
    /// Follows and leads until it is told to stop. A term that fails is given up, so that another
    /// server can try.
    pub async fn run(self, term: Term, stop: CancellationToken) -> Result<(), Error> {
        while !stop.is_cancelled() {
            let acquired = self.hub.acquire(&self.name, &self.holder, LEASE_TTL).await;
            let wait = match acquired {
                Ok(Some(lease)) => {
                    self.lead(lease, &term, &stop).await;
                    Duration::ZERO
                }
                Ok(None) => LOOK_INTERVAL,
                Err(error) => {
                    tracing::warn!(lease = self.name, %error, "cannot become the leader");
                    LOOK_INTERVAL
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        Ok(())
    }

    /// Holds the lease for its own sake: as long as it is held, others know that this one is there.
    pub async fn hold(self, stop: CancellationToken) -> Result<(), Error> {
        let nothing = |_: Hub, over: CancellationToken| -> BoxFuture<'static, Result<(), String>> {
            Box::pin(async move {
                over.cancelled().await;
                Ok(())
            })
        };
        self.run(Box::new(nothing), stop).await
    }

    /// One term: runs as long as the lease is held.
    async fn lead(&self, lease: Lease, term: &Term, stop: &CancellationToken) {
        tracing::info!(lease = self.name, holder = self.holder, "leading");
        let over = stop.child_token();
        let mut running = term(self.hub.fenced(&lease), over.clone());
        let ended = tokio::select! {
            outcome = &mut running => Some(outcome),
            () = self.keep(&lease) => None,
            () = stop.cancelled() => None,
        };
        over.cancel();
        let outcome = match ended {
            Some(outcome) => outcome,
            None => running.await,
        };
        if let Err(error) = outcome {
            tracing::error!(lease = self.name, error, "the term ended with a failure");
        }
        // A lease that is lost already needs no resignation.
        if let Err(error) = self.hub.resign(lease).await {
            tracing::debug!(lease = self.name, %error, "cannot resign");
        }
    }

    /// Renews the lease; returns when it is lost, or when it may be.
    async fn keep(&self, lease: &Lease) {
        let mut held_until = Instant::now() + LEASE_TTL;
        loop {
            tokio::time::sleep(RENEW_INTERVAL).await;
            let asked = Instant::now();
            let answer = tokio::time::timeout_at(held_until, self.hub.renew(lease)).await;
            match answer {
                Ok(Ok(true)) => held_until = asked + LEASE_TTL,
                Ok(Ok(false)) | Err(_) => {
                    tracing::warn!(lease = self.name, "the lease is lost");
                    return;
                }
                Ok(Err(error)) if held_until <= Instant::now() => {
                    tracing::warn!(lease = self.name, %error, "the lease cannot be renewed");
                    return;
                }
                Ok(Err(_)) => {}
            }
        }
    }
}
