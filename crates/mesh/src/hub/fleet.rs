//! Where the fleet's own instances are.
use super::Mesh;
use super::sidecars::Shared;
use super::sidecars::names::{has_sidecar, name_of, service_of};
use super::status::Sidecars;
use super::watches::{Watches, key, workload_of};
use crate::address::{Endpoint, Ip, Placed, Port};
use crate::announce::{Announcements, Announcer};
use crate::names::{PortName, ServiceName};
use crate::providers::{EndpointsProvider, ProviderError};
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::WorkloadInstance;
use orrery_proto::infra::v1::Node;
use orrery_proto::mesh::v1::{MeshService, MeshServiceSpec};
use orrery_runtime::{Change, View};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

/// Lists copies of workloads as their agents report them.
pub struct FleetProvider {
    services: Arc<View<MeshService>>,
    instances: Arc<View<WorkloadInstance>>,
    nodes: Arc<View<Node>>,
    announcer: Announcer<ServiceName>,
}

impl FleetProvider {
    pub fn new(watches: &mut Watches, sidecars: Arc<Shared>) -> Self {
        let provider = Self {
            services: watches.services.view(),
            instances: watches.instances.view(),
            nodes: watches.nodes.view(),
            announcer: Announcer::default(),
        };
        let announcer = provider.announcer.clone();
        watches.services.on_change(move |change| {
            let spec = |service: &Option<Arc<MeshService>>| service.as_ref()?.spec.clone();
            if spec(&change.old) != spec(&change.new) {
                // Where its instances are reached may be elsewhere, which no topology knows.
                let name = ServiceName::new(&change.name.project, &change.name.name);
                announcer.announce(name);
            }
        });
        let (services, announcer) = (provider.services.clone(), provider.announcer.clone());
        watches.instances.on_change(move |change| {
            let moved = is_there(&change.old) != is_there(&change.new);
            if !moved && place_of(&change.old) == place_of(&change.new) {
                return;
            }
            let concerned = affected(&services, change);
            if concerned.iter().any(|name| asks_for_sidecars(&services, name)) {
                sidecars.note(moved);
            }
            announcer.announce(concerned);
        });
        let (services, instances) = (provider.services.clone(), provider.instances.clone());
        let announcer = provider.announcer.clone();
        watches.nodes.on_change(move |change| {
            let address = |node: &Option<Arc<Node>>| node.as_ref().and_then(|node| address(node));
            if address(&change.old) != address(&change.new) {
                announcer.announce(on_node(&services, &instances, &change.name.name));
            }
        });
        provider
    }

    fn places(&self, name: &ObjectName, service: &MeshService) -> Vec<Placed> {
        let ports = service.spec.as_ref().map(ports).unwrap_or_default();
        let copies = self.instances.indexed(&workload_of(name, service));
        let copies = copies.iter().map(|(_, copy)| (certainty(copy), node_of(copy)));
        let sidecars = has_sidecar(service).then(|| self.instances.indexed(&sidecars_of(name)));
        let sidecars = sidecars
            .as_ref()
            .map(|all| all.iter().map(|(_, copy)| (node_of(copy), certainty(copy))).collect());
        let nodes = chosen(fronted(copies.collect(), sidecars.as_ref()));
        let at = |node: &str| address(&*self.nodes.get(&ObjectName::new("", node))?);
        let addresses = nodes.into_iter().filter_map(at);
        addresses.flat_map(|ip| ports.iter().map(move |port| port.at(ip))).collect()
    }
}

#[async_trait::async_trait]
impl EndpointsProvider for FleetProvider {
    fn name(&self) -> &str {
        "fleet"
    }

    async fn list_endpoints(&self, service: &ServiceName) -> Result<Vec<Placed>, ProviderError> {
        let name = ObjectName::new(service.project(), service.name());
        let declared = self.services.get(&name);
        Ok(declared.map(|declared| self.places(&name, &declared)).unwrap_or_default())
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}

/// How sure it is that a copy takes requests; the surest comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    /// And says that it can do its work, where it was asked to say so.
    Runs,
    /// Its agent does not answer any more; it may well run.
    Unknown,
    DoesNotRun,
}

