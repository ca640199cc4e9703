//! From an assignment to what podman is asked to create.
use super::super::{StartRequest, StopRequest};
use crate::assignments::INSTANCES;
use crate::logs::CONTAINER_LOG;
use crate::model::History;
use crate::runtime::process::record::Stop;
use crate::supervisor::{LOG_FILE_MAX_BYTES, LOG_FOLDER};
use crate::volumes::Bind;
use bollard::models::{ContainerCreateBody, HostConfig, HostConfigLogConfig, PortBinding, PortMap};
use orrery_proto::apps::v1::{HostMount, Podman, PortMapping, ResourceAmounts};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Where a container finds its files.
const FILES_FOLDER: &str = "/run/orrery/files";

/// By these labels the agent finds its containers again, and people theirs.
pub(super) const LABEL_INSTANCE: &str = "dev.orrery.instance";
pub(super) const LABEL_HASH: &str = "dev.orrery.spec-hash";
pub(super) const LABEL_HISTORY: &str = "dev.orrery.history";
pub(super) const LABEL_NODE: &str = "dev.orrery.node";
pub(super) const LABEL_DATA_FOLDER: &str = "dev.orrery.data-folder";
const LABEL_STOP: &str = "dev.orrery.stop";
const LABEL_VOLUMES: &str = "dev.orrery.volumes";
const LABEL_PROJECT: &str = "dev.orrery.project";
const LABEL_WORKLOAD: &str = "dev.orrery.workload";

const MIB: i64 = 1 << 20;
const NANOS_PER_MILLI: i64 = 1_000_000;

/// The name of the one container that an instance may have. Podman refuses a second of that name,
/// so nothing runs twice even if two agents race.
pub(super) fn name(id: &crate::model::InstanceId) -> String {
    format!("orrery-{id}")
}

/// Everything that podman has to know. `data_dir` is the data folder of the agent.
pub(super) fn body(
    request: &StartRequest,
    podman: &Podman,
    node: &str,
    data_dir: &Path,
) -> ContainerCreateBody {
    let folder = data_dir.join(INSTANCES).join(request.id.as_str());
    let texts = |texts: &[String]| (!texts.is_empty()).then(|| texts.to_vec());
    ContainerCreateBody {
        image: podman.image.clone(),
        entrypoint: texts(&podman.command),
        cmd: texts(&podman.args),
        env: Some(environment(request, podman, node)),
        working_dir: podman.working_directory.clone(),
        user: podman.user.clone(),
        labels: Some(labels(request, node, data_dir)),
        stop_signal: Some(request.stop.signal.name().to_owned()),
        exposed_ports: Some(podman.ports.iter().map(port_key).collect()),
        host_config: Some(host_config(request, podman, &folder)),
        ..ContainerCreateBody::default()
    }
}

fn environment(request: &StartRequest, podman: &Podman, node: &str) -> Vec<String> {
    let mut env: Vec<String> = Vec::new();
    env.extend(podman.env.iter().map(|(name, value)| format!("{name}={value}")));
    let workload = request.spec.workload.as_deref().unwrap_or_default();
    let own = [
        ("ORRERY_PROJECT", request.project.as_str()),
        ("ORRERY_WORKLOAD", workload),
        ("ORRERY_INSTANCE", request.id.as_str()),
        ("ORRERY_NODE", node),
    ];
    // Ours come last, so nobody pretends to be another.
    env.extend(own.map(|(name, value)| format!("{name}={value}")));
    env.extend(request.files.as_ref().map(|_| format!("ORRERY_FILES={FILES_FOLDER}")));
    env
}

