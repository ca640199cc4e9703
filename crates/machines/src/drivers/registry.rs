//! The map of live drivers. Pure: who is in it, who is active, who stands by.
//!
//! The active driver of a key is its oldest session that is not leaving. So a standby takes over at
//! the very moment the active one goes, and nothing has to be remembered about roles.
use super::error::GoneReason;
use super::peer::Peer;
use super::source::DriverKey;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tokio::time::Instant;

/// Per key: one active, and standbys for upgrades. More than this is a driver that connects in a
/// loop without ever closing.
pub const SESSIONS_PER_KEY_MAX: usize = 16;
/// All keys together; bounds memory against peers that make up kinds.
pub const SESSIONS_MAX: usize = 1024;
/// How many departed drivers are remembered for people who ask what happened.
const GONE_MAX: usize = 64;

/// What a driver said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    pub key: DriverKey,
    pub name: String,
    /// 0 for drivers of the first contract.
    pub protocol: i32,
    pub capabilities: Vec<String>,
    pub instance: String,
    pub max_concurrent: usize,
    pub program_version: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriverState {
    Active,
    /// Waits for the active one to go.
    Standby,
    /// Finishes what it has begun, and gets nothing new.
    Leaving,
    Gone(GoneReason),
}

/// One driver connection, as published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverInfo {
    /// Grows with every connection: fences what is written on behalf of an older one.
    pub epoch: u64,
    pub hello: Hello,
    pub peer: Peer,
    pub state: DriverState,
    /// When it reached this state.
    pub since: Instant,
}

struct Member<S> {
    info: DriverInfo,
    session: S,
}

pub(super) struct Registry<S> {
    next_epoch: u64,
    members: BTreeMap<u64, Member<S>>,
    gone: VecDeque<DriverInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("{SESSIONS_PER_KEY_MAX} drivers for {0} are connected already")]
    TooManyOfKey(DriverKey),
    #[error("{SESSIONS_MAX} drivers are connected already")]
    TooMany,
}

impl<S: Clone> Registry<S> {
    pub fn new() -> Self {
        Self { next_epoch: 1, members: BTreeMap::new(), gone: VecDeque::new() }
    }

    /// Adds a driver; `session` is made from its epoch.
    pub fn join(
        &mut self,
        hello: Hello,
        peer: Peer,
        now: Instant,
        session: impl FnOnce(u64) -> S,
    ) -> Result<S, Refused> {
        let of_key = self.members.values().filter(|it| it.info.hello.key == hello.key).count();
        if of_key >= SESSIONS_PER_KEY_MAX {
            return Err(Refused::TooManyOfKey(hello.key));
        }
        if self.members.len() >= SESSIONS_MAX {
            return Err(Refused::TooMany);
        }
        let epoch = self.next_epoch;
        self.next_epoch += 1;
        let session = session(epoch);
        let info = DriverInfo { epoch, hello, peer, state: DriverState::Standby, since: now };
        self.members.insert(epoch, Member { info, session: session.clone() });
        self.settle_roles(now);
        Ok(session)
    }

    /// Older connections of the same start of the same driver: half-open leftovers.
    pub fn superseded(&self, hello: &Hello, peer: &Peer) -> Vec<S> {
        let same = |it: &&Member<S>| {
            !hello.instance.is_empty()
                && it.info.hello.instance == hello.instance
                && it.info.hello.key == hello.key
                && it.info.peer.identity == peer.identity
        };
        self.members.values().filter(same).map(|it| it.session.clone()).collect()
    }

    pub fn active(&self, key: &DriverKey) -> Option<S> {
        self.members
            .values()
            .find(|it| it.info.hello.key == *key && it.info.state == DriverState::Active)
            .map(|it| it.session.clone())
    }

    pub fn leave(&mut self, epoch: u64, now: Instant) {
        if let Some(member) = self.members.get_mut(&epoch) {
            member.info.state = DriverState::Leaving;
            member.info.since = now;
        }
        self.settle_roles(now);
    }