fn certainty(copy: &WorkloadInstance) -> Certainty {
    let leaving =
        copy.metadata.as_ref().is_some_and(|metadata| metadata.deletion_timestamp.is_some());
    let status = copy.status.as_ref();
    match status.map(|status| (status.state.as_str(), status.reason.as_str())) {
        _ if leaving => Certainty::DoesNotRun,
        Some(("Running", _)) if is_ready(copy) => Certainty::Runs,
        Some(("Failed", "Unknown")) => Certainty::Unknown,
        Some(_) | None => Certainty::DoesNotRun,
    }
}

/// A copy with a readiness probe is ready when the probe says so, and not before.
fn is_ready(copy: &WorkloadInstance) -> bool {
    let has_probe = copy.spec.as_ref().is_some_and(|spec| spec.readiness_probe.is_some());
    copy.status.as_ref().and_then(|status| status.ready).unwrap_or(!has_probe)
}

/// What is known of copies through their sidecars, where they have some: a copy takes requests where both do.
fn fronted<'a>(
    copies: Vec<(Certainty, &'a str)>,
    sidecars: Option<&BTreeMap<&str, Certainty>>,
) -> Vec<(Certainty, &'a str)> {
    let Some(sidecars) = sidecars else { return copies };
    let both = copies.into_iter().map(|(certainty, node)| {
        let sidecar = sidecars.get(node).copied().unwrap_or(Certainty::DoesNotRun);
        (certainty.max(sidecar), node)
    });
    both.collect()
}

/// How many sidecars of a service can do their work, of how many; nothing where none are asked for.
pub fn sidecars(mesh: &Mesh, name: &ObjectName, service: &MeshService) -> Option<Sidecars> {
    if !has_sidecar(service) {
        return None;
    }
    let instances = &mesh.views.instances;
    let copies = instances.indexed(&workload_of(name, service));
    let wanted: BTreeSet<&str> = copies.iter().map(|(_, copy)| node_of(copy)).collect();
    let there = instances.indexed(&sidecars_of(name));
    let there = there.iter().filter(|(_, copy)| wanted.contains(node_of(copy)));
    let (ready, others): (Vec<_>, Vec<_>) =
        there.partition(|(_, copy)| certainty(copy) == Certainty::Runs);
    let said = others.iter().find_map(|(_, copy)| {
        let message = &copy.status.as_ref()?.message;
        (!message.is_empty()).then(|| format!("node {}: {message}", node_of(copy)))
    });
    let obstacle = mesh.sidecars.obstacle(name);
    Some(Sidecars { ready: ready.len(), wanted: wanted.len(), said, obstacle })
}

/// The key of the copies of its sidecars.
fn sidecars_of(service: &ObjectName) -> String {
    key(&service.project, &name_of(&service.name))
}

/// The nodes to send requests to. A copy of which nobody knows counts only where no other is known to
/// run: an agent that restarts must not cut off what goes on running, nor a dead machine take a share.
fn chosen<'a>(copies: Vec<(Certainty, &'a str)>) -> BTreeSet<&'a str> {
    let of = |wanted: Certainty| -> BTreeSet<&'a str> {
        copies.iter().filter(|(one, _)| *one == wanted).map(|(_, node)| *node).collect()
    };
    let runs = of(Certainty::Runs);
    if runs.is_empty() { of(Certainty::Unknown) } else { runs }
}

/// A port under which others reach every instance.
struct Reached {
    name: PortName,
    is_first: bool,
    number: Port,
}

impl Reached {
    fn at(&self, ip: IpAddr) -> Placed {
        let endpoint = Endpoint { ip: Ip(ip), port: self.number };
        Placed { endpoint, port: Some(self.name.clone()), is_first: self.is_first }
    }
}

