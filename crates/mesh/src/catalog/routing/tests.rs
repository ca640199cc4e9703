use super::*;
use crate::topology::{Backend, MemoryTopology};

fn name(text: &str) -> ServiceName {
    text.parse().unwrap()
}

fn path(regex: &str) -> HttpMatch {
    HttpMatch { path_regex: Some(regex.to_owned()), ..HttpMatch::default() }
}

fn topology(services: &[&str]) -> MemoryTopology {
    let topology = MemoryTopology::default();
    for service in services {
        let (service, ports) = service.split_once(':').unwrap_or((service, "http"));
        topology.put_service(Service {
            name: name(service),
            ports: ports.split(',').filter(|port| !port.is_empty()).map(Into::into).collect(),
            encrypted: false,
            traffic: TrafficSettings::default(),
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
                    shares.iter().map(|one| format!("{}={}", one.service.name(), one.weight));
                shares.collect::<Vec<_>>().join(" ")
            }
        };
        format!("{}->{action}", matches.collect::<Vec<_>>().join("&"))
    });
    rules.collect::<Vec<_>>().join("; ")
}

#[track_caller]
fn check(topology: &MemoryTopology, expect: &str) {
    let plan = Declared::read(topology).plan(&name("shop"));
    let host = plan.hosts.iter().find(|host| host.service == name("books")).expect("the host");
    assert_eq!(show(&host.rules), expect, "{:?}", plan.problems);
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
fn a_service_without_ports_is_a_problem_and_the_others_go_on() {
    let mesh = topology(&["shop", "books", "portless:"]);
    let plan = Declared::read(&mesh).plan(&name("shop"));
    assert_eq!(plan.problems, [Problem::NoPorts(name("portless"))]);
    assert_eq!(plan.hosts.len(), 2);
    assert_eq!(plan.destinations(), BTreeSet::from([&name("books"), &name("shop")]));
}

#[test]
fn a_rule_that_cannot_be_read_is_left_out_and_closes_rather_than_opens() {
    let mesh = topology(&["shop", "books", "v2"]);
    put_split(&mesh, "beta", &[("v2", 1)], &["/(", "/b"]);
    check(&mesh, "/b->v2=1; ->books=1");
    put_target(&mesh, "books", &["shop"], Some(&["/["]));
    check(&mesh, "->deny");
    let problems = Declared::read(&mesh).plan(&name("shop")).problems;
    let bad = |regex: &str| Problem::BadRegex { service: name("books"), regex: regex.to_owned() };
    assert_eq!(problems, [bad("/("), bad("/[")]);
}
