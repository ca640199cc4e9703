//! Merging endpoints: the same lists give the same answer, in whatever order they come.
use crate::address::{Endpoint, Placed};
use crate::names::{Destination, PortName};
use crate::topology::ServicePort;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// Sorted, each endpoint once: two providers that see the same Envoy see one Envoy.
pub fn merge<'a, T>(lists: impl IntoIterator<Item = &'a [T]>) -> Arc<[T]>
where
    T: Ord + Clone + 'a,
{
    let all: BTreeSet<&T> = lists.into_iter().flatten().collect();
    all.into_iter().cloned().collect()
}

/// Those that stand for one port of a service with these ports; `None` is the first. Whoever knows no
/// name of a port, or another than was declared, says that it is the first.
pub fn of_port(
    ports: &[ServicePort],
    wanted: Option<&PortName>,
    all: &[Placed],
) -> Arc<[Endpoint]> {
    let port = match wanted {
        None => ports.first(),
        Some(wanted) => ports.iter().find(|port| port.is_called(wanted)),
    };
    let is_known = |name: &PortName| ports.iter().any(|port| port.is_called(name));
    let may_be_first = match (port, wanted) {
        (Some(port), _) => ports.first().is_some_and(|first| first.name == port.name),
        (None, wanted) => wanted.is_none(),
    };
    let is_meant = |one: &&Placed| match &one.port {
        Some(name) if is_known(name) => port.is_some_and(|port| port.is_called(name)),
        Some(_) | None => may_be_first && one.is_first,
    };
    let found: BTreeSet<Endpoint> = all.iter().filter(is_meant).map(|one| one.endpoint).collect();
    found.into_iter().collect()
}

/// A number made of the content alone.
pub fn version(endpoints: &BTreeMap<Destination, Arc<[Endpoint]>>) -> u64 {
    let mut hash = Xxh3::new();
    for (destination, endpoints) in endpoints {
        hash.update(destination.shared().as_bytes());
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

    /// `http@1` stands for the port of that name, `http*@1` is also the first, `@1` knows no name.
    #[track_caller]
    fn check_ports(ports: &str, wanted: Option<&str>, placed: &str, expect: &[u16]) {
        let ports: Vec<ServicePort> = ports.split_whitespace().map(Into::into).collect();
        let placed = placed.split_whitespace().map(|text| {
            let (name, port) = text.split_once('@').unwrap();
            let endpoint = SocketAddr::from(([10, 0, 0, 1], port.parse().unwrap()));
            let is_first = name.is_empty() || name.ends_with('*');
            let name = Some(name.trim_end_matches('*')).filter(|name| !name.is_empty());
            let port = name.map(PortName::from);
            Placed { endpoint: Endpoint::of(endpoint).unwrap(), port, is_first }
        });
        let found =
            of_port(&ports, wanted.map(PortName::from).as_ref(), &placed.collect::<Vec<_>>());
        let found: Vec<u16> = found.iter().map(|one| one.port.number()).collect();
        assert_eq!(found, expect);
    }

    /// proves: MSH-05
    #[test]
    fn a_port_has_the_endpoints_that_stand_for_it() {
        check_ports("http", None, "@1 @2", &[1, 2]);
        check_ports("http", None, "http*@1 metrics@2", &[1]);
        check_ports("http", None, "web*@1 metrics@2", &[1]);
        check_ports("http grpc", None, "http*@1 grpc@2 @3", &[1, 3]);
        check_ports("http grpc", Some("http"), "http*@1 grpc@2 @3", &[1, 3]);
        check_ports("http grpc", Some("grpc"), "http*@1 grpc@2 @3", &[2]);
        check_ports("http grpc", Some("grpc"), "grpc*@1", &[1]);
        check_ports("http grpc", None, "grpc*@1", &[]);
        check_ports("http", Some("nope"), "http*@1 @3", &[]);
        check_ports("", None, "@1 http@2", &[1]);
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
                let at = Destination::within("default", "a").unwrap();
                BTreeMap::from([(at, merge([list]))])
            };
            let (one, other) = (listing(&one), listing(&other));
            prop_assert_eq!(version(&one) == version(&other), one == other);
        }
    }
}
