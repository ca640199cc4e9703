//! What a service that asks for sidecars must be like.
use super::names::SERVICE_NAME_MAX;
use super::plan;
use crate::names::Destination;
use orrery_api::{Object, Violation};
use orrery_proto::mesh::v1::{MeshService, MeshServiceSpec};
use std::collections::BTreeSet;

/// What could never work is refused.
pub fn validate(object: &Object, _: Option<&Object>) -> Vec<Violation> {
    let Ok(service) = object.typed::<MeshService>() else { return Vec::new() };
    let Some(spec) = service.spec.filter(|spec| spec.sidecar.is_some()) else { return Vec::new() };
    let mut found = named(object.name());
    found.extend(reached(&spec));
    found.extend(unique(&spec));
    found.extend(connections(object.project(), &spec));
    found
}

fn named(name: &str) -> Vec<Violation> {
    if name.len() <= SERVICE_NAME_MAX {
        return Vec::new();
    }
    let why =
        format!("must have at most {SERVICE_NAME_MAX} characters: its sidecars have longer names");
    vec![Violation::invalid("metadata.name", format_args!("{name:?}"), &why)]
}

/// Others have to know where the proxy takes their traffic.
fn reached(spec: &MeshServiceSpec) -> Option<Violation> {
    let hint = "say on which port the sidecars take the traffic of others";
    (!spec.ports.is_empty() && spec.fronting.is_none())
        .then(|| Violation::required("spec.fronting", hint))
}

/// A sidecar and the instance share the ports of a node.
fn unique(spec: &MeshServiceSpec) -> Vec<Violation> {
    let mut taken: BTreeSet<i32> = BTreeSet::new();
    let instance = spec.ports.iter().map(|port| port.target_port.unwrap_or(port.port()));
    let instance: BTreeSet<i32> = instance.collect();
    let again = |port: &i32| !taken.insert(*port) || instance.contains(port);
    let clashes: BTreeSet<i32> = plan::ports(spec).into_iter().filter(again).collect();
    let why = "must be one port of the node only: of the instance (targetPort), of the traffic of others (fronting, \
               frontingPort), or of its own requests (outboundPort, 15001 when absent) and connections";
    clashes.into_iter().map(|port| Violation::invalid("spec.sidecar", port, why)).collect()
}

fn connections(project: &str, spec: &MeshServiceSpec) -> Vec<Violation> {
    let all = spec.sidecar.iter().flat_map(|sidecar| &sidecar.connect).enumerate();
    let bad = all.filter(|(_, one)| {
        let to = Destination::within(project, one.to());
        to.map_or(true, |to| to.port.is_none())
    });
    let why = "must be a service and its port, such as db:5432 or office/db:5432";
    let told = bad.map(|(number, one)| {
        let path = format!("spec.sidecar.connect[{number}].to");
        Violation::invalid(path, format_args!("{:?}", one.to()), why)
    });
    told.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::mesh::v1::{Fronting, MeshPort, Sidecar, SidecarConnection};

    fn mk_spec(ports: &[i32], fronting: Option<i32>) -> MeshServiceSpec {
        let port = |number: &i32| MeshPort {
            name: Some(format!("p{number}")),
            port: Some(*number),
            ..MeshPort::default()
        };
        MeshServiceSpec {
            ports: ports.iter().map(port).collect(),
            fronting: fronting.map(|port| Fronting { port: Some(port) }),
            sidecar: Some(Sidecar::default()),
            ..MeshServiceSpec::default()
        }
    }

    #[track_caller]
    fn check(spec: &MeshServiceSpec, expect: &str) {
        let mut found: Vec<Violation> = reached(spec).into_iter().collect();
        found.extend(unique(spec));
        found.extend(connections("shop", spec));
        let paths: Vec<&str> = found.iter().map(|violation| violation.path.as_str()).collect();
        assert_eq!(paths.join(" "), expect);
    }

    #[test]
    fn what_could_never_work_is_refused() {
        check(&mk_spec(&[], None), "");
        check(&mk_spec(&[80], Some(15_006)), "");
        check(&mk_spec(&[80], None), "spec.fronting");
        check(&mk_spec(&[80], Some(15_001)), "spec.sidecar");
        check(&mk_spec(&[80], Some(80)), "spec.sidecar");
        let connect = |port: i32, to: &str| {
            let one = SidecarConnection { port: Some(port), to: Some(to.to_owned()) };
            let mut spec = mk_spec(&[80], Some(15_006));
            spec.sidecar = Some(Sidecar { connect: vec![one], ..Sidecar::default() });
            spec
        };
        check(&connect(5432, "db:5432"), "");
        check(&connect(5432, "office/db:pg"), "");
        check(&connect(15_001, "db:5432"), "spec.sidecar");
        check(&connect(5432, "db"), "spec.sidecar.connect[0].to");
        check(&connect(5432, "Db:1"), "spec.sidecar.connect[0].to");
    }

    #[test]
    fn the_names_of_sidecars_are_longer() {
        assert!(named(&"s".repeat(SERVICE_NAME_MAX)).is_empty());
        assert_eq!(named(&"s".repeat(SERVICE_NAME_MAX + 1)).len(), 1);
    }
}