    pub fn remove(&mut self, epoch: u64, reason: GoneReason, now: Instant) {
        let Some(Member { mut info, .. }) = self.members.remove(&epoch) else { return };
        info.state = DriverState::Gone(reason);
        info.since = now;
        self.gone.push_back(info);
        if self.gone.len() > GONE_MAX {
            self.gone.pop_front();
        }
        self.settle_roles(now);
    }

    pub fn sessions(&self) -> Vec<S> {
        self.members.values().map(|it| it.session.clone()).collect()
    }

    /// Live drivers by epoch, then the last ones that went.
    pub fn infos(&self) -> Vec<DriverInfo> {
        let live = self.members.values().map(|it| it.info.clone());
        live.chain(self.gone.iter().cloned()).collect()
    }

    fn settle_roles(&mut self, now: Instant) {
        let mut taken = BTreeSet::new();
        for member in self.members.values_mut() {
            let info = &mut member.info;
            if info.state == DriverState::Leaving || taken.contains(&info.hello.key) {
                continue;
            }
            taken.insert(info.hello.key.clone());
            if info.state == DriverState::Standby {
                info.state = DriverState::Active;
                info.since = now;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_hello(kind: &str, instance: &str) -> Hello {
        Hello {
            key: DriverKey::new(kind, "g/v1"),
            name: "d".into(),
            protocol: 1,
            capabilities: Vec::new(),
            instance: instance.into(),
            max_concurrent: 1,
            program_version: String::new(),
        }
    }

    fn join(registry: &mut Registry<u64>, kind: &str, instance: &str) -> Result<u64, Refused> {
        registry.join(mk_hello(kind, instance), Peer::default(), Instant::now(), |epoch| epoch)
    }

    fn states(registry: &Registry<u64>) -> Vec<(u64, DriverState)> {
        registry.infos().into_iter().map(|info| (info.epoch, info.state)).collect()
    }

    /// Defect 12: one active driver per kind, no standby, no hand-over.
    #[test]
    fn a_standby_takes_over_when_the_active_one_leaves_or_goes() {
        use DriverState::{Active, Gone, Leaving, Standby};
        let mut registry = Registry::new();
        for (kind, instance) in [("A", "1"), ("A", "2"), ("B", "3"), ("A", "4")] {
            join(&mut registry, kind, instance).expect("room");
        }
        assert_eq!(states(&registry), [(1, Active), (2, Standby), (3, Active), (4, Standby)]);

        registry.leave(1, Instant::now());
        assert_eq!(registry.active(&DriverKey::new("A", "g/v1")), Some(2));
        assert_eq!(states(&registry), [(1, Leaving), (2, Active), (3, Active), (4, Standby)]);

        registry.remove(2, GoneReason::Closed, Instant::now());
        let gone = (2, Gone(GoneReason::Closed));
        assert_eq!(states(&registry), [(1, Leaving), (3, Active), (4, Active), gone]);
    }

    #[test]
    fn only_the_same_start_of_the_same_driver_supersedes() {
        let mut registry = Registry::new();
        join(&mut registry, "A", "1").expect("room");
        join(&mut registry, "A", "").expect("room");
        let old = |kind, instance| registry.superseded(&mk_hello(kind, instance), &Peer::default());
        assert_eq!(old("A", "1"), [1]);
        assert!(old("A", "2").is_empty());
        assert!(old("B", "1").is_empty());
        assert!(old("A", "").is_empty(), "old drivers have no instance");
        let other = Peer { identity: Some("spiffe://x/driver/y".into()), address: None };
        assert!(registry.superseded(&mk_hello("A", "1"), &other).is_empty());
    }

    #[test]
    fn the_map_is_bounded() {
        let mut registry = Registry::new();
        for _ in 0..SESSIONS_PER_KEY_MAX {
            join(&mut registry, "A", "").expect("room");
        }
        let key = DriverKey::new("A", "g/v1");
        assert_eq!(join(&mut registry, "A", ""), Err(Refused::TooManyOfKey(key)));
        for epoch in 0..200 {
            registry.remove(epoch, GoneReason::Closed, Instant::now());
            join(&mut registry, "B", "").expect("room");
            registry.remove(epoch + 17, GoneReason::Closed, Instant::now());
        }
        assert!(registry.infos().len() <= GONE_MAX + SESSIONS_PER_KEY_MAX);
    }
}