/// The ports of the proxy in front of an instance, where there is one, else the instance's own. A port
/// that the proxy does not take is out of reach.
fn ports(spec: &MeshServiceSpec) -> Vec<Reached> {
    let reached = spec.ports.iter().enumerate().filter_map(|(index, port)| {
        let is_first = index == 0;
        let number = match &spec.fronting {
            Some(fronting) if is_first => fronting.port(),
            Some(_) => port.fronting_port?,
            None => port.target_port.unwrap_or(port.port()),
        };
        let name = port.name.clone().unwrap_or_else(|| port.port().to_string());
        let number = Port::new(u16::try_from(number).ok()?)?;
        Some(Reached { name: PortName(name), is_first, number })
    });
    reached.collect()
}

fn address(node: &Node) -> Option<IpAddr> {
    node.status.as_ref()?.address.parse().ok()
}

fn node_of(copy: &WorkloadInstance) -> &str {
    copy.spec.as_ref().map(|spec| spec.node()).unwrap_or_default()
}

/// Whether a copy is there, and is meant to stay.
fn is_there(copy: &Option<Arc<WorkloadInstance>>) -> Option<bool> {
    let metadata = copy.as_ref()?.metadata.as_ref()?;
    Some(metadata.deletion_timestamp.is_none())
}

/// What of an instance matters to callers.
fn place_of(copy: &Option<Arc<WorkloadInstance>>) -> Option<(Certainty, String)> {
    let copy = copy.as_ref()?;
    Some((certainty(copy), node_of(copy).to_owned()))
}

fn affected(
    services: &View<MeshService>,
    change: &Change<WorkloadInstance>,
) -> BTreeSet<ServiceName> {
    let copies = [&change.old, &change.new].into_iter().flatten();
    let workloads = copies.filter_map(|copy| copy.spec.as_ref()?.workload.clone());
    let workloads: BTreeSet<String> = workloads.collect();
    let project = &change.name.project;
    let keys = workloads.iter().map(|workload| key(project, workload));
    let served = keys.flat_map(|key| served_by(services, &key));
    let sidecars = workloads.iter().filter_map(|workload| {
        let name = ServiceName::new(project, service_of(workload)?).ok()?;
        asks_for_sidecars(services, &name).then_some(name)
    });
    served.chain(sidecars).collect()
}

fn asks_for_sidecars(services: &View<MeshService>, name: &ServiceName) -> bool {
    let service = services.get(&ObjectName::new(name.project(), name.name()));
    service.is_some_and(|service| has_sidecar(&service))
}

fn on_node(
    services: &View<MeshService>,
    instances: &View<WorkloadInstance>,
    node: &str,
) -> BTreeSet<ServiceName> {
    let copies = instances.all().into_iter().filter(|(_, copy)| node_of(copy) == node);
    let workloads: BTreeSet<String> = copies
        .filter_map(|(name, copy)| Some(key(&name.project, copy.spec.as_ref()?.workload())))
        .collect();
    workloads.iter().flat_map(|key| served_by(services, key)).collect()
}

