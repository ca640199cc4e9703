//! One stream of one client: its subscriptions, and the order of what goes out.
//!
//! On an aggregated stream the order keeps traffic flowing through a change (make before break):
//!
//! ```text
//!   secrets, clusters (new and changed), endpoints, listeners, routes ... then clusters that went
//! ```
//! A cluster that is gone stays in force until the client has accepted routes that do without it, also
//! one that went while the client was away. A cluster that was sent is followed by its endpoints, changed or not: a client that got a changed
//! cluster warms it up and waits for them.
use super::kind::Kind;
use super::progress::Progress;
use super::request::{Protocol, Request};
use super::resource::Resource;
use super::subscription::Subscription;
use super::{Pending, View};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
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
    subscriptions: BTreeMap<Kind, Subscription>,
    /// The clusters the client has, so that one that is gone can stay for a while.
    clusters: BTreeMap<Arc<str>, Arc<Resource>>,
    /// Those of them that are no longer wanted and still in force.
    gone: BTreeMap<Arc<str>, Arc<Resource>>,
    /// The client came with clusters of an earlier stream: until it has answered once, what else it
    /// asks for may still be on its way.
    has_earlier: bool,
    /// `gone` has to be looked at again. Endpoints, which change often, never ask for that.
    is_config_new: bool,
    unknown_types: BTreeSet<String>,
}

impl Session {
    pub fn new(protocol: Protocol) -> Self {
        Self {
            protocol,
            subscriptions: BTreeMap::new(),
            clusters: BTreeMap::new(),
            gone: BTreeMap::new(),
            has_earlier: false,
            is_config_new: false,
            unknown_types: BTreeSet::new(),
        }
    }

    /// Returns whether the names the client asks for changed.
    pub fn request(&mut self, kind: Kind, request: &Request, now: Instant) -> bool {
        let protocol = self.protocol;
        if kind == Kind::Cluster && !self.subscriptions.contains_key(&kind) {
            self.hold_earlier(&request.held);
        }
        let subscription = self.subscriptions.entry(kind);
        subscription.or_insert_with(|| Subscription::new(kind, protocol)).request(request, now)
    }

    /// Clusters of an earlier stream, by name and version: what they were is not known any more, and
    /// never sent, because the client has that version.
    fn hold_earlier(&mut self, held: &[(String, u64)]) {
        for (name, version) in held {
            let name: Arc<str> = name.as_str().into();
            let earlier = Resource { name: name.clone(), version: *version, any: Bytes::new() };
            self.clusters.insert(name, Arc::new(earlier));
        }
        self.has_earlier = !held.is_empty();
        self.is_config_new |= self.has_earlier;
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
        self.is_config_new |= pending.config;
        for (kind, subscription) in &mut self.subscriptions {
            if pending.config {
                subscription.mark_all(pending.since);
            } else if *kind == Kind::Endpoints {
                subscription.mark(&pending.endpoints, pending.since);
            }
        }
    }

    /// The next answer, in order; `None` when the client has been sent everything.
    pub fn next(&mut self, view: &dyn View) -> Option<Push> {
        if std::mem::take(&mut self.is_config_new) {
            self.gone = self.clusters_gone(view);
        }
        let gone = std::mem::take(&mut self.gone);
        let push = self.next_in_order(&Holding { view, held: &gone });
        if push.is_some() || gone.is_empty() || !self.may_drop_clusters() {
            self.gone = gone;
            return push;
        }
        // What refers to clusters is settled: now those that nothing names can go.
        self.subscriptions.get_mut(&Kind::Cluster)?.mark_all(None);
        self.next_in_order(view)
    }

    pub fn status(&self, view: &dyn View) -> Vec<KindStatus> {
        let status = |(kind, subscription): (&Kind, &Subscription)| KindStatus {
            kind: *kind,
            wanted: subscription.wanted(view),
            progress: subscription.progress().clone(),
        };
        self.subscriptions.iter().map(status).collect()
    }

    fn next_in_order(&mut self, view: &dyn View) -> Option<Push> {
        let push = self.subscriptions.values_mut().find_map(|one| one.plan(view))?;
        if push.kind == Kind::Cluster {
            self.sent_clusters(&push, view);
        }
        Some(push)
    }

    fn clusters_gone(&self, view: &dyn View) -> BTreeMap<Arc<str>, Arc<Resource>> {
        let gone = self.clusters.iter().filter(|(name, _)| view.get(Kind::Cluster, name).is_none());
        gone.map(|(name, resource)| (Arc::clone(name), Arc::clone(resource))).collect()
    }

    fn may_drop_clusters(&self) -> bool {
        let clusters = self.subscriptions.get(&Kind::Cluster);
        if self.has_earlier && clusters.is_some_and(Subscription::is_outstanding) {
            return false;
        }
        let referring = [Kind::Listener, Kind::Route];
        referring
            .iter()
            .all(|kind| self.subscriptions.get(kind).is_none_or(Subscription::is_settled))
    }

    fn sent_clusters(&mut self, push: &Push, view: &dyn View) {
        let sent = push.resources.iter().map(|one| (Arc::clone(&one.name), Arc::clone(one)));
        self.clusters.extend(sent);
        self.clusters.retain(|name, _| view.get(Kind::Cluster, name).is_some());
        if let Some(endpoints) = self.subscriptions.get_mut(&Kind::Endpoints) {
            endpoints.mark_again(&push.changed);
        }
    }
}

/// A view in which clusters that are gone are still there.
struct Holding<'a> {
    view: &'a dyn View,
    held: &'a BTreeMap<Arc<str>, Arc<Resource>>,
}

impl View for Holding<'_> {
    fn get(&self, kind: Kind, name: &str) -> Option<Arc<Resource>> {
        let held = || (kind == Kind::Cluster).then(|| self.held.get(name).cloned()).flatten();
        self.view.get(kind, name).or_else(held)
    }

    fn names(&self, kind: Kind) -> Vec<Arc<str>> {
        let mut names = self.view.names(kind);
        if kind == Kind::Cluster {
            names.extend(self.held.keys().cloned());
        }
        names
    }
}

#[cfg(test)]
mod tests;
