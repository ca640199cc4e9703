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
use super::kind::Kind;
use super::resource::Resource;
use super::{Push, View};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Asking for everything, by name.
const WILDCARD: &str = "*";

/// The two variants of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    StateOfTheWorld,
    Delta,
}

/// A request in the words of either variant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// State of the world: all names, every time. Delta: names to add.
    pub names: Vec<String>,
    /// Delta only: names to take away.
    pub unsubscribe: Vec<String>,
    /// Delta only, on the first request: what the client still holds from an earlier stream.
    pub held: Vec<(String, u64)>,
    /// The answer this request speaks of; empty if it speaks of none.
    pub nonce: String,
    /// Why the client refused that answer, in its own words.
    pub error: Option<String>,
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    pub version: u64,
    pub message: String,
    pub at: Instant,
    /// How many answers in a row were refused.
    pub count: u32,
}

/// How far a client has followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub sent: Option<u64>,
    pub acked: Option<u64>,
    /// Until something newer is accepted.
    pub nacked: Option<Nack>,
    /// From the change to the acknowledgement, the last time.
    pub convergence: Option<Duration>,
    /// The oldest change that is not acknowledged yet.
    waiting_since: Option<Instant>,
}

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
        self.waiting_since(since);
    }

    /// Anything may have changed.
    pub fn mark_all(&mut self, since: Option<Instant>) {
        self.dirty = Dirty::All;
        self.waiting_since(since);
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
            // What changed was changed back, or was of no concern.
            self.progress.waiting_since.take_if(|_| !self.is_outstanding);
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
            None => {
                self.progress.acked = self.progress.sent;
                self.progress.nacked = None;
                let since = self.progress.waiting_since.take();
                self.progress.convergence =
                    since.map(|since| now - since).or(self.progress.convergence);
            }
            Some(message) => {
                let count = self.progress.nacked.as_ref().map_or(0, |nack| nack.count);
                self.progress.nacked = Some(Nack {
                    version: self.progress.sent.unwrap_or_default(),
                    message: message.to_owned(),
                    at: now,
                    count: count.saturating_add(1),
                });
            }
        }
    }

    fn replace_names(&mut self, names: &[String], is_start: bool) -> bool {
        let explicit = names.iter().any(|name| name == WILDCARD);
        let named = names.iter().filter(|name| *name != WILDCARD);
        let names: BTreeSet<Arc<str>> = named.map(|name| name.as_str().into()).collect();
        self.was_named |= explicit || !names.is_empty();
        let wildcard = explicit || (self.kind.is_whole() && !self.was_named);
        if is_start {
            // The client starts over: whatever it was sent before, it asks for all of it now. What is
            // still on its way to it may hold what is gone by then, and only a whole answer says so.
            self.forget_all();
            self.must_answer = wildcard || (self.kind.is_whole() && 0 < self.nonce);
            self.dirty = Dirty::All;
        }
        if wildcard != self.wildcard {
            self.wildcard = wildcard;
            self.dirty = Dirty::All;
        }
        let added: BTreeSet<Arc<str>> = names.difference(&self.names).cloned().collect();
        let gone: Vec<Arc<str>> = self.names.difference(&names).cloned().collect();
        self.names = names;
        gone.iter().for_each(|name| self.let_go(name));
        self.mark(&added, None);
        !added.is_empty() || !gone.is_empty()
    }

    fn adjust_names(&mut self, request: &Request, is_first: bool) -> bool {
        let explicit = |names: &[String]| names.iter().any(|name| name == WILDCARD);
        for name in request.unsubscribe.iter().filter(|name| *name != WILDCARD) {
            self.names.remove(name.as_str());
            self.let_go(name);
        }
        let added: BTreeSet<Arc<str>> = request
            .names
            .iter()
            .filter(|name| *name != WILDCARD)
            .map(|name| name.as_str().into())
            .collect();
        self.names.extend(added.iter().cloned());
        let by_silence = is_first && self.kind.is_whole() && request.names.is_empty();
        if (explicit(&request.names) || by_silence) && !self.wildcard {
            self.wildcard = true;
            self.must_answer = true;
            self.dirty = Dirty::All;
        }
        if self.wildcard {
            // Whoever lets go of a name and still wants everything does not know whether it is part of
            // that: it is told.
            let gone = request.unsubscribe.iter().filter(|name| *name != WILDCARD);
            self.mark(&gone.map(|name| name.as_str().into()).collect(), None);
        }
        if explicit(&request.unsubscribe) && self.wildcard {
            self.wildcard = false;
            let kept = self.names.clone();
            let gone: Vec<_> =
                self.sent.keys().filter(|name| !kept.contains(*name)).cloned().collect();
            gone.iter().for_each(|name| self.let_go(name));
        }
        for (name, version) in request.held.iter().filter(|_| is_first) {
            self.set_sent(name.as_str().into(), Some(*version));
        }
        // Asking again for a name is a wish to get it again.
        if !is_first {
            self.again.extend(added.iter().cloned());
        }
        self.mark(&added, None);
        !added.is_empty() || !request.unsubscribe.is_empty()
    }

    fn wants(&self, name: &Arc<str>) -> bool {
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

    fn waiting_since(&mut self, since: Option<Instant>) {
        if let Some(since) = since {
            self.progress.waiting_since.get_or_insert(since);
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
