//! Which names a client asks for, as a request of either variant changes them.
use super::{Dirty, Subscription};
use crate::xds::request::Request;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Asking for everything, by name.
const WILDCARD: &str = "*";

impl Subscription {
    /// State of the world: these are all.
    pub(super) fn replace_names(&mut self, names: &[String], is_start: bool) -> bool {
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
        if !self.wildcard {
            self.let_go_of_others();
        }
        // What is on its way may hold an earlier state of what comes back, and only a whole answer says
        // that it is gone.
        self.must_answer |= self.kind.is_whole() && self.is_outstanding && !added.is_empty();
        self.mark(&added, None);
        !added.is_empty() || !gone.is_empty()
    }

    /// Delta: some come, some go.
    pub(super) fn adjust_names(&mut self, request: &Request, is_first: bool) -> bool {
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
            self.let_go_of_others();
        }
        for (name, version) in request.held.iter().filter(|_| is_first) {
            self.set_sent(name.as_str().into(), Some(*version));
            // It has accepted that on an earlier stream, and where it is still right, nothing is sent on this one.
            self.progress.sent = Some(self.sum);
        }
        // Asking again for a name is a wish to get it again.
        if !is_first {
            self.again.extend(added.iter().cloned());
        }
        self.mark(&added, None);
        !added.is_empty() || !request.unsubscribe.is_empty()
    }

    /// Whoever no longer asks for everything has no more than it names.
    fn let_go_of_others(&mut self) {
        let others = self.sent.keys().filter(|name| !self.names.contains(*name));
        let others: Vec<Arc<str>> = others.cloned().collect();
        others.iter().for_each(|name| self.let_go(name));
    }
}
