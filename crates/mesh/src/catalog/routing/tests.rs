use super::*;
use crate::topology::{Backend, MemoryTopology, TrafficSettings};
use proptest::prelude::*;

fn name(text: &str) -> ServiceName {
    text.parse().unwrap()
}

fn path(regex: &str) -> HttpMatch {
    HttpMatch { path_regex: Some(regex.to_owned()), ..HttpMatch::default() }
}

/// `81!` takes anything; others take requests.
fn port(text: &str) -> ServicePort {
    match text.strip_suffix('!') {
        Some(tcp) => ServicePort { protocol: AppProtocol::Tcp, ..tcp.into() },
        None => text.into(),
    }
}

fn topology(services: &[&str]) -> MemoryTopology {
    let topology = MemoryTopology::default();
    for service in services {
        let (service, ports) = service.split_once(':').unwrap_or((service, "http"));
        topology.put_service(Service {
            name: name(service),
            ports: ports.split(',').filter(|port| !port.is_empty()).map(port).collect(),
            encrypted: false,
            traffic: TrafficSettings::default(),
            declared_s: 0,
        });
    }
    topology
}

fn put_split(topology: &MemoryTopology, split: &str, backends: &[(&str, u32)], matches: &[&str]) {
    let backends = backends
        .iter()
        .map(|(service, weight)| Backend { service: name(service), weight: *weight })
        .collect();
    topology.put_split(TrafficSplit {
        name: split.to_owned(),
        root: name("books"),
        backends,
        matches: matches.iter().map(|one| path(one)).collect(),
    });
}

fn put_target(
    topology: &MemoryTopology,
    destination: &str,
    sources: &[&str],
    rules: Option<&[&str]>,
) {
    topology.put_target(TrafficTarget {
        name: format!("to-{destination}"),
        destination: name(destination),
        sources: sources.iter().map(|source| name(source)).collect(),
        ports: None,
        connections: false,
        rules: rules.map(|rules| rules.iter().map(|one| path(one)).collect()),
    });
}

/// `/path&/other -> v1=9 v2=1; -> deny`
fn show(rules: &[Rule]) -> String {
    let rules = rules.iter().map(|rule| {
        let matches = rule.matches.iter().map(|one| one.path_regex.clone().unwrap_or_default());
        let action = match &rule.action {
            Action::Deny => "deny".to_owned(),
            Action::Forward(shares) => {
                let shares =
                    shares.iter().map(|one| format!("{}={}", one.destination.short(), one.weight));
                shares.collect::<Vec<_>>().join(" ")
            }
        };
        format!("{}->{action}", matches.collect::<Vec<_>>().join("&"))
    });
    rules.collect::<Vec<_>>().join("; ")
}

#[track_caller]
fn check(topology: &MemoryTopology, expect: &str) {
    check_at(topology, "books", expect);
}

#[track_caller]
fn check_at(topology: &MemoryTopology, at: &str, expect: &str) {
    let plan = Declared::read(topology).plan(&name("shop"));
    let at = Destination::within("default", at).expect("a destination");
    let host = plan.host(&at).expect("the host");
    assert_eq!(show(&host.rules), expect, "{:?}", plan.problems());
}

/// proves: MSH-04
#[test]
fn splits_and_targets_become_rules() {
    let mesh = topology(&["shop", "books", "v1", "v2"]);
    check(&mesh, "->books=1");
    put_split(&mesh, "canary", &[("v1", 9), ("v2", 1)], &[]);
    check(&mesh, "->v1=9 v2=1");
    put_split(&mesh, "beta", &[("v2", 1)], &["/beta", "/b"]);
    check(&mesh, "/beta->v2=1; /b->v2=1; ->v1=9 v2=1");
    put_target(&mesh, "books", &["shop"], Some(&["/api"]));
    check(&mesh, "/beta&/api->v2=1; /b&/api->v2=1; /api->v1=9 v2=1; ->deny");
    put_target(&mesh, "v2", &["other"], None);
    check(&mesh, "/beta&/api->deny; /b&/api->deny; /api->v1=9; ->deny");
    put_target(&mesh, "books", &[], None);
    check(&mesh, "->deny");
    mesh.remove_target("default", "to-books");
    mesh.remove_target("default", "to-v2");
    mesh.remove_split("default", "canary");
    check(&mesh, "/beta->v2=1; /b->v2=1; ->books=1");
}

