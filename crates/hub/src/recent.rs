//! What was lately shown to watchers of one kind, so that the next one is shown the same bytes.
use crate::error::Error;
use crate::store_accessor::encode_at;
use orrery_api::{Encoded, Kind};
use orrery_store::{Entry, Revision};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How many changes are kept. Watchers that keep up are within a few of each other; one that is
/// further behind has its bytes made for itself and costs the others nothing.
const CHANGES_MAX: usize = 1024;
/// How many bytes of stored values they may stand for. Each is kept in a few forms.
const BYTES_MAX: usize = 4 << 20;

/// A change: the revision it is shown at, the revision of the value, and its key.
type Change = (Revision, Revision, Arc<str>);

#[derive(Debug, Default)]
pub struct Recent {
    shown: Mutex<Shown>,
}

#[derive(Debug, Default)]
struct Shown {
    changes: BTreeMap<Change, Encoded>,
    bytes: usize,
    /// Whether anything was asked for since the last look.
    asked: bool,
}

impl Recent {
    /// An entry at a revision, made once for all watchers that ask for it at about the same time.
    pub fn encoded(
        &self,
        kind: &Arc<Kind>,
        entry: &Entry,
        revision: Revision,
    ) -> Result<Encoded, Error> {
        let change = (revision, entry.modified, entry.key.clone());
        let mut shown = self.shown.lock();
        shown.asked = true;
        if let Some(known) = shown.changes.get(&change) {
            return Ok(known.clone());
        }
        let made = encode_at(kind, entry, revision)?;
        shown.bytes += made.size();
        shown.changes.insert(change, made.clone());
        while CHANGES_MAX < shown.changes.len() || BYTES_MAX < shown.bytes {
            // The oldest goes, which may be the one that was asked for.
            let Some((_, oldest)) = shown.changes.pop_first() else { break };
            shown.bytes -= oldest.size();
        }
        Ok(made)
    }

    /// Forgets everything, if nothing was asked for since this was last called: all who watch have seen it.
    pub fn rest(&self) {
        let mut shown = self.shown.lock();
        if !std::mem::take(&mut shown.asked) {
            *shown = Shown::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn what_nobody_asks_for_any_more_is_forgotten() {
        let scheme = orrery_api::Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
        let scheme = scheme.build().expect("the kinds are well defined");
        let kind = scheme.resolve("", "Project").expect("a known kind");
        let (created, modified) = (Revision(1), Revision(1));
        let entry = Entry { key: "k".into(), value: Bytes::new(), created, modified };
        let recent = Recent::default();
        recent.encoded(&kind, &entry, Revision(2)).expect("it can be read");
        let kept = || recent.shown.lock().changes.len();
        recent.rest();
        assert_eq!(kept(), 1, "it was asked for a moment ago");
        recent.rest();
        assert_eq!(kept(), 0);
    }
}
