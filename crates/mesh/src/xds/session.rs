//! One stream of one client: its subscriptions, and the order of what goes out.
//!
//! On an aggregated stream the order keeps traffic flowing through a change (make before break):
//!
//! ```text
//!   secrets, clusters (new and changed), endpoints ... the client has them ... listeners, routes ...
//!   the client has accepted those ... then clusters that went, and their endpoints
//! ```
//! Listeners and routes wait until the client is done with new clusters: it acknowledges them when they are
//! warm. A cluster that is gone stays in force, endpoints included, until the client has accepted routes that do
//! without it, also one that went while the client was away ([`Earlier`]). A cluster that was sent is followed
//! by its endpoints, changed or not: a client that got a changed cluster warms it up and waits for them.
use super::earlier::Earlier;
use super::holding::Holding;
use super::kind::Kind;
use super::progress::Progress;
use super::request::{Protocol, Request};
use super::resource::Resource;
use super::subscription::Subscription;
use super::{Pending, View};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Unknown types a client asked for that are remembered for the status.
const UNKNOWN_TYPES_MAX: usize = 8;
/// Longer names are cut in the status; they come from outside.
const UNKNOWN_TYPE_BYTES_MAX: usize = 200;

/// One answer to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Push {
    pub kind: Kind,
    pub version: u64,
    pub nonce: u64,
    pub resources: Vec<Arc<Resource>>,
    /// For delta; in state of the world the client finds out by itself.
    pub removed: Vec<Arc<str>>,
    /// Those of the resources that the client did not have like this.
    pub changed: Vec<Arc<str>>,
}

/// How far a client has followed one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindStatus {
    pub kind: Kind,
    pub wanted: u64,
    pub progress: Progress,
}

/// See the module.
#[derive(Debug)]
pub struct Session {
    protocol: Protocol,
    /// How long routes wait for clusters at most.
    warming_max: Duration,
    subscriptions: BTreeMap<Kind, Subscription>,
    /// The clusters the client has, so that one that is gone can stay for a while.
    clusters: BTreeMap<Arc<str>, Arc<Resource>>,
    /// Those of them that are no longer wanted and still in force.
    gone: BTreeMap<Arc<str>, Arc<Resource>>,
    earlier: Earlier,
    /// Clusters that were sent before any endpoints were asked for: they have to follow too.
    unfollowed: BTreeSet<Arc<str>>,
    /// Clusters were sent that routes wait for, until then at most.
    warming: Option<Instant>,
    /// `gone` has to be looked at again. Endpoints, which change often, never ask for that.
    is_config_new: bool,
    unknown_types: BTreeSet<String>,
}

impl Session {
    pub fn new(protocol: Protocol, warming_max: Duration) -> Self {
        Self {
            protocol,
            warming_max,
            subscriptions: BTreeMap::new(),
            clusters: BTreeMap::new(),
            gone: BTreeMap::new(),
            earlier: Earlier::Nothing,
            unfollowed: BTreeSet::new(),
            warming: None,
            is_config_new: false,
            unknown_types: BTreeSet::new(),
        }
    }

    /// Returns whether the names the client asks for changed.
    pub fn request(&mut self, kind: Kind, request: &Request, now: Instant) -> bool {
        let protocol = self.protocol;
        if kind == Kind::Cluster && !self.subscriptions.contains_key(&kind) {
            self.hold_earlier(&request.held);
            self.earlier = Earlier::of(request, now);
        }
        let subscription = self.subscriptions.entry(kind);
        let subscription = subscription.or_insert_with(|| Subscription::new(kind, protocol));
        let changed = subscription.request(request, now);
        if kind == Kind::Endpoints {
            subscription.mark_again(&std::mem::take(&mut self.unfollowed));
        }
        changed
    }

    /// Clusters of an earlier stream, by name and version: what they were is not known any more, and
    /// never sent, because the client has that version.
    fn hold_earlier(&mut self, held: &[(String, u64)]) {
        for (name, version) in held {
            let name: Arc<str> = name.as_str().into();
            let earlier = Resource { name: name.clone(), version: *version, any: Bytes::new() };
            self.clusters.insert(name, Arc::new(earlier));
        }
        self.is_config_new |= !held.is_empty();
    }

