//! What servers tell each other about keys, in the store.
use orrery_seal::{KeyId, Keyring};
use orrery_store::{Engine, Entry, Error, ListRequest, Revision};
use std::collections::BTreeMap;

pub const ALL: &str = "sealing/";
pub const USE: &str = "sealing/use";
pub const RING: &str = "sealing/ring";
pub const SERVERS: &str = "sealing/servers/";
/// Where the store keeps the leases of servers.
pub const LEASES: &str = "leases/servers/";

/// Everything that is there, at one revision.
#[derive(Clone, Debug, Default)]
pub struct Agreement {
    pub revision: Revision,
    /// The key to seal with; absent before the first server with a key.
    pub used: Option<(KeyId, Revision)>,
    /// A ring that is being introduced, sealed.
    pub announced: Option<Entry>,
    /// The keys of each server that ever said so.
    pub servers: BTreeMap<String, (Vec<KeyId>, Revision)>,
}

impl Agreement {
    pub async fn read(engine: &dyn Engine) -> Result<Self, Error> {
        let listing = engine.list(ListRequest::prefix(ALL)).await?;
        let mut agreement = Self { revision: listing.revision, ..Self::default() };
        for entry in listing.entries {
            let ids = key_ids(&entry.value);
            if &*entry.key == USE {
                agreement.used = ids.first().map(|id| (*id, entry.modified));
            } else if &*entry.key == RING {
                agreement.announced = Some(entry);
            } else if let Some(server) = entry.key.strip_prefix(SERVERS) {
                agreement.servers.insert(server.to_owned(), (ids, entry.modified));
            }
        }
        Ok(agreement)
    }

    /// The ring that is being introduced, for those who hold the key before it.
    pub fn introduced(&self, ring: &Keyring) -> Option<Keyring> {
        let entry = self.announced.as_ref()?;
        let text = ring.open(RING.as_bytes(), &entry.value).ok()?;
        std::str::from_utf8(&text).ok()?.parse().ok()
    }

    /// What a server with this ring goes on with: every key that it can learn, led by the one that
    /// is agreed on. `None` if it does not hold that one.
    pub fn settle(&self, ring: &Keyring) -> Option<Keyring> {
        let learned = match self.introduced(ring) {
            Some(introduced) => ring.joined(&introduced),
            None => ring.clone(),
        };
        match self.used {
            Some((used, _)) => learned.led_by(used),
            None => Some(learned),
        }
    }
}

/// Ids as they stand in the store: words, in hexadecimal.
pub fn key_ids(value: &[u8]) -> Vec<KeyId> {
    let text = std::str::from_utf8(value).unwrap_or_default();
    text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

pub fn words(ids: impl IntoIterator<Item = KeyId>) -> String {
    ids.into_iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn entry(value: Vec<u8>) -> Entry {
        let (created, modified) = (Revision(2), Revision(3));
        Entry { key: RING.into(), value: Bytes::from(value), created, modified }
    }

    fn ids(ring: &Keyring) -> Vec<KeyId> {
        ring.ids().collect()
    }

    #[test]
    fn a_server_learns_a_key_and_uses_it_when_it_is_agreed_on() {
        let old = Keyring::generate();
        let new = old.rotated();
        let text = new.to_text();
        let mut agreement = Agreement {
            used: Some((old.current(), Revision(1))),
            announced: Some(entry(old.seal(RING.as_bytes(), text.as_bytes()))),
            ..Agreement::default()
        };
        let learned = agreement.settle(&old).expect("it holds the agreed key");
        assert_eq!(ids(&learned), [old.current(), new.current()], "known, and not used yet");
        agreement.used = Some((new.current(), Revision(4)));
        let using = agreement.settle(&learned).expect("it holds the agreed key");
        assert_eq!(ids(&using), [new.current(), old.current()]);
        assert_eq!(ids(&agreement.settle(&using).expect("the same")), ids(&using), "idempotent");
    }

    #[test]
    fn a_server_without_the_agreed_key_is_told_apart() {
        let (ours, theirs) = (Keyring::generate(), Keyring::generate());
        let used = Some((theirs.current(), Revision(1)));
        let agreement = Agreement { used, ..Agreement::default() };
        assert!(agreement.settle(&ours).is_none());
        let sealed_for_others = theirs.seal(RING.as_bytes(), b"whatever");
        let announced = Some(entry(sealed_for_others));
        let agreement = Agreement { used, announced, ..Agreement::default() };
        assert!(agreement.settle(&ours).is_none());
        assert!(Agreement::default().settle(&ours).is_some(), "the first server");
    }

    #[test]
    fn ids_are_words() {
        let ring = Keyring::generate().rotated();
        assert_eq!(key_ids(words(ring.ids()).as_bytes()), ids(&ring));
        assert_eq!(key_ids(b"nonsense \xff"), []);
    }
}
