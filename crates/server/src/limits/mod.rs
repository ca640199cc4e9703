//! How much one peer may ask for, so that the others are served too.
//!
//! ```text
//!   Ledger: requests in flight, watches and tokens of each identity
//!     below half of what the server takes   everybody gets what they ask for, up to their own limit
//!     above                                 nobody gets more than their share of the whole
//! ```
//! A peer is known by its identity, or where it has none by its address. Decisions are pure functions
//! in [`share`]; here they are kept.
mod connections;
mod share;

pub use connections::{Connections, Held};

use crate::gate::Caller;
use orrery_fleet::middleware::Peer;
use orrery_hub::Error;
use orrery_pki::{KnownBy, Role};
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;
use share::{Bucket, Refused};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// What a server takes.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at once; more wait in the kernel's queue.
    pub connections: usize,
    /// Connections of one address or identity.
    pub connections_per_peer: usize,
    /// Requests that are worked on at once.
    pub requests: usize,
    /// Requests of one peer that are worked on at once.
    pub requests_per_peer: usize,
    /// Open watches of one peer.
    pub watches_per_peer: usize,
    /// Requests of one peer in a second, with bursts of twice as many. Without one, 5000, and none
    /// for plain connections from this machine.
    pub rate_per_peer: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 10_000,
            connections_per_peer: 5_000,
            requests: 2_000,
            requests_per_peer: 1_000,
            watches_per_peer: 5_000,
            rate_per_peer: None,
        }
    }
}

const RATE_DEFAULT: u32 = 5_000;
/// Peers whose tokens are remembered. One that is forgotten has its whole burst again.
const PEERS_MAX: usize = 10_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Because {
    reason: &'static str,
}

/// Who holds what. Clones share it.
#[derive(Clone, Debug)]
pub struct Ledger {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    limits: Limits,
    books: Mutex<Books>,
    refusals: Family<Because, Counter>,
}

#[derive(Debug, Default)]
struct Books {
    in_flight: usize,
    active: usize,
    peers: foldhash::HashMap<PeerKey, Account>,
}

#[derive(Debug)]
struct Account {
    in_flight: usize,
    watches: usize,
    bucket: Bucket,
}

impl Ledger {
    pub fn new(limits: Limits, registry: &mut Registry) -> Self {
        let refusals = Family::<Because, Counter>::default();
        for reason in [Refused::Rate, Refused::Own, Refused::Share, Refused::Watches] {
            // There from the beginning, so that an alert sees the first one.
            refusals.get_or_create(&Because { reason: reason.as_str() }).inc_by(0);
        }
        let help = "Requests that were refused because a peer asked for more than its share";
        registry.register("orrery_api_refusals", help, refusals.clone());
        Self { inner: Arc::new(Inner { limits, books: Mutex::default(), refusals }) }
    }

    /// Takes a request in, until what is returned is dropped.
    pub fn request(&self, caller: &Caller, now: Instant) -> Result<Taken, Error> {
        let (peer, rate) = (key(&caller.peer), self.rate(caller));
        let mut books = self.inner.books.lock();
        let Books { in_flight, active, peers } = &mut *books;
        forget(peers);
        let account = peers.entry(peer.clone()).or_insert_with(|| Account::new(rate, now));
        let seen = share::Seen { in_flight: *in_flight, own: account.in_flight, active: *active };
        let judged = share::judge(&self.inner.limits, seen).and_then(|()| match rate {
            Some(rate) => account.bucket.take(rate, now),
            None => Ok(()),
        });
        if let Err(refused) = judged {
            drop(books);
            return Err(self.refuse(&peer, refused));
        }
        if account.in_flight == 0 {
            *active += 1;
        }
        account.in_flight += 1;
        *in_flight += 1;
        drop(books);
        Ok(Taken { ledger: self.clone(), peer, what: What::Request })
    }

    /// Takes a watch in, until what is returned is dropped.
    pub fn watch(&self, caller: &Caller) -> Result<Taken, Error> {
        let peer = key(&caller.peer);
        let now = Instant::now();
        let mut books = self.inner.books.lock();
        let account = books.peers.entry(peer.clone());
        let account = account.or_insert_with(|| Account::new(self.rate(caller), now));
        if self.inner.limits.watches_per_peer <= account.watches {
            drop(books);
            return Err(self.refuse(&peer, Refused::Watches));
        }
        account.watches += 1;
        drop(books);
        Ok(Taken { ledger: self.clone(), peer, what: What::Watch })
    }

    fn rate(&self, caller: &Caller) -> Option<u32> {
        let local = caller.peer.address.is_none_or(|address| address.ip().is_loopback());
        match self.inner.limits.rate_per_peer {
            Some(0) => None,
            Some(rate) => Some(rate),
            None if local && !caller.peer.encrypted => None,
            None => Some(RATE_DEFAULT),
        }
    }

    fn refuse(&self, peer: &PeerKey, refused: Refused) -> Error {
        let reason = refused.as_str();
        self.inner.refusals.get_or_create(&Because { reason }).inc();
        tracing::debug!(%peer, reason, "refused");
        let retry_after = refused.retry_after();
        Error::TooManyRequests { message: refused.message(&self.inner.limits), retry_after }
    }
}