    /// Types we do not serve are not answered, as the protocol asks; the status shows them.
    pub fn unknown_type(&mut self, type_url: &str) {
        if self.unknown_types.len() < UNKNOWN_TYPES_MAX {
            let cut: String = type_url.chars().take(UNKNOWN_TYPE_BYTES_MAX).collect();
            self.unknown_types.insert(cut);
        }
    }

    pub fn unknown_types(&self) -> &BTreeSet<String> {
        &self.unknown_types
    }

    /// The names a client asked for, of one kind.
    pub fn names(&self, kind: Kind) -> Option<&BTreeSet<Arc<str>>> {
        self.subscriptions.get(&kind).map(Subscription::names)
    }

    pub fn mark(&mut self, pending: &Pending) {
        self.is_config_new |= pending.kinds.contains(&Kind::Cluster);
        for (kind, subscription) in &mut self.subscriptions {
            if pending.kinds.contains(kind) {
                subscription.mark_all(pending.since);
            } else if *kind == Kind::Endpoints {
                subscription.mark(&pending.endpoints, pending.since);
            }
        }
    }

    /// When to ask again for what to send, though nothing happens until then.
    pub fn wake_at(&self) -> Option<Instant> {
        self.earlier.until().or(self.warming)
    }

    /// The next answer, in order; `None` when the client has been sent everything, or has to answer first.
    pub fn next(&mut self, view: &dyn View, now: Instant) -> Option<Push> {
        if !self.knows_earlier(view, now) {
            return None;
        }
        self.warming.take_if(|until| *until <= now);
        if std::mem::take(&mut self.is_config_new) {
            let gone = self.clusters_gone(view);
            let before = std::mem::replace(&mut self.gone, gone);
            self.look_again(before.into_keys());
        }
        let gone = std::mem::take(&mut self.gone);
        let has_earlier = self.earlier.has_endpoints();
        let push = self.next_in_order(&Holding { view, held: &gone, has_earlier }, now);
        if push.is_some() || gone.is_empty() || !self.may_drop_clusters() {
            self.gone = gone;
            return push;
        }
        // What refers to clusters is settled: now those that nothing names can go.
        self.earlier = Earlier::Nothing;
        self.subscriptions.get_mut(&Kind::Cluster)?.mark_all(None);
        self.look_again(gone.into_keys());
        self.next_in_order(view, now)
    }

    /// The endpoints of these were kept as the client had them.
    fn look_again(&mut self, kept: impl Iterator<Item = Arc<str>>) {
        if let Some(endpoints) = self.subscriptions.get_mut(&Kind::Endpoints) {
            endpoints.mark(&kept.collect(), None);
        }
    }

    /// Kinds that the client asks nothing of are left out: it never has to acknowledge any of them. One that comes back
    /// to a stream asks so for endpoints, where the last cluster that had some went before.
    pub fn status(&self, view: &dyn View) -> Vec<KindStatus> {
        let status = |(kind, subscription): (&Kind, &Subscription)| KindStatus {
            kind: *kind,
            wanted: subscription.wanted(view),
            progress: subscription.progress().clone(),
        };
        let asked = self.subscriptions.iter().filter(|(_, one)| !one.is_idle());
        asked.map(status).collect()
    }

    fn next_in_order(&mut self, view: &dyn View, now: Instant) -> Option<Push> {
        if let Some(push) = self.next_of(|kind| !kind.refers(), view) {
            if push.kind == Kind::Cluster {
                self.sent_clusters(&push, view, now);
            }
            return Some(push);
        }
        if self.is_warming(view) {
            return None;
        }
        self.warming = None;
        self.next_of(Kind::refers, view)
    }

    fn next_of(&mut self, is_due: fn(Kind) -> bool, view: &dyn View) -> Option<Push> {
        let due = self.subscriptions.iter_mut().filter(|(kind, _)| is_due(**kind));
        due.map(|(_, one)| one).find_map(|one| one.plan(view))
    }