fn served_by(services: &View<MeshService>, key: &str) -> Vec<ServiceName> {
    let names = services.indexed(key).into_iter();
    names.filter_map(|(name, _)| ServiceName::new(&name.project, &name.name).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::{Probe, WorkloadInstanceSpec, WorkloadInstanceStatus};
    use orrery_proto::mesh::v1::{Fronting, MeshPort};

    fn mk_copy(state: &str, reason: &str) -> WorkloadInstance {
        let status = WorkloadInstanceStatus {
            state: state.to_owned(),
            reason: reason.to_owned(),
            ..WorkloadInstanceStatus::default()
        };
        WorkloadInstance { status: Some(status), ..WorkloadInstance::default() }
    }

    #[track_caller]
    fn check(copies: &[(&str, &str, &'static str)], expect: &[&str]) {
        let copies =
            copies.iter().map(|(state, reason, node)| (certainty(&mk_copy(state, reason)), *node));
        assert_eq!(chosen(copies.collect()).into_iter().collect::<Vec<_>>(), expect);
    }

    /// proves: MSH-05
    #[test]
    fn only_what_runs_takes_requests_unless_nothing_is_known_to() {
        check(&[], &[]);
        check(&[("Running", "", "a"), ("Pending", "Starting", "b")], &["a"]);
        check(&[("Running", "", "a"), ("Failed", "Unknown", "b")], &["a"]);
        check(&[("Failed", "Unknown", "b"), ("Stopping", "", "c")], &["b"]);
        check(&[("Failed", "ExecFailed", "b"), ("Succeeded", "", "c")], &[]);
    }

    /// proves: MSH-05
    #[test]
    fn a_copy_with_a_probe_takes_requests_when_the_probe_says_so() {
        let mut copy = mk_copy("Running", "");
        assert_eq!(certainty(&copy), Certainty::Runs, "nobody asked it");
        let spec = WorkloadInstanceSpec {
            readiness_probe: Some(Probe::default()),
            ..WorkloadInstanceSpec::default()
        };
        copy.spec = Some(spec);
        assert_eq!(certainty(&copy), Certainty::DoesNotRun, "it has not said yet");
        for (ready, expect) in [(true, Certainty::Runs), (false, Certainty::DoesNotRun)] {
            copy.status.as_mut().unwrap().ready = Some(ready);
            assert_eq!(certainty(&copy), expect);
        }
    }

    #[track_caller]
    fn check_fronted(
        copies: &[(&str, &str, &'static str)],
        sidecars: &[(&'static str, &str)],
        expect: &[&str],
    ) {
        let copies =
            copies.iter().map(|(state, reason, node)| (certainty(&mk_copy(state, reason)), *node));
        let sidecars = sidecars.iter().map(|(node, state)| {
            let reason = if *state == "Failed" { "Unknown" } else { "" };
            (*node, certainty(&mk_copy(state, reason)))
        });
        let known = fronted(copies.collect(), Some(&sidecars.collect()));
        assert_eq!(chosen(known).into_iter().collect::<Vec<_>>(), expect);
    }

    /// proves: MSH-05
    #[test]
    fn a_copy_with_a_sidecar_takes_requests_where_both_run() {
        let both = [("Running", "", "a"), ("Running", "", "b")];
        check_fronted(&both, &[], &[]);
        check_fronted(&both, &[("a", "Running"), ("b", "Pending")], &["a"]);
        check_fronted(&both, &[("a", "Running"), ("b", "Failed")], &["a"]);
        check_fronted(&both, &[("b", "Failed")], &["b"]);
        let lost = [("Failed", "Unknown", "a")];
        check_fronted(&lost, &[("a", "Failed")], &["a"]);
        check_fronted(&lost, &[("c", "Running")], &[]);
    }

    #[track_caller]
    fn check_ports(spec: &MeshServiceSpec, expect: &[(&str, u16)]) {
        let reached = ports(spec);
        let shown: Vec<_> =
            reached.iter().map(|port| (port.name.0.as_str(), port.number.number())).collect();
        assert_eq!(shown, expect);
        assert!(reached.iter().skip(1).all(|port| !port.is_first));
    }

    #[test]
    fn a_proxy_in_front_is_the_endpoint() {
        let mut spec = MeshServiceSpec::default();
        check_ports(&spec, &[]);
        let mk = |name: &str, port: i32| MeshPort {
            name: Some(name.to_owned()),
            port: Some(port),
            ..MeshPort::default()
        };
        spec.ports = vec![mk("http", 80), mk("pg", 5432), mk("admin", 81)];
        spec.ports[0].target_port = Some(8080);
        check_ports(&spec, &[("http", 8080), ("pg", 5432), ("admin", 81)]);
        spec.fronting = Some(Fronting { port: Some(15_006) });
        spec.ports[1].fronting_port = Some(15_007);
        check_ports(&spec, &[("http", 15_006), ("pg", 15_007)]);
    }
}
