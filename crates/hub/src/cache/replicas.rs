//! Which server keeps an answer, and how the others get it.
use crate::error::Error;
use crate::options::{GetOptions, ListOptions, Page};
use async_trait::async_trait;
use orrery_api::{Encoded, Kind};
use sha2::{Digest as _, Sha256};
use std::sync::Arc;

/// Why another server has not given what it was asked for.
#[derive(Debug)]
pub enum Missed {
    /// It cannot be asked, or does not serve the kind: whoever asked goes to the upstream itself.
    Unreachable(String),
    /// It has asked the upstream, and this is what the upstream says.
    Refused(Error),
}

/// The servers that share a store, as one of them sees the others. They need not agree about who is there: that two
/// keep the same is waste, and no danger.
#[async_trait]
pub trait Replicas: Send + Sync + 'static {
    /// The address of the server that keeps what has this key; `None` if it is this one.
    fn owner(&self, key: &str) -> Option<String>;

    async fn get(
        &self,
        server: &str,
        kind: &Arc<Kind>,
        options: GetOptions,
    ) -> Result<Encoded, Missed>;

    async fn list(
        &self,
        server: &str,
        kind: &Arc<Kind>,
        options: ListOptions,
    ) -> Result<Page<Encoded>, Missed>;
}

/// For a server that is alone.
pub struct Alone;

#[async_trait]
impl Replicas for Alone {
    fn owner(&self, _: &str) -> Option<String> {
        None
    }

    async fn get(&self, _: &str, _: &Arc<Kind>, _: GetOptions) -> Result<Encoded, Missed> {
        Err(Missed::Unreachable("there is no other server".to_owned()))
    }

    async fn list(&self, _: &str, _: &Arc<Kind>, _: ListOptions) -> Result<Page<Encoded>, Missed> {
        Err(Missed::Unreachable("there is no other server".to_owned()))
    }
}

/// The owner of a key among servers: the one that scores highest for it. When one comes or goes, only the keys that it
/// wins or had won change their owner.
pub fn owner_of<'a>(key: &str, servers: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    servers.into_iter().max_by_key(|server| (score(key, server), *server))
}

/// The same on every server and in every version.
pub(super) fn score(key: &str, server: &str) -> u64 {
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    hash.update([0]);
    hash.update(server.as_bytes());
    let digest = hash.finalize();
    digest.iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A change of these would make servers of two versions ask each other in vain.
    #[test]
    fn owners_are_the_same_everywhere() {
        let servers = ["one", "two", "three"];
        let owners: Vec<_> = ["a", "b", "c", "d", "e", "f"]
            .iter()
            .map(|key| owner_of(key, servers).expect("one of them"))
            .collect();
        assert_eq!(owners, ["two", "two", "three", "three", "three", "three"]);
        assert_eq!(owner_of("a", []), None);
    }

    #[test]
    fn keys_are_spread() {
        let servers = ["one", "two", "three"];
        let mut counts = std::collections::HashMap::new();
        for key in 0..3000 {
            *counts.entry(owner_of(&format!("get shop/{key}"), servers)).or_insert(0) += 1;
        }
        assert!(counts.values().all(|count| (800..1200).contains(count)), "{counts:?}");
    }

    proptest! {
        /// proves: HUB-14
        #[test]
        fn only_the_keys_of_one_who_goes_get_another_owner(
            keys in proptest::collection::vec("[a-z/]{1,12}", 1..40),
            servers in proptest::collection::btree_set("[a-z0-9]{4,8}", 2..6),
            order in any::<prop::sample::Index>(),
        ) {
            let all: Vec<&str> = servers.iter().map(String::as_str).collect();
            let gone = all[order.index(all.len())];
            let rest: Vec<&str> = all.iter().copied().filter(|it| *it != gone).collect();
            let turned: Vec<&str> = rest.iter().rev().copied().collect();
            for key in &keys {
                let before = owner_of(key, all.iter().copied());
                let after = owner_of(key, rest.iter().copied());
                prop_assert!(before == Some(gone) || before == after);
                prop_assert_eq!(after, owner_of(key, turned.iter().copied()), "order is nothing");
            }
        }
    }
}
