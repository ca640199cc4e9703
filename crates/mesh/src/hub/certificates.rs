//! Certificates for proxies, issued when first needed and replaced in good time.
use crate::announce::{Announcements, Announcer};
use crate::names::ProxyName;
use crate::secrets::{CertificateBundle, SecretsProvider};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// A certificate is replaced when this part of its life is over, up to a tenth of its life later: not
/// all at once, and early enough for several attempts.
const RENEW_AT: f64 = 0.6;
const JITTER: f64 = 0.1;
/// When issuing failed.
const RETRY: Duration = Duration::from_secs(10);

/// A certificate and how long it is good for from now.
pub struct IssuedCertificate {
    pub bundle: CertificateBundle,
    pub lifetime: Duration,
}

/// Issues certificates in the names of proxies.
pub trait Issuer: Send + Sync + 'static {
    /// For proxies of this name. The error says why there is none.
    fn issue(&self, proxy: &ProxyName) -> Result<IssuedCertificate, String>;

    /// Woken when the roots change, so that all certificates are replaced at once. `None` where they
    /// never do.
    fn rotated(&self) -> Option<Arc<Notify>> {
        None
    }
}

struct Held {
    bundle: CertificateBundle,
    renew_at: Instant,
    /// Whether anybody asked since it was issued; what nobody asks for is not kept.
    was_asked_for: bool,
}

/// See the module.
pub struct IssuedSecrets {
    issuer: Arc<dyn Issuer>,
    held: Mutex<BTreeMap<ProxyName, Held>>,
    /// Something was issued, so the next renewal may be another.
    issued: Notify,
    announcer: Announcer<ProxyName>,
}

impl IssuedSecrets {
    pub fn new(issuer: Arc<dyn Issuer>) -> Self {
        Self {
            issuer,
            held: Mutex::default(),
            issued: Notify::new(),
            announcer: Announcer::default(),
        }
    }

    /// Replaces certificates in time until told to stop.
    pub async fn renew(self: Arc<Self>, stop: CancellationToken) {
        let rotated = self.issuer.rotated();
        loop {
            let next = self.held.lock().values().map(|held| held.renew_at).min();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.issued.notified() => {}
                () = woken(rotated.as_deref()) => self.replace(|_| true),
                () = sleep_until(next) => {
                    let now = Instant::now();
                    self.replace(|held| held.renew_at <= now);
                }
            }
        }
    }

    fn replace(&self, is_due: impl Fn(&Held) -> bool) {
        let mut held = self.held.lock();
        held.retain(|_, one| one.was_asked_for || !is_due(one));
        let due: Vec<_> =
            held.iter().filter(|(_, one)| is_due(one)).map(|(name, _)| name.clone()).collect();
        let mut replaced = Vec::new();
        for proxy in due {
            match self.issue(&proxy) {
                Some(fresh) => {
                    held.insert(proxy.clone(), fresh);
                    replaced.push(proxy);
                }
                None => {
                    if let Some(one) = held.get_mut(&proxy) {
                        one.renew_at = Instant::now() + RETRY;
                    }
                }
            }
        }
        drop(held);
        self.announcer.announce(replaced);
    }

    fn issue(&self, proxy: &ProxyName) -> Option<Held> {
        match self.issuer.issue(proxy) {
            Ok(issued) => {
                let part = RENEW_AT + JITTER * rand::random::<f64>();
                let renew_at = Instant::now() + issued.lifetime.mul_f64(part);
                Some(Held { bundle: issued.bundle, renew_at, was_asked_for: false })
            }
            Err(reason) => {
                tracing::warn!(%proxy, reason, "cannot issue a certificate for a proxy");
                None
            }
        }
    }
}

impl SecretsProvider for IssuedSecrets {
    fn certificate(&self, proxy: &ProxyName) -> Option<CertificateBundle> {
        let mut held = self.held.lock();
        if !held.contains_key(proxy) {
            held.insert(proxy.clone(), self.issue(proxy)?);
            self.issued.notify_one();
        }
        let one = held.get_mut(proxy)?;
        one.was_asked_for = true;
        Some(one.bundle.clone())
    }

    fn announcements(&self) -> Announcements<ProxyName> {
        self.announcer.listen()
    }
}

async fn woken(notify: Option<&Notify>) {
    match notify {
        Some(notify) => notify.notified().await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[derive(Default)]
    struct Counting {
        count: AtomicU32,
        rotated: Arc<Notify>,
    }

    impl Issuer for Counting {
        fn issue(&self, proxy: &ProxyName) -> Result<IssuedCertificate, String> {
            if proxy.as_str() == "nobody" {
                return Err("not this one".to_owned());
            }
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let bundle = CertificateBundle {
                certificate_chain: format!("{proxy} {number}"),
                private_key: String::new(),
                roots: String::new(),
            };
            Ok(IssuedCertificate { bundle, lifetime: Duration::from_secs(100) })
        }

        fn rotated(&self) -> Option<Arc<Notify>> {
            Some(self.rotated.clone())
        }
    }

    fn name(text: &str) -> ProxyName {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn certificates_are_issued_once_renewed_in_time_and_replaced_on_rotation() {
        let issuer = Arc::new(Counting::default());
        let secrets = Arc::new(IssuedSecrets::new(issuer.clone()));
        let stop = CancellationToken::new();
        let renewing = tokio::spawn(secrets.clone().renew(stop.clone()));
        let chain = || secrets.certificate(&name("books")).map(|one| one.certificate_chain);
        assert_eq!(chain().as_deref(), Some("books 0"));
        assert_eq!(chain().as_deref(), Some("books 0"), "the same until it is renewed");
        assert!(secrets.certificate(&name("nobody")).is_none());
        let mut heard = secrets.announcements();
        let started = Instant::now();
        assert!(heard.next().await.contains(&name("books")));
        let waited = started.elapsed();
        assert!(Duration::from_secs(60) <= waited && waited <= Duration::from_secs(71));
        assert_eq!(chain().as_deref(), Some("books 1"));
        issuer.rotated.notify_one();
        assert!(heard.next().await.contains(&name("books")));
        assert_eq!(issuer.count.load(Ordering::Relaxed), 3);
        // Nobody asks any more: it goes at its next renewal.
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(issuer.count.load(Ordering::Relaxed), 3);
        assert!(secrets.held.lock().is_empty());
        stop.cancel();
        renewing.await.unwrap();
    }
}
