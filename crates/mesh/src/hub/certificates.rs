//! Certificates for proxies, issued when first needed and replaced in good time.
use crate::announce::{Announcements, Announcer};
use crate::names::ProxyName;
use crate::secrets::{CertificateBundle, SecretsProvider};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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

impl Held {
    fn asked(&mut self) -> CertificateBundle {
        self.was_asked_for = true;
        self.bundle.clone()
    }
}

/// See the module. Certificates are issued while nobody waits for the lock: thousands are, when an authority rotates
/// or a server starts.
pub struct IssuedSecrets {
    issuer: Arc<dyn Issuer>,
    /// How often the authority has changed.
    rotations: AtomicU64,
    held: Mutex<BTreeMap<ProxyName, Held>>,
    /// Those for whom none could be issued, and when they are told to ask again. Nothing is tried before.
    missing: Mutex<BTreeMap<ProxyName, Instant>>,
    /// Something was issued, or could not be, so what is due next may be another.
    issued: Notify,
    announcer: Announcer<ProxyName>,
}

impl IssuedSecrets {
    pub fn new(issuer: Arc<dyn Issuer>) -> Self {
        Self {
            issuer,
            rotations: AtomicU64::new(0),
            held: Mutex::default(),
            missing: Mutex::default(),
            issued: Notify::new(),
            announcer: Announcer::default(),
        }
    }

