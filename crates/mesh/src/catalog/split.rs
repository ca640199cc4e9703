//! Dividing the traffic of a service among its backends.
use crate::names::{PortName, ServiceName};
use crate::topology::{Service, ServicePort, TrafficSplit};
use std::collections::BTreeMap;

/// A backend and its part of the traffic; never zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub service: ServiceName,
    pub weight: u32,
}

/// Something declared that has no effect, and why. The rest goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    #[error(
        "traffic split {split} of {root} names its own root as a backend; the backend is left out"
    )]
    NamesItself { split: String, root: ServiceName },
    #[error("traffic split {split} names {backend}, which does not exist (yet); it is left out")]
    MissingBackend { split: String, backend: ServiceName },
    #[error(
        "traffic split {split}: {backend} lacks port {port} of {root}, or speaks another protocol on it; it is left out"
    )]
    MissingPort { split: String, root: ServiceName, backend: ServiceName, port: PortName },
    #[error("traffic split {split} of {root} gives no backend any weight; it has no effect")]
    NoWeight { split: String, root: ServiceName },
    #[error(
        "traffic splits {first} and {second} of {root} both divide {backend}; their weights add up"
    )]
    Overlap { first: String, second: String, root: ServiceName, backend: ServiceName },
    #[error(
        "a rule about {service} has {regex:?}, which proxies cannot read; the rule is left out"
    )]
    BadRegex { service: ServiceName, regex: String },
}

/// Adds up the splits of one root that apply to the same requests. Backends that cannot take
/// traffic are left out; with none left, the root itself takes everything.
pub fn divide(
    root: &Service,
    splits: &[&TrafficSplit],
    service: &dyn Fn(&ServiceName) -> Option<Service>,
    problems: &mut Vec<Problem>,
) -> Vec<Part> {
    let mut weights: BTreeMap<ServiceName, (u64, &str)> = BTreeMap::new();
    for split in splits {
        let usable = split.backends.iter().filter(|backend| {
            let problem = problem_with(root, split, &backend.service, service);
            let is_usable = problem.is_none();
            problems.extend(problem);
            is_usable && 0 < backend.weight
        });
        let usable: Vec<_> = usable.collect();
        if usable.is_empty() {
            problems.push(Problem::NoWeight { split: split.name.clone(), root: root.name.clone() });
        }
        for backend in usable {
            let entry = weights.entry(backend.service.clone()).or_insert((0, &split.name));
            if entry.1 != split.name {
                problems.push(Problem::Overlap {
                    first: entry.1.to_owned(),
                    second: split.name.clone(),
                    root: root.name.clone(),
                    backend: backend.service.clone(),
                });
            }
            entry.0 += u64::from(backend.weight);
        }
    }
    if weights.is_empty() {
        return vec![Part { service: root.name.clone(), weight: 1 }];
    }
    fit(weights.into_iter().map(|(service, (weight, _))| (service, weight)).collect())
}

fn problem_with(
    root: &Service,
    split: &TrafficSplit,
    backend: &ServiceName,
    service: &dyn Fn(&ServiceName) -> Option<Service>,
) -> Option<Problem> {
    let split = split.name.clone();
    if *backend == root.name {
        return Some(Problem::NamesItself { split, root: root.name.clone() });
    }
    let Some(found) = service(backend) else {
        return Some(Problem::MissingBackend { split, backend: backend.clone() });
    };
    let lacks = |port: &&ServicePort| {
        let same = |other: &ServicePort| other.name == port.name && other.protocol == port.protocol;
        !found.ports.iter().any(same)
    };
    root.ports.iter().find(lacks).map(|port| Problem::MissingPort {
        split,
        root: root.name.clone(),
        backend: backend.clone(),
        port: port.name.clone(),
    })
}