impl Account {
    fn new(rate: Option<u32>, now: Instant) -> Self {
        Self { in_flight: 0, watches: 0, bucket: Bucket::full(rate.unwrap_or_default(), now) }
    }
}

/// Forgets peers that hold nothing, when there are too many.
fn forget(peers: &mut foldhash::HashMap<PeerKey, Account>) {
    if PEERS_MAX <= peers.len() {
        peers.retain(|_, account| 0 < account.in_flight + account.watches);
    }
}

/// By what a peer is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PeerKey {
    Address(Option<IpAddr>),
    Identity(String),
}

impl fmt::Display for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(Some(address)) => address.fmt(f),
            Self::Address(None) => Ok(()),
            Self::Identity(name) => name.fmt(f),
        }
    }
}

/// Who has proven who they are, however they did, has an account of their own; everybody else shares the one of their
/// address.
pub fn key(peer: &Peer) -> PeerKey {
    let address = PeerKey::Address(peer.address.map(|address| address.ip()));
    if peer.login.is_none() && peer.identity.is_none() {
        return address;
    }
    // Whoever asks as many others is still one.
    let subject = peer.asker();
    match subject.known_by {
        KnownBy::Certificate | KnownBy::Token | KnownBy::Oidc => {
            let role = subject.role.map_or("", Role::as_str);
            PeerKey::Identity(format!("{role} {}", subject.name))
        }
        KnownBy::Plain | KnownBy::Impersonation | KnownBy::Nothing => address,
    }
}

/// Something that a peer holds until it is dropped.
#[derive(Debug)]
pub struct Taken {
    ledger: Ledger,
    peer: PeerKey,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Request,
    Watch,
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut books = self.ledger.inner.books.lock();
        let Books { in_flight, active, peers } = &mut *books;
        let Some(account) = peers.get_mut(&self.peer) else { return };
        match self.what {
            What::Watch => account.watches = account.watches.saturating_sub(1),
            What::Request => {
                account.in_flight = account.in_flight.saturating_sub(1);
                *in_flight = in_flight.saturating_sub(1);
                if account.in_flight == 0 {
                    *active = active.saturating_sub(1);
                }
            }
        }
    }
}

/// The shortest time after which asking again makes sense.
const RETRY_AFTER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_pki::Subject;

    fn caller(address: &str) -> Caller {
        let address = Some(format!("{address}:1").parse().expect("an address"));
        Caller { peer: Peer { address, ..Peer::default() }, ..Caller::default() }
    }

    #[tokio::test]
    async fn a_loud_peer_is_refused_before_a_quiet_one() {
        let limits = Limits { requests: 10, requests_per_peer: 10, ..Limits::default() };
        let ledger = Ledger::new(limits, &mut Registry::default());
        let (loud, quiet) = (caller("127.0.0.1"), caller("127.0.0.2"));
        let taken: Vec<Taken> =
            std::iter::from_fn(|| ledger.request(&loud, Instant::now()).ok()).take(100).collect();
        assert_eq!(taken.len(), 5, "half of the house for one peer");
        let theirs: Vec<Taken> =
            std::iter::from_fn(|| ledger.request(&quiet, Instant::now()).ok()).take(100).collect();
        assert_eq!(theirs.len(), 5, "the other half for the other");
        let error = ledger.request(&loud, Instant::now()).expect_err("it has its share");
        assert!(matches!(error, Error::TooManyRequests { .. }), "{error}");
        assert!(
            ledger.request(&caller("127.0.0.3"), Instant::now()).is_ok(),
            "a newcomer is served"
        );
        drop(taken);
        assert!(ledger.request(&loud, Instant::now()).is_ok(), "what is done makes room");
        let books = ledger.inner.books.lock();
        assert_eq!((books.in_flight, books.active), (5, 1));
    }

    #[test]
    fn who_is_known_has_an_account_of_their_own() {
        let at = caller("10.0.0.1").peer;
        let login = |name: &str| {
            let login = Subject::person(name.to_owned(), Vec::new(), KnownBy::Token);
            Peer { encrypted: true, login: Some(login), ..at.clone() }
        };
        let said = |peer: &Peer| key(peer).to_string();
        assert_eq!(said(&at), "10.0.0.1");
        assert_eq!(said(&Peer { encrypted: true, ..at.clone() }), "10.0.0.1", "nothing is proven");
        assert_eq!(said(&login("ann")), "user ann");
        assert_ne!(key(&login("10.0.0.1")), key(&at), "a name is no address");
    }

    #[tokio::test]
    async fn watches_of_one_peer_are_bounded() {
        let limits = Limits { watches_per_peer: 2, ..Limits::default() };
        let ledger = Ledger::new(limits, &mut Registry::default());
        let (one, other) = (caller("127.0.0.1"), caller("127.0.0.2"));
        let _held = [ledger.watch(&one), ledger.watch(&one)].map(|taken| taken.expect("room"));
        assert!(ledger.watch(&one).is_err());
        assert!(ledger.watch(&other).is_ok());
    }
}
