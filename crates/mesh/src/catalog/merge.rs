//! Merging endpoints: the same lists give the same answer, in whatever order they come.
use crate::address::Endpoint;
use crate::names::ServiceName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Sorted, each endpoint once: two providers that see the same Envoy see one Envoy.
pub fn merge<'a>(lists: impl IntoIterator<Item = &'a [Endpoint]>) -> Arc<[Endpoint]> {
    let all: BTreeSet<Endpoint> = lists.into_iter().flatten().copied().collect();
    all.into_iter().collect()
}

/// A number made of the content alone.
pub fn version(endpoints: &BTreeMap<ServiceName, Arc<[Endpoint]>>) -> u64 {
    let mut hash = Xxh3::new();
    for (service, endpoints) in endpoints {
        hash.update(service.as_str().as_bytes());
        for endpoint in endpoints.iter() {
            hash.update(endpoint.to_string().as_bytes());
            hash.update(b",");
        }
        hash.update(b";");
    }
    hash.digest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    fn endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
        let one = (0_u8..4, 1_u16..4).prop_map(|(host, port)| {
            Endpoint::of(SocketAddr::from(([10, 0, 0, host], port))).unwrap()
        });
        proptest::collection::vec(one, 0..8)
    }

    fn merged(lists: &[Vec<Endpoint>]) -> Arc<[Endpoint]> {
        merge(lists.iter().map(Vec::as_slice))
    }

    proptest! {
        /// proves: MSH-03
        #[test]
        fn order_does_not_matter_and_nothing_is_lost_or_doubled(
            lists in proptest::collection::vec(endpoints(), 0..5)
        ) {
            let once = merged(&lists);
            let turned: Vec<_> = lists.iter().rev().map(|list| {
                list.iter().rev().copied().collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(&once, &merged(&turned));
            prop_assert_eq!(&once, &merge([&*once, &*once]));
            for endpoint in lists.iter().flatten() {
                prop_assert_eq!(once.iter().filter(|one| *one == endpoint).count(), 1);
            }
            prop_assert!(once.iter().all(|one| lists.iter().flatten().any(|other| one == other)));
        }

        #[test]
        fn versions_tell_listings_apart(one in endpoints(), other in endpoints()) {
            let listing = |list: &[Endpoint]| {
                BTreeMap::from([("a".parse::<ServiceName>().unwrap(), merge([list]))])
            };
            let (one, other) = (listing(&one), listing(&other));
            prop_assert_eq!(version(&one) == version(&other), one == other);
        }
    }
}
