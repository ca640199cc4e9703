//! What stands in the way of sidecars before any agent does something: pure.
use super::plan;
use orrery_hub::ObjectName;
use orrery_proto::mesh::v1::MeshService;
use std::collections::BTreeMap;

/// Why sidecars are not as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// One word, in CamelCase.
    pub reason: &'static str,
    /// What it is, and what to do.
    pub message: String,
}

impl Obstacle {
    pub fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}

/// A service that asks for sidecars.
pub struct Fronted<'a> {
    pub name: &'a ObjectName,
    pub service: &'a MeshService,
    /// The nodes that have copies of its workload, and how many of them are to stay.
    pub nodes: BTreeMap<String, usize>,
}

/// A port of a node is one sidecar's. Of two services the older keeps it: who was there loses nothing by what others
/// declare.
pub fn port_taken(own: &Fronted<'_>, others: &[Fronted<'_>]) -> Option<Obstacle> {
    let ports = ports(own);
    let older = others.iter().filter(|other| age(other) < age(own));
    let mut clashes = older.filter_map(|other| {
        let node = own.nodes.keys().find(|node| other.nodes.contains_key(*node))?;
        let theirs = self::ports(other);
        let port = ports.iter().find(|port| theirs.contains(port))?;
        Some((node, port, other))
    });
    let (node, port, other) = clashes.next()?;
    let message = format!(
        "port {port} of node {node} is taken by the sidecar of {}: give one of the two another \
         (spec.fronting.port, spec.ports[].frontingPort, spec.sidecar.outboundPort, \
         spec.sidecar.connect[].port)",
        other.name
    );
    Some(Obstacle::new("PortTaken", message))
}

/// A port of a node leads to one copy.
pub fn several_copies(own: &Fronted<'_>) -> Option<Obstacle> {
    let (node, count) = own.nodes.iter().find(|(_, count)| 1 < **count)?;
    let message = format!(
        "node {node} has {count} copies of the workload, and one port for them: others reach one \
         copy through the sidecar. Place one on each node (spec.placement without replicas)"
    );
    Some(Obstacle::new("SeveralCopies", message))
}

fn ports(of: &Fronted<'_>) -> Vec<i32> {
    of.service.spec.as_ref().map(plan::ports).unwrap_or_default()
}

/// Those of the same second stay in the order of their names.
fn age<'a>(of: &Fronted<'a>) -> (i64, &'a ObjectName) {
    let created = of.service.metadata.as_ref().and_then(|metadata| metadata.creation_timestamp);
    (created.map_or(0, |created| created.seconds), of.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::mesh::v1::{Fronting, MeshPort, MeshServiceSpec, Sidecar};
    use orrery_proto::meta::v1::ObjectMeta;
    use prost_types::Timestamp;

    fn mk_service(created: i64, fronting: i32, outbound: i32) -> MeshService {
        let creation_timestamp = Some(Timestamp { seconds: created, nanos: 0 });
        let sidecar = Sidecar { outbound_port: Some(outbound), ..Sidecar::default() };
        let spec = MeshServiceSpec {
            ports: vec![MeshPort { name: Some("http".into()), ..MeshPort::default() }],
            fronting: Some(Fronting { port: Some(fronting) }),
            sidecar: Some(sidecar),
            ..MeshServiceSpec::default()
        };
        MeshService {
            metadata: Some(ObjectMeta { creation_timestamp, ..ObjectMeta::default() }),
            spec: Some(spec),
            ..MeshService::default()
        }
    }

    /// Of "web", made at 5 with the ports 1 and 2; the other is "db".
    #[track_caller]
    fn check_taken(other: &MeshService, nodes: &str, others: &str, expect: Option<&str>) {
        let of = |text: &str| text.split_whitespace().map(|one| (one.to_owned(), 1)).collect();
        let (web, db) = (ObjectName::new("shop", "web"), ObjectName::new("shop", "db"));
        let service = mk_service(5, 1, 2);
        let own = Fronted { name: &web, service: &service, nodes: of(nodes) };
        let others = [Fronted { name: &db, service: other, nodes: of(others) }];
        let found = port_taken(&own, &others);
        assert_eq!(found.as_ref().map(|found| found.reason), expect.map(|_| "PortTaken"));
        let said = found.map(|found| found.message).unwrap_or_default();
        assert!(said.starts_with(expect.unwrap_or_default()), "{said}");
    }

    #[test]
    fn a_port_of_a_node_is_the_older_ones() {
        let says = |port: i32| format!("port {port} of node b is taken by the sidecar of shop/db");
        check_taken(&mk_service(4, 3, 2), "a b", "b c", Some(&says(2)));
        check_taken(&mk_service(4, 2, 3), "a b", "b c", Some(&says(2)));
        check_taken(&mk_service(4, 1, 3), "a b", "b c", Some(&says(1)));
        check_taken(&mk_service(4, 3, 4), "a b", "b c", None);
        check_taken(&mk_service(4, 3, 2), "a", "b c", None);
        check_taken(&mk_service(6, 3, 2), "a b", "b c", None);
        check_taken(&mk_service(5, 3, 2), "b", "b", Some(&says(2)));
    }

    #[test]
    fn copies_that_share_a_port_are_told() {
        let (name, service) = (ObjectName::new("shop", "web"), mk_service(1, 1, 2));
        let of = |count: usize| Fronted {
            name: &name,
            service: &service,
            nodes: [("a".to_owned(), 1), ("b".to_owned(), count)].into(),
        };
        assert_eq!(several_copies(&of(1)), None);
        let found = several_copies(&of(2)).expect("two share it");
        assert!(found.message.starts_with("node b has 2 copies"), "{}", found.message);
    }
}