#[test]
fn a_service_without_ports_takes_no_traffic_and_the_others_go_on() {
    let mesh = topology(&["shop", "books", "portless:"]);
    let plan = Declared::read(&mesh).plan(&name("shop"));
    assert_eq!(plan.problems(), BTreeSet::new(), "it only calls others");
    assert_eq!(plan.hosts().count(), 2);
    let first = |text: &str| Destination::first(&name(text));
    assert_eq!(plan.destinations(), BTreeSet::from([&first("books"), &first("shop")]));
}

#[test]
fn a_rule_that_cannot_be_read_is_left_out_and_closes_rather_than_opens() {
    let mesh = topology(&["shop", "books", "v2"]);
    put_split(&mesh, "beta", &[("v2", 1)], &["/(", "(?x)/x", "/b"]);
    check(&mesh, "/b->v2=1; ->books=1");
    put_target(&mesh, "books", &["shop"], Some(&["/["]));
    check(&mesh, "->deny");
    let plan = Declared::read(&mesh).plan(&name("shop"));
    let bad = |regex: &str| Problem::BadRegex { service: name("books"), regex: regex.to_owned() };
    assert_eq!(plan.problems(), BTreeSet::from([&bad("/("), &bad("(?x)/x"), &bad("/[")]));
}

/// proves: MSH-06
#[test]
fn every_port_has_rules_and_backends_take_traffic_on_the_same_port() {
    let mesh = topology(&["shop", "books:80,81!", "v1:81!,80", "v2:80,81!,82", "half:80"]);
    check_at(&mesh, "books", "->books=1");
    check_at(&mesh, "books:81", "->books:81=1");
    put_split(&mesh, "canary", &[("v1", 9), ("v2", 1), ("half", 5)], &[]);
    check_at(&mesh, "books:80", "->v1:80=9 v2=1");
    check_at(&mesh, "books:81", "->v1=9 v2:81=1");
    let plan = Declared::read(&mesh).plan(&name("shop"));
    let problems: Vec<&Problem> = plan.problems().into_iter().collect();
    assert!(matches!(&problems[..], [Problem::MissingPort { port, .. }] if port.0 == "81"));
    put_split(&mesh, "beta", &[("v2", 1)], &["/beta"]);
    check_at(&mesh, "books:80", "/beta->v2=1; ->v1:80=9 v2=1");
    check_at(&mesh, "books:81", "->v1=9 v2:81=1");
}

/// proves: MSH-07
#[test]
fn connections_are_denied_unless_a_target_speaks_of_them() {
    let mesh = topology(&["shop", "books:80,81!"]);
    put_target(&mesh, "books", &["shop"], Some(&["/api"]));
    check_at(&mesh, "books", "/api->books=1; ->deny");
    check_at(&mesh, "books:81", "->deny");
    let plan = Declared::read(&mesh).plan(&name("shop"));
    let closed = Destination::within("default", "books:81").unwrap();
    assert!(plan.is_closed(&closed) && !plan.is_closed(&Destination::first(&name("books"))));
    mesh.put_target(TrafficTarget {
        name: "also".to_owned(),
        destination: name("books"),
        sources: [name("shop")].into(),
        ports: Some(["81".into()].into()),
        rules: None,
        connections: true,
    });
    check_at(&mesh, "books", "/api->books=1; ->deny");
    check_at(&mesh, "books:81", "->books:81=1");
}

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

proptest! {
    /// What is shared with those whom no target names is what the source would see by itself.
    #[test]
    fn a_plan_is_what_its_source_sees(
        splits in proptest::collection::vec((0_usize..4, 0_usize..4, 0_u32..3), 0..4),
        targets in proptest::collection::vec(
            (0_usize..4, proptest::collection::vec(0_usize..4, 0..3), any::<bool>()), 0..4
        ),
    ) {
        let mesh = topology(&NAMES);
        for (index, (root, backend, weight)) in splits.into_iter().enumerate() {
            mesh.put_split(TrafficSplit {
                name: format!("s{index}"),
                root: name(NAMES[root]),
                backends: vec![Backend { service: name(NAMES[backend]), weight }],
                matches: Vec::new(),
            });
        }
        for (index, (destination, sources, is_limited)) in targets.into_iter().enumerate() {
            mesh.put_target(TrafficTarget {
                name: format!("t{index}"),
                destination: name(NAMES[destination]),
                sources: sources.into_iter().map(|source| name(NAMES[source])).collect(),
                ports: None,
                rules: is_limited.then(|| vec![path("/x")]),
                connections: false,
            });
        }
        let declared = Declared::read(&mesh);
        for source in NAMES.map(name) {
            let by_itself = declared.services.values().map(|one| declared.see(Some(&source), one));
            let by_itself: Vec<_> = by_itself.map(Arc::new).collect();
            prop_assert_eq!(declared.plan(&source).seen, by_itself);
        }
    }
}
