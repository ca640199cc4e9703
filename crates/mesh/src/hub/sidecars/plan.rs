//! What runs beside the instances of a service: pure.
use super::names::{CERTIFICATE, KEY, LABEL, ROOTS, meta, name_of, owned_by};
use crate::envoy::{Bootstrap, ControlPlane, Mode, PortBootstrap, TlsPaths};
use crate::names::{Destination, PortName, ServiceName};
use orrery_hub::ObjectName;
use orrery_proto::apps::v1::{
    File, Placement, Probe, Process, SecretValue, TcpProbe, Workload, WorkloadSpec, file, probe,
    workload_spec,
};
use orrery_proto::mesh::v1::{MeshPort, MeshService, MeshServiceSpec, Sidecar};
use orrery_proto::meta::v1::ObjectMeta;
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

/// As the definition of the kind has it; for specs that were stored without.
const OUTBOUND_DEFAULT: i32 = 15_001;
/// How often a sidecar is asked whether it takes traffic. Its node is sent none until then.
const PROBE_S: i32 = 2;
/// The file that the bootstrap is in.
const BOOTSTRAP: &str = "envoy.json";

/// In the bootstrap: where the server is, and where the files are. Only the node knows: it reaches the server where
/// its agent does.
const HOST_MARK: &str = "@HOST@";
const PORT_MARK: &str = "@PORT@";
const FILES_MARK: &str = "@FILES@";

/// Starts the program with the bootstrap, in which the marks are replaced by what the agent says. What is no longer
/// allowed lasts as long as Envoy drains it, which only its command line says.
const START: &str = "server=${ORRERY_SERVER#*://} && server=${server%/} && host=${server%:*} && \
    host=${host#[} && host=${host%]} && \
    config=$(sed -e \"s|@HOST@|$host|g\" -e \"s|@PORT@|${server##*:}|g\" \
    -e \"s|@FILES@|$ORRERY_FILES|g\" \"$ORRERY_FILES/envoy.json\") && \
    exec \"$0\" --config-yaml \"$config\" --service-node \"$ORRERY_WORKLOAD@$ORRERY_NODE\" \
    --use-dynamic-base-id --drain-time-s 30 --log-level warning";
/// The program, found along the PATH of the agent. Whoever declares a service does not choose what runs on nodes.
const PROGRAM: &str = "envoy";

/// The workload that runs the sidecars of a service. `servers` is what the names of servers begin with that prove who
/// they are; nothing where connections are plain. The error says why there is none.
pub fn workload(
    name: &ObjectName,
    service: &MeshService,
    servers: Option<&str>,
) -> Result<Workload, String> {
    let spec = service.spec.clone().unwrap_or_default();
    let sidecar = spec.sidecar.clone().unwrap_or_default();
    let bootstrap = bootstrap(name, &spec, &sidecar, servers)?;
    let process = Process {
        command: Some("/bin/sh".to_owned()),
        args: ["-c", START, PROGRAM].map(str::to_owned).to_vec(),
        user: sidecar.user.clone(),
        ..Process::default()
    };
    let text = file::Source::Text(marked(&bootstrap).to_string());
    let mut files = vec![file(BOOTSTRAP, text)];
    if servers.is_some() {
        files.extend([ROOTS, CERTIFICATE, KEY].map(|key| {
            let value = SecretValue { name: Some(name_of(&name.name)), key: Some(key.to_owned()) };
            file(key, file::Source::Secret(value))
        }));
    }
    let beside = spec.workload.clone().unwrap_or_else(|| name.name.clone());
    let spec = WorkloadSpec {
        runtime: Some(workload_spec::Runtime::Process(process)),
        placement: Some(Placement { beside: Some(beside), ..Placement::default() }),
        readiness_probe: Some(probe(&spec, &sidecar)),
        files,
        ..WorkloadSpec::default()
    };
    Ok(Workload { metadata: Some(metadata(name, service)), spec: Some(spec), ..<_>::default() })
}

/// Of everything that is made for a service.
pub fn metadata(name: &ObjectName, service: &MeshService) -> ObjectMeta {
    ObjectMeta {
        name: name_of(&name.name),
        project: name.project.clone(),
        labels: [(LABEL.to_owned(), meta(&service.metadata).name.clone())].into(),
        owner_references: vec![owned_by(service)],
        ..ObjectMeta::default()
    }
}