    /// Replaces certificates in time until told to stop.
    pub async fn renew(self: Arc<Self>, stop: CancellationToken) {
        let rotated = self.issuer.rotated();
        loop {
            let next = self.next();
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.issued.notified() => {}
                () = woken(rotated.as_deref()) => self.rotate(),
                () = sleep_until(next) => {
                    let now = Instant::now();
                    self.replace(|held| held.renew_at <= now);
                    self.ask_again(|at| at <= now);
                }
            }
        }
    }

    fn rotate(&self) {
        self.rotations.fetch_add(1, Ordering::SeqCst);
        self.replace(|_| true);
        self.ask_again(|_| true);
    }

    fn next(&self) -> Option<Instant> {
        let next = self.held.lock().values().map(|held| held.renew_at).min();
        let missing = self.missing.lock().values().min().copied();
        next.into_iter().chain(missing).min()
    }

    /// Tells those who got none; whoever is still there asks.
    fn ask_again(&self, is_due: impl Fn(Instant) -> bool) {
        let due: Vec<ProxyName> = {
            let mut missing = self.missing.lock();
            let due = missing.iter().filter(|(_, at)| is_due(**at)).map(|(name, _)| name.clone());
            let due = due.collect();
            missing.retain(|_, at| !is_due(*at));
            due
        };
        self.announcer.announce(due);
    }

    fn replace(&self, is_due: impl Fn(&Held) -> bool) {
        let due: Vec<ProxyName> = {
            let mut held = self.held.lock();
            held.retain(|_, one| one.was_asked_for || !is_due(one));
            held.iter().filter(|(_, one)| is_due(one)).map(|(name, _)| name.clone()).collect()
        };
        let replaced: Vec<ProxyName> =
            due.into_iter().filter(|proxy| self.replace_one(proxy)).collect();
        self.announcer.announce(replaced);
    }

    /// Whoever asks meanwhile gets the one of before, and waits for nobody.
    fn replace_one(&self, proxy: &ProxyName) -> bool {
        let fresh = self.issue(proxy);
        let mut held = self.held.lock();
        if let Some(fresh) = fresh {
            held.insert(proxy.clone(), fresh);
            return true;
        }
        if let Some(one) = held.get_mut(proxy) {
            one.renew_at = Instant::now() + RETRY;
        }
        false
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
        if let Some(known) = self.held.lock().get_mut(proxy) {
            return Some(known.asked());
        }
        if self.missing.lock().contains_key(proxy) {
            return None;
        }
        let rotations = self.rotations.load(Ordering::SeqCst);
        let Some(mut fresh) = self.issue(proxy) else {
            self.missing.lock().insert(proxy.clone(), Instant::now() + RETRY);
            self.issued.notify_one();
            return None;
        };
        let mut held = self.held.lock();
        if rotations != self.rotations.load(Ordering::SeqCst) {
            // It may be of the authority before, and was not there to be replaced with the others.
            fresh.renew_at = Instant::now();
        }
        // Two who ask at once have one each issued, and both get the first that is there.
        let bundle = held.entry(proxy.clone()).or_insert(fresh).asked();
        drop(held);
        self.issued.notify_one();
        Some(bundle)
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
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicU32;

    type Meanwhile = Box<dyn Fn() + Send + Sync>;

    #[derive(Default)]
    struct Counting {
        count: AtomicU32,
        rotated: Arc<Notify>,
        /// Done while a certificate is issued.
        meanwhile: OnceLock<Meanwhile>,
    }

    impl Issuer for Counting {
        fn issue(&self, proxy: &ProxyName) -> Result<IssuedCertificate, String> {
            if proxy.as_str() == "nobody" {
                return Err("not this one".to_owned());
            }
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            if let Some(meanwhile) = self.meanwhile.get() {
                meanwhile();
            }
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

    /// Nothing else would make them ask.
    #[tokio::test(start_paused = true)]
    async fn who_got_none_is_told_to_ask_again() {
        let issuer = Arc::new(Counting::default());
        let secrets = Arc::new(IssuedSecrets::new(issuer.clone()));
        let stop = CancellationToken::new();
        let renewing = tokio::spawn(secrets.clone().renew(stop.clone()));
        let mut heard = secrets.announcements();
        let started = Instant::now();
        assert!(secrets.certificate(&name("nobody")).is_none());
        // Others that come and go all the time do not put it off.
        for number in 0..5 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(secrets.certificate(&name(&format!("books-{number}"))).is_some());
        }
        assert_eq!(heard.next().await, [name("nobody")].into());
        assert!((RETRY..2 * RETRY).contains(&started.elapsed()), "{:?}", started.elapsed());
        assert!(secrets.missing.lock().is_empty(), "and is forgotten if it does not");
        assert!(secrets.certificate(&name("nobody")).is_none());
        issuer.rotated.notify_one();
        assert!(heard.next().await.contains(&name("nobody")), "another authority may");
        stop.cancel();
        renewing.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_while_a_certificate_is_issued() {
        let issuer = Arc::new(Counting::default());
        let secrets = Arc::new(IssuedSecrets::new(issuer.clone()));
        let other = Arc::downgrade(&secrets);
        let is_free = move || {
            let secrets = other.upgrade().expect("it is in use");
            assert!(!secrets.held.is_locked(), "whoever asks has to wait");
        };
        assert!(issuer.meanwhile.set(Box::new(is_free)).is_ok());
        assert!(secrets.certificate(&name("books")).is_some());
        secrets.replace(|_| true);
        assert_eq!(issuer.count.load(Ordering::Relaxed), 2);
    }

    /// It may be of the authority before.
    #[tokio::test(start_paused = true)]
    async fn what_is_issued_while_the_authority_rotates_is_replaced_at_once() {
        let issuer = Arc::new(Counting::default());
        let secrets = Arc::new(IssuedSecrets::new(issuer.clone()));
        let (stop, started) = (CancellationToken::new(), Instant::now());
        let renewing = tokio::spawn(secrets.clone().renew(stop.clone()));
        let other = Arc::downgrade(&secrets);
        let rotate = move || {
            let secrets = other.upgrade().expect("it is in use");
            if secrets.held.lock().is_empty() {
                secrets.rotate();
            }
        };
        assert!(issuer.meanwhile.set(Box::new(rotate)).is_ok());
        let mut heard = secrets.announcements();
        assert!(secrets.certificate(&name("books")).is_some());
        assert!(heard.next().await.contains(&name("books")));
        assert!(started.elapsed() < Duration::from_secs(1));
        stop.cancel();
        renewing.await.unwrap();
    }
}