/// Proxies add weights up in 32 bits: larger ones are scaled down together, none to nothing.
fn fit(weights: Vec<(ServiceName, u64)>) -> Vec<Part> {
    let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
    // Rounding up to 1 may add one per backend, which the halved limit leaves room for.
    let divisor = total.div_ceil(u64::from(u32::MAX / 2)).max(1);
    let scaled = weights.into_iter().map(|(service, weight)| {
        let weight = u32::try_from((weight / divisor).max(1)).unwrap_or(u32::MAX);
        Part { service, weight }
    });
    scaled.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::{AppProtocol, Backend, TrafficSettings};
    use proptest::prelude::*;

    fn name(text: &str) -> ServiceName {
        text.parse().unwrap()
    }

    fn mk_service(text: &str, ports: &str) -> Service {
        let ports = ports.split_whitespace().map(|text| match text.strip_suffix('!') {
            Some(tcp) => ServicePort { protocol: AppProtocol::Tcp, ..tcp.into() },
            None => text.into(),
        });
        let ports = ports.collect();
        Service {
            name: name(text),
            ports,
            encrypted: false,
            traffic: TrafficSettings::default(),
            declared_s: 0,
        }
    }

    /// `v1=90 v2=10`
    fn mk_split(text: &str) -> TrafficSplit {
        let backends = text.split_whitespace().map(|one| {
            let (service, weight) = one.split_once('=').unwrap();
            Backend { service: name(service), weight: weight.parse().unwrap() }
        });
        TrafficSplit {
            name: text.to_owned(),
            root: name("root"),
            backends: backends.collect(),
            matches: Vec::new(),
        }
    }

    fn run(splits: &[&str]) -> (String, Vec<Problem>) {
        let known = [
            mk_service("v1", "http"),
            mk_service("v2", "http grpc"),
            mk_service("odd", "x"),
            mk_service("tcp", "http!"),
        ];
        let splits: Vec<_> = splits.iter().map(|text| mk_split(text)).collect();
        let mut problems = Vec::new();
        let shares = divide(
            &mk_service("root", "http"),
            &splits.iter().collect::<Vec<_>>(),
            &|wanted| known.iter().find(|one| one.name == *wanted).cloned(),
            &mut problems,
        );
        let shares = shares.iter().map(|one| format!("{}={}", one.service.name(), one.weight));
        (shares.collect::<Vec<_>>().join(" "), problems)
    }

    #[track_caller]
    fn check(splits: &[&str], expect: &str, expect_problems: usize) {
        let (shares, problems) = run(splits);
        assert_eq!((shares.as_str(), problems.len()), (expect, expect_problems), "{problems:?}");
    }

    /// proves: MSH-06
    #[test]
    fn shares() {
        check(&[], "root=1", 0);
        check(&["v1=90 v2=10"], "v1=90 v2=10", 0);
        check(&["v1=90", "v2=10"], "v1=90 v2=10", 0);
        check(&["v1=90 v2=5", "v2=5"], "v1=90 v2=10", 1);
        check(&["v1=1 v2=0"], "v1=1", 0);
        check(&["v1=0 v2=0"], "root=1", 1);
        check(&["v1=0", "v2=7"], "v2=7", 1);
        check(&[""], "root=1", 1);
        check(&["root=50 v1=50"], "v1=50", 1);
        check(&["root=50"], "root=1", 2);
        check(&["none=50 v1=50"], "v1=50", 1);
        check(&["odd=50 v1=50"], "v1=50", 1);
        check(&["tcp=50 v1=50"], "v1=50", 1);
        check(&["v1=4294967295 v2=4294967295"], "v1=858993459 v2=858993459", 0);
    }

    #[test]
    fn problems_say_what_and_why() {
        let (_, problems) = run(&["odd=50 v1=50"]);
        assert_eq!(
            problems[0].to_string(),
            "traffic split odd=50 v1=50: default/odd lacks port http of default/root, \
             or speaks another protocol on it; it is left out"
        );
    }

    proptest! {
        #[test]
        fn weights_fit_and_keep_their_order(weights in proptest::collection::vec(1_u64..=1 << 40, 1..20)) {
            let named = weights.iter().enumerate().map(|(i, w)| (name(&format!("s{i}")), *w));
            let shares = fit(named.collect());
            let total: u64 = shares.iter().map(|share| u64::from(share.weight)).sum();
            prop_assert!(total <= u64::from(u32::MAX));
            for (a, one) in weights.iter().zip(&shares) {
                prop_assert!(0 < one.weight);
                for (b, other) in weights.iter().zip(&shares) {
                    prop_assert!(b <= a || one.weight <= other.weight);
                }
            }
        }
    }
}