fn labels(request: &StartRequest, node: &str, data_dir: &Path) -> HashMap<String, String> {
    let workload = request.spec.workload.clone().unwrap_or_default();
    let places: Vec<&Path> = request.volumes.iter().map(|bind| bind.source.as_path()).collect();
    [
        (LABEL_DATA_FOLDER, data_dir.to_string_lossy().into_owned()),
        (LABEL_STOP, serde_json::to_string(&Stop::from(request.stop)).unwrap_or_default()),
        (LABEL_VOLUMES, serde_json::to_string(&places).unwrap_or_default()),
        (LABEL_INSTANCE, request.id.as_str().to_owned()),
        (LABEL_HASH, request.hash.0.clone()),
        (LABEL_HISTORY, history_text(&request.history)),
        (LABEL_NODE, node.to_owned()),
        (LABEL_PROJECT, request.project.clone()),
        (LABEL_WORKLOAD, workload),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

fn history_text(history: &History) -> String {
    // Numbers and a choice of two: there is nothing in it that could not be written.
    serde_json::to_string(history).unwrap_or_default()
}

/// What was remembered when the container was made.
pub(super) fn history(labels: &HashMap<String, String>) -> History {
    labels.get(LABEL_HISTORY).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// How it was to be stopped when it was made.
pub(super) fn stop(labels: &HashMap<String, String>) -> Option<StopRequest> {
    let stop: Stop = serde_json::from_str(labels.get(LABEL_STOP)?).ok()?;
    Some(stop.into())
}

/// Where the volumes are that it uses.
pub(super) fn volumes(labels: &HashMap<String, String>) -> Vec<PathBuf> {
    let places = labels.get(LABEL_VOLUMES).and_then(|text| serde_json::from_str(text).ok());
    places.unwrap_or_default()
}

fn host_config(request: &StartRequest, podman: &Podman, folder: &Path) -> HostConfig {
    let limits = request.spec.resources.as_ref().and_then(|resources| resources.limits);
    let limits: ResourceAmounts = limits.unwrap_or_default();
    HostConfig {
        network_mode: Some(podman.network.clone().unwrap_or_else(|| "bridge".to_owned())),
        port_bindings: Some(port_bindings(&podman.ports)),
        binds: Some(binds(request, &podman.mounts)),
        memory: limits.memory_mib.map(|mib| mib.saturating_mul(MIB)),
        nano_cpus: limits.cpu_millis.map(|millis| millis.saturating_mul(NANOS_PER_MILLI)),
        pids_limit: limits.processes,
        log_config: Some(log_config(folder)),
        ..HostConfig::default()
    }
}

/// The log goes to the folder of the instance, where it outlives the container and stays bounded.
fn log_config(folder: &Path) -> HostConfigLogConfig {
    let path = folder.join(LOG_FOLDER).join(CONTAINER_LOG);
    let config = HashMap::from([
        ("path".to_owned(), path.to_string_lossy().into_owned()),
        ("max-size".to_owned(), LOG_FILE_MAX_BYTES.to_string()),
    ]);
    HostConfigLogConfig { typ: Some("k8s-file".to_owned()), config: Some(config) }
}

fn protocol(port: &PortMapping) -> &str {
    port.protocol.as_deref().unwrap_or("tcp")
}

fn port_key(port: &PortMapping) -> String {
    format!("{}/{}", port.container_port(), protocol(port))
}

fn port_bindings(ports: &[PortMapping]) -> PortMap {
    let mut bindings = PortMap::new();
    for port in ports {
        let host_port = port.host_port.unwrap_or_else(|| port.container_port());
        let binding = PortBinding {
            host_ip: port.host_address.clone(),
            host_port: Some(host_port.to_string()),
        };
        bindings.entry(port_key(port)).or_default().get_or_insert_default().push(binding);
    }
    bindings
}

fn binds(request: &StartRequest, mounts: &[HostMount]) -> Vec<String> {
    let mount = |mount: &HostMount| {
        let mode = if mount.read_only() { "ro" } else { "rw" };
        format!("{}:{}:{mode}", mount.source(), mount.target())
    };
    let volume = |bind: &Bind| {
        let mode = if bind.read_only { "ro" } else { "rw" };
        format!("{}:{}:{mode}", bind.source.display(), bind.target.display())
    };
    let mut binds: Vec<String> = mounts.iter().map(mount).collect();
    binds.extend(request.volumes.iter().map(volume));
    if let Some(folder) = &request.files {
        binds.push(format!("{}:{FILES_FOLDER}:ro", folder.display()));
        let absolute = request.spec.files.iter().filter(|file| file.path().starts_with('/'));
        binds.extend(absolute.map(|file| {
            let source = folder.join(file.path().trim_start_matches('/'));
            format!("{}:{}:ro", source.display(), file.path())
        }));
    }
    binds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{InstanceId, SpecHash, StopSignal};
    use orrery_proto::apps::v1::{File, Resources, WorkloadInstanceSpec};
    use std::time::Duration;

    fn request(files: &[&str]) -> StartRequest {
        let file = |path: &&str| File { path: Some((*path).into()), ..File::default() };
        let limits =
            ResourceAmounts { cpu_millis: Some(500), memory_mib: Some(64), processes: Some(50) };
        StartRequest {
            id: InstanceId::new("i-1").unwrap(),
            project: "shop".into(),
            spec: WorkloadInstanceSpec {
                workload: Some("web".into()),
                files: files.iter().map(file).collect(),
                resources: Some(Resources { requests: None, limits: Some(limits) }),
                ..WorkloadInstanceSpec::default()
            },
            hash: SpecHash("h".into()),
            history: History { restarts: 3, ..History::default() },
            stop: StopRequest { signal: StopSignal::Int, grace: Duration::from_secs(1) },
            files: (!files.is_empty()).then(|| "/run/x".into()),
            volumes: vec![Bind { source: "/vol".into(), target: "/v".into(), read_only: false }],
        }
    }

    fn of(podman: &Podman, files: &[&str]) -> ContainerCreateBody {
        body(&request(files), podman, "edge-1", Path::new("/data"))
    }

    #[test]
    fn an_image_alone_keeps_what_the_image_says() {
        let body = of(&Podman { image: Some("box:1".into()), ..Podman::default() }, &[]);
        assert_eq!((body.entrypoint, body.cmd, body.user), (None, None, None));
        let host = body.host_config.unwrap();
        assert_eq!(host.network_mode.as_deref(), Some("bridge"));
        assert_eq!((host.memory, host.nano_cpus), (Some(64 << 20), Some(500_000_000)));
        assert_eq!((host.pids_limit, host.binds), (Some(50), Some(vec!["/vol:/v:rw".into()])));
        let log = host.log_config.unwrap().config.unwrap();
        assert_eq!(log["path"], "/data/instances/i-1/log/container");
        let labels = body.labels.unwrap();
        assert_eq!((labels[LABEL_HASH].as_str(), history(&labels).restarts), ("h", 3));
        assert_eq!(history(&HashMap::new()), History::default());
        assert_eq!((stop(&labels), stop(&HashMap::new())), (Some(request(&[]).stop), None));
        assert_eq!(volumes(&labels), [PathBuf::from("/vol")]);
        assert_eq!(labels[LABEL_DATA_FOLDER], "/data");
        assert_eq!(body.stop_signal.as_deref(), Some("SIGINT"));
    }

    #[test]
    fn ports_mounts_and_files_are_spelled_as_podman_reads_them() {
        let port = |container, host, protocol: Option<&str>| PortMapping {
            container_port: Some(container),
            host_port: host,
            host_address: None,
            protocol: protocol.map(str::to_owned),
        };
        let mount = HostMount {
            source: Some("/srv".into()),
            target: Some("/data".into()),
            read_only: Some(true),
        };
        let podman = Podman {
            ports: vec![port(80, Some(8080), None), port(53, None, Some("udp"))],
            mounts: vec![mount],
            env: [("ORRERY_NODE".to_owned(), "lie".to_owned())].into(),
            ..Podman::default()
        };
        let body = of(&podman, &["a/b", "/etc/app.conf"]);
        let host = body.host_config.unwrap();
        let ports = host.port_bindings.unwrap();
        let first = |key: &str| ports[key].as_ref().unwrap()[0].host_port.clone().unwrap();
        assert_eq!((first("80/tcp").as_str(), first("53/udp").as_str()), ("8080", "53"));
        let binds = [
            "/srv:/data:ro",
            "/vol:/v:rw",
            "/run/x:/run/orrery/files:ro",
            "/run/x/etc/app.conf:/etc/app.conf:ro",
        ];
        assert_eq!(host.binds.unwrap(), binds);
        let env = body.env.unwrap();
        assert_eq!(
            env.iter().rfind(|e| e.starts_with("ORRERY_NODE=")).unwrap(),
            "ORRERY_NODE=edge-1"
        );
        assert!(env.contains(&"ORRERY_FILES=/run/orrery/files".to_owned()));
    }
}