/// The ports of the node that a sidecar takes, in their order.
pub fn ports(spec: &MeshServiceSpec) -> Vec<i32> {
    let Some(sidecar) = &spec.sidecar else { return Vec::new() };
    let fronting = fronted(spec).map(|(_, fronting)| fronting);
    let connect = sidecar.connect.iter().map(|one| one.port());
    let mut all: Vec<i32> = fronting.chain([outbound(sidecar)]).chain(connect).collect();
    all.sort_unstable();
    all
}

/// Ports of the service that its proxies take traffic for, and where; the first one comes first.
fn fronted(spec: &MeshServiceSpec) -> impl Iterator<Item = (&MeshPort, i32)> {
    let first = spec.fronting.as_ref().map(|fronting| fronting.port());
    let ports = spec.ports.iter().enumerate();
    ports.filter_map(move |(index, port)| {
        let fronting =
            if index == 0 { first } else { port.fronting_port.filter(|_| first.is_some()) };
        Some((port, fronting?))
    })
}

fn outbound(sidecar: &Sidecar) -> i32 {
    sidecar.outbound_port.unwrap_or(OUTBOUND_DEFAULT)
}

fn bootstrap(
    name: &ObjectName,
    spec: &MeshServiceSpec,
    sidecar: &Sidecar,
    servers: Option<&str>,
) -> Result<Bootstrap, String> {
    let service = ServiceName::new(&name.project, &name.name).map_err(|error| error.to_string())?;
    let mut first = PortBootstrap::default();
    let mut ports = BTreeMap::new();
    for (port, fronting) in fronted(spec) {
        let instance = port.target_port.unwrap_or(port.port());
        let listen = SocketAddr::from((Ipv4Addr::UNSPECIFIED, number(fronting)?));
        let taken = PortBootstrap { inbound: Some((listen, loopback(instance)?)), announce: None };
        match spec.ports.first().is_some_and(|one| one.name == port.name) {
            true => first = taken,
            false => drop(ports.insert(PortName(port.port().to_string()), taken)),
        }
    }
    let connect = sidecar.connect.iter().map(|one| {
        let to = Destination::within(&name.project, one.to()).map_err(|error| error.to_string())?;
        Ok((loopback(one.port())?, to))
    });
    let folder = Path::new(FILES_MARK);
    let tls = servers.map(|servers| TlsPaths {
        root: folder.join(ROOTS),
        certificate: folder.join(CERTIFICATE),
        key: folder.join(KEY),
        followed: None,
        server_name: servers.to_owned(),
    });
    Ok(Bootstrap {
        service,
        // Each copy calls itself by its node.
        instance: String::new(),
        control_plane: ControlPlane { host: HOST_MARK.to_owned(), port: 0 },
        tls,
        outbound: loopback(outbound(sidecar))?,
        first,
        ports,
        connect: connect.collect::<Result<_, String>>()?,
        admin: None,
        mode: Mode::Aggregated,
    })
}

/// The bootstrap with a mark for the port of the server: as a text, which Envoy reads as a number.
fn marked(bootstrap: &Bootstrap) -> Value {
    const PORT: &str = "/static_resources/clusters/0/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/port_value";
    let mut json = bootstrap.to_json();
    if let Some(port) = json.pointer_mut(PORT) {
        *port = PORT_MARK.into();
    }
    json
}

/// Where it takes traffic when its configuration is there. A "tcp" port that proves nothing passes every connection on
/// to the instance, so there it is asked on the other side.
fn probe(spec: &MeshServiceSpec, sidecar: &Sidecar) -> Probe {
    let quiet = |port: &MeshPort| spec.encrypted() || port.protocol() != "tcp";
    let inbound = fronted(spec).next().filter(|(port, _)| quiet(port));
    let port = inbound.map_or_else(|| outbound(sidecar), |(_, fronting)| fronting);
    Probe {
        action: Some(probe::Action::Tcp(TcpProbe { port: Some(port) })),
        period_seconds: Some(PROBE_S),
        ..Probe::default()
    }
}

fn file(path: &str, source: file::Source) -> File {
    File { path: Some(path.to_owned()), source: Some(source), mode: None }
}

fn loopback(port: i32) -> Result<SocketAddr, String> {
    Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, number(port)?)))
}

fn number(port: i32) -> Result<u16, String> {
    u16::try_from(port).map_err(|_| format!("{port} is no port"))
}

#[cfg(test)]
mod tests;
