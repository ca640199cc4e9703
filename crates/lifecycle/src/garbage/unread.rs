//! What cannot be read. It may have owners all the same, and its bytes hold the uid of each of them: an object that cannot
//! be read is waited for by those whose uid stands in it, and by nobody else.
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// The full name of a kind, and the name of an object in its project or its key in the store.
type What = (String, String);

/// Written by the watches, read by the collector.
#[derive(Debug, Default)]
pub struct Unread {
    found: Mutex<BTreeMap<What, Met>>,
}

#[derive(Debug)]
struct Met {
    bytes: Bytes,
    /// Whether it was met since its watch began anew.
    again: bool,
}

impl Unread {
    /// Takes note of an object. Whether that is news.
    pub fn add(&self, kind: &str, name: &str, bytes: &Bytes) -> bool {
        let met = Met { bytes: bytes.clone(), again: true };
        let before = self.found.lock().insert((kind.to_owned(), name.to_owned()), met);
        before.is_none_or(|before| before.bytes != bytes)
    }

    /// It can be read, or is gone.
    pub fn remove(&self, kind: &str, name: &str) {
        self.found.lock().remove(&(kind.to_owned(), name.to_owned()));
    }

    pub fn is_empty(&self) -> bool {
        self.found.lock().is_empty()
    }

    /// The watch of a kind begins anew. What it met before holds until it has told everything.
    pub fn begin(&self, kind: &str) {
        let mut found = self.found.lock();
        found.iter_mut().filter(|((of, _), _)| of == kind).for_each(|(_, met)| met.again = false);
    }

    /// The watch of a kind has told everything: what it did not meet again is read or gone.
    pub fn begun(&self, kind: &str) {
        self.found.lock().retain(|(of, _), met| of != kind || met.again);
    }

    /// Something that may belong to whoever has this uid.
    pub fn naming(&self, uid: &str) -> Option<String> {
        let found = self.found.lock();
        let names = |bytes: &Bytes| bytes.windows(uid.len()).any(|part| part == uid.as_bytes());
        let mut all = found.iter().filter(|_| !uid.is_empty());
        all.find(|(_, met)| names(&met.bytes)).map(|((kind, name), _)| format!("{kind} {name}"))
    }
}