    /// Clusters of an earlier stream that nobody told us the names of are found among those whose endpoints
    /// the client asks for. False while it has not asked yet.
    fn knows_earlier(&mut self, view: &dyn View, now: Instant) -> bool {
        self.earlier.wait_until(now);
        let Earlier::Unknown { version, until } = self.earlier else { return true };
        let clusters = self.subscriptions.get(&Kind::Cluster);
        if until.is_none() {
            self.earlier = Earlier::Nothing;
            return true;
        }
        if clusters.is_some_and(|clusters| clusters.wanted(view) == version) {
            self.earlier = Earlier::Known { until };
            return true;
        }
        let Some(endpoints) = self.subscriptions.get(&Kind::Endpoints) else { return false };
        let gone = endpoints.names().iter().filter(|name| view.get(Kind::Cluster, name).is_none());
        let stand_ins = gone.filter_map(|name| Some((Arc::clone(name), view.stand_in(name)?)));
        self.clusters.extend(stand_ins);
        self.is_config_new = true;
        self.earlier = match self.clusters.is_empty() {
            true => Earlier::Known { until },
            false => Earlier::StandIns { until: Some(now + Earlier::PATIENCE) },
        };
        true
    }

    fn clusters_gone(&self, view: &dyn View) -> BTreeMap<Arc<str>, Arc<Resource>> {
        let gone = self.clusters.iter().filter(|(name, _)| view.get(Kind::Cluster, name).is_none());
        gone.map(|(name, resource)| (Arc::clone(name), Arc::clone(resource))).collect()
    }

    /// Whether the client is still busy with clusters that routes may name.
    fn is_warming(&self, view: &dyn View) -> bool {
        if self.warming.is_none() {
            return false;
        }
        match self.earlier {
            // Such a client acknowledges clusters late, because of the stand-ins. It has those whose
            // endpoints it has asked for and acknowledged.
            Earlier::StandIns { .. } => {
                let Some(endpoints) = self.subscriptions.get(&Kind::Endpoints) else { return true };
                let asked = |name: &Arc<str>| !view.has_endpoints(name) || endpoints.wants(name);
                endpoints.is_outstanding() || !self.clusters.keys().all(asked)
            }
            Earlier::Nothing | Earlier::Held | Earlier::Known { .. } | Earlier::Unknown { .. } => {
                let clusters = self.subscriptions.get(&Kind::Cluster);
                clusters.is_some_and(Subscription::is_outstanding)
            }
        }
    }

    fn may_drop_clusters(&self) -> bool {
        let referring = self.subscriptions.iter().filter(|(kind, _)| kind.refers());
        let mut referring = referring.map(|(_, subscription)| subscription);
        let clusters = self.subscriptions.get(&Kind::Cluster);
        let has_come = match self.earlier {
            Earlier::Nothing => true,
            // Until it has answered once, what else it asks for may still be on its way.
            Earlier::Held => !clusters.is_some_and(Subscription::is_outstanding),
            Earlier::Unknown { until, .. }
            | Earlier::Known { until }
            | Earlier::StandIns { until } => until.is_none() || referring.clone().next().is_some(),
        };
        has_come && referring.all(Subscription::is_settled)
    }

    fn sent_clusters(&mut self, push: &Push, view: &dyn View, now: Instant) {
        if !push.changed.is_empty() {
            self.warming.get_or_insert(now + self.warming_max);
        }
        let sent = push.resources.iter().map(|one| (Arc::clone(&one.name), Arc::clone(one)));
        self.clusters.extend(sent);
        self.clusters.retain(|name, _| view.get(Kind::Cluster, name).is_some());
        let is_stand_in = |name: &&Arc<str>| view.is_kept(Kind::Endpoints, name, false);
        let followed = push.changed.iter().filter(|name| !is_stand_in(name));
        match self.subscriptions.get_mut(&Kind::Endpoints) {
            Some(endpoints) => endpoints.mark_again(followed),
            // On whole states the first request for endpoints is answered with all of them.
            None if self.protocol == Protocol::StateOfTheWorld => {}
            None => self.unfollowed.extend(followed.cloned()),
        }
    }
}

#[cfg(test)]
mod envoy;
#[cfg(test)]
mod tests;
