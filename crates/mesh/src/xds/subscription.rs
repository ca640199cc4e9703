//! What one client wants of one kind, what it was sent, and what it said to that.
//!
//! ```text
//!              names change        resource changes
//!                   │                     │
//!                   v                     v
//!   request ──> [ names ] ──────────> [ dirty ] ──plan(view)──> answer with a new nonce
//!                                                                  │
//!   request with that nonce: ACK (acked = sent) or NACK (kept, last good stays) <──┘
//!   request with another nonce: stale; it says nothing of the answer, but its names count
//! ```
//! A refused answer is not repeated until something in it changes, so there is no hot loop.
mod names;

use super::kind::Kind;
use super::progress::Progress;
use super::request::{Protocol, Request};
use super::resource::Resource;
use super::{Push, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::time::Instant;

/// What has to be compared with the view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Dirty {
    #[default]
    Nothing,
    Names(BTreeSet<Arc<str>>),
    All,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Subscription {
    kind: Kind,
    protocol: Protocol,
    wildcard: bool,
    /// Once names were given, no names means none and no longer everything.
    was_named: bool,
    names: BTreeSet<Arc<str>>,
    /// What the client holds as far as we know; `None` for a name it was told does not exist.
    sent: BTreeMap<Arc<str>, Option<u64>>,
    /// The versions in `sent`, added up: the version of the whole.
    sum: u64,
    dirty: Dirty,
    /// To be sent even if unchanged.
    again: BTreeSet<Arc<str>>,
    must_answer: bool,
    nonce: u64,
    /// The client has asked before, on this stream.
    has_begun: bool,
    is_outstanding: bool,
    progress: Progress,
}

impl Subscription {
    pub fn new(kind: Kind, protocol: Protocol) -> Self {
        Self {
            kind,
            protocol,
            wildcard: false,
            was_named: false,
            names: BTreeSet::new(),
            sent: BTreeMap::new(),
            sum: 0,
            dirty: Dirty::Nothing,
            again: BTreeSet::new(),
            must_answer: false,
            nonce: 0,
            has_begun: false,
            is_outstanding: false,
            progress: Progress::default(),
        }
    }

    pub fn names(&self) -> &BTreeSet<Arc<str>> {
        &self.names
    }

    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Something was sent that the client has not answered.
    pub fn is_outstanding(&self) -> bool {
        self.is_outstanding
    }

    /// The client asks for nothing, and was sent nothing.
    pub fn is_idle(&self) -> bool {
        !self.wildcard && self.names.is_empty() && self.progress.sent.is_none()
    }

    /// Nothing to send, nothing unanswered, nothing refused.
    pub fn is_settled(&self) -> bool {
        let is_clean = self.dirty == Dirty::Nothing && self.again.is_empty() && !self.must_answer;
        is_clean && !self.is_outstanding && self.progress.nacked.is_none()
    }

    /// Takes a request. Verdict first, names after: an acknowledgement may carry new names, and a
    /// stale request too. Returns whether the names changed.
    pub fn request(&mut self, request: &Request, now: Instant) -> bool {
        let is_start = self.nonce == 0 || request.nonce.is_empty();
        if !is_start && request.nonce == self.nonce.to_string() {
            self.verdict(request.error.as_deref(), now);
        }
        let changed = match self.protocol {
            Protocol::StateOfTheWorld => self.replace_names(&request.names, is_start),
            Protocol::Delta => self.adjust_names(request, !self.has_begun),
        };
        self.has_begun = true;
        self.recount();
        changed
    }

    /// Some resources may have changed.
    pub fn mark(&mut self, names: &BTreeSet<Arc<str>>, since: Option<Instant>) {
        match &mut self.dirty {
            Dirty::All => {}
            Dirty::Names(dirty) => dirty.extend(names.iter().cloned()),
            Dirty::Nothing => self.dirty = Dirty::Names(names.clone()),
        }
        self.progress.wait_since(since);
    }

    /// Anything may have changed.
    pub fn mark_all(&mut self, since: Option<Instant>) {
        self.dirty = Dirty::All;
        self.progress.wait_since(since);
    }

    /// These must be sent again where the client wants them, changed or not.
    pub fn mark_again<'a>(&mut self, names: impl IntoIterator<Item = &'a Arc<str>>) {
        let wanted: BTreeSet<Arc<str>> =
            names.into_iter().filter(|name| self.wants(name)).cloned().collect();
        self.mark(&wanted, None);
        self.again.extend(wanted);
    }

    /// The version of what the client should have by now.
    pub fn wanted(&self, view: &dyn View) -> u64 {
        let resources = self.wanted_names(view).into_iter();
        let versions = resources.filter_map(|name| Some(view.get(self.kind, &name)?.version));
        versions.fold(0, u64::wrapping_add)
    }

    /// What to send now, if anything.
    pub fn plan(&mut self, view: &dyn View) -> Option<Push> {
        let (changed, removed) = self.difference(view);
        self.dirty = Dirty::Nothing;
        self.again.clear();
        let must_answer = std::mem::take(&mut self.must_answer);
        let nothing = match (self.protocol, self.kind.is_whole()) {
            (Protocol::Delta, _) | (_, true) => changed.is_empty() && removed.is_empty(),
            (Protocol::StateOfTheWorld, false) => changed.is_empty(),
        };
        self.remember(&changed, &removed);
        if nothing && !must_answer {
            self.recount();
            if !self.is_outstanding {
                self.progress.wait_no_more();
            }
            return None;
        }
        let names = changed.iter().map(|resource| Arc::clone(&resource.name)).collect();
        let is_whole = self.protocol == Protocol::StateOfTheWorld && self.kind.is_whole();
        let resources = if is_whole { self.everything(view) } else { changed };
        let removed = if self.protocol == Protocol::Delta { removed } else { Vec::new() };
        self.nonce += 1;
        self.is_outstanding = true;
        self.progress.sent = Some(self.sum);
        let (kind, version, nonce) = (self.kind, self.sum, self.nonce);
        Some(Push { kind, version, nonce, resources, removed, changed: names })
    }

    /// What the client no longer asks for, or can no longer have, is not part of what it has. That
    /// takes no answer, and so it changes how far the client has followed without one.
    fn recount(&mut self) {
        if self.progress.sent.is_none() {
            return;
        }
        self.progress.sent = Some(self.sum);
        if !self.is_outstanding && self.progress.nacked.is_none() {
            self.progress.acked = self.progress.sent;
        }
    }

    fn verdict(&mut self, error: Option<&str>, now: Instant) {
        let was_outstanding = std::mem::take(&mut self.is_outstanding);
        match error {
            // A repeated acknowledgement says nothing new; a refusal stands until a newer answer.
            None if !was_outstanding => {}
            None => self.progress.accepted(now),
            Some(message) => self.progress.refused(message, now),
        }
    }

    pub fn wants(&self, name: &Arc<str>) -> bool {
        self.wildcard || self.names.contains(name)
    }

    fn wanted_names(&self, view: &dyn View) -> BTreeSet<Arc<str>> {
        let all = if self.wildcard { view.names(self.kind) } else { Vec::new() };
        all.into_iter().chain(self.names.iter().cloned()).collect()
    }

    fn everything(&self, view: &dyn View) -> Vec<Arc<Resource>> {
        let names = self.wanted_names(view).into_iter();
        names.filter_map(|name| view.get(self.kind, &name)).collect()
    }

    /// What the client lacks, and what it has too much.
    fn difference(&self, view: &dyn View) -> (Vec<Arc<Resource>>, Vec<Arc<str>>) {
        let candidates: BTreeSet<Arc<str>> = match &self.dirty {
            Dirty::Nothing => BTreeSet::new(),
            Dirty::Names(names) => names.iter().filter(|name| self.wants(name)).cloned().collect(),
            Dirty::All => {
                self.wanted_names(view).into_iter().chain(self.sent.keys().cloned()).collect()
            }
        };
        let (mut changed, mut removed) = (Vec::new(), Vec::new());
        for name in candidates {
            let held = self.sent.get(&name);
            if view.is_kept(self.kind, &name, held.is_some()) && !self.again.contains(&name) {
                continue;
            }
            match view.get(self.kind, &name) {
                Some(resource) => {
                    let is_new = held != Some(&Some(resource.version));
                    if is_new || self.again.contains(&name) {
                        changed.push(resource);
                    }
                }
                None if held != Some(&None) && self.must_tell_absence(held) => removed.push(name),
                None => {}
            }
        }
        (changed, removed)
    }

    /// In state of the world a name that never existed is simply not in the answer.
    fn must_tell_absence(&self, held: Option<&Option<u64>>) -> bool {
        match self.protocol {
            Protocol::Delta => true,
            Protocol::StateOfTheWorld => held.is_some(),
        }
    }

    fn remember(&mut self, changed: &[Arc<Resource>], removed: &[Arc<str>]) {
        for resource in changed {
            self.set_sent(Arc::clone(&resource.name), Some(resource.version));
        }
        for name in removed {
            let named = self.names.contains(name) && self.protocol == Protocol::Delta;
            match named {
                true => self.set_sent(Arc::clone(name), None),
                false => self.let_go(name),
            }
        }
    }

    fn set_sent(&mut self, name: Arc<str>, version: Option<u64>) {
        let old = self.sent.insert(name, version).flatten();
        let sum = self.sum.wrapping_sub(old.unwrap_or_default());
        self.sum = sum.wrapping_add(version.unwrap_or_default());
    }

    fn let_go(&mut self, name: &str) {
        let old = self.sent.remove(name).flatten();
        self.sum = self.sum.wrapping_sub(old.unwrap_or_default());
    }

    fn forget_all(&mut self) {
        self.sent.clear();
        self.sum = 0;
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
