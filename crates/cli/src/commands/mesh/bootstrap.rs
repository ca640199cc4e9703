//! `orrery mesh bootstrap`: the file an Envoy is started with.
use crate::args::{BootstrapArguments, BootstrapFormat, Global, OfPort};
use crate::commands::join::{joined_paths, keep_renewed, write_for_envoy};
use crate::connection::Target;
use crate::output::print;
use crate::paths;
use anyhow::{Context as _, bail};
use orrery_client::identity::{Joiner, Member};
use orrery_pki::{Role, TlsFiles};
use orrery_server::{
    Bootstrap, BootstrapMode, ControlPlane, Destination, PortBootstrap, PortName, ServiceName,
    TlsPaths,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

pub async fn run(global: &Global, arguments: &BootstrapArguments) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let project = target.project(arguments.project.as_deref());
    let server = &target.context().server;
    let bootstrap = bootstrap(arguments, &project, server)?;
    let member = match &bootstrap.tls {
        Some(tls) if joins(arguments) => {
            Some(join(arguments, &bootstrap.service, server, tls).await?)
        }
        Some(tls) => {
            warn_of_missing(tls);
            None
        }
        None if joins(arguments) => {
            bail!("{server:?} takes plain connections, which need no certificates")
        }
        None => None,
    };
    let config = bootstrap.to_json();
    match arguments.output {
        BootstrapFormat::Yaml => {
            let yaml = orrery_api::value_to_yaml(&config);
            print::line(&format!("{HINT}\n{}", yaml.trim_end()))?;
        }
        BootstrapFormat::Json => print::line(&format!("{config:#}"))?,
        BootstrapFormat::Workload => {
            let workload = workload(arguments, &bootstrap.service, &config);
            print::line(orrery_api::value_to_yaml(&workload).trim_end())?;
        }
    }
    match member {
        Some(member) if arguments.renew => keep_renewed(member).await,
        Some(_) | None => Ok(()),
    }
}

fn joins(arguments: &BootstrapArguments) -> bool {
    arguments.token.is_some() || arguments.renew
}

/// Gets the proxy its certificate, and leaves beside it what the Envoy is told of it.
async fn join(
    arguments: &BootstrapArguments,
    service: &ServiceName,
    server: &str,
    tls: &TlsPaths,
) -> anyhow::Result<Member> {
    let joiner = Joiner {
        server: server.to_owned(),
        token: arguments.token.clone(),
        role: Role::Proxy,
        name: identity_of(service),
        files: TlsFiles {
            root: Some(tls.root.clone()),
            certificate: Some(tls.certificate.clone()),
            key: Some(tls.key.clone()),
        },
    };
    let member = joiner.must_join().await?;
    write_for_envoy(tls)?;
    Ok(member)
}

/// The name in the certificate of a service's proxies.
fn identity_of(service: &ServiceName) -> String {
    format!("{}.{}", service.name(), service.project())
}

/// Starts the program with the file beside it; each copy calls itself by its node. What is no longer allowed
/// lasts as long as Envoy drains it, which only its command line says.
const START: &str = "exec \"$0\" --config-path \"$ORRERY_FILES/envoy.yaml\" \
    --service-node \"$ORRERY_WORKLOAD@$ORRERY_NODE\" --use-dynamic-base-id --drain-time-s 30 \
    --log-level warning";
/// The same for those who start it by hand.
const HINT: &str = "# envoy --config-path THIS_FILE --drain-time-s 30";

/// A Workload that runs the Envoy, with its bootstrap as a file.
fn workload(arguments: &BootstrapArguments, service: &ServiceName, config: &Value) -> Value {
    json!({
        "apiVersion": "apps.orrery.dev/v1",
        "kind": "Workload",
        "metadata": { "name": format!("{}-proxy", service.name()), "project": service.project() },
        "spec": {
            "process": { "command": "/bin/sh", "args": ["-c", START, arguments.envoy] },
            "placement": { "nodes": arguments.nodes },
            "files": [{ "path": "envoy.yaml", "text": orrery_api::value_to_yaml(config) }],
        },
    })
}

fn bootstrap(
    arguments: &BootstrapArguments,
    project: &str,
    server: &str,
) -> anyhow::Result<Bootstrap> {
    let service = ServiceName::new(project, &arguments.service)?;
    let (is_encrypted, control_plane) = control_plane(server)?;
    let tls = match is_encrypted {
        true => Some(tls_paths(arguments, &service, &control_plane)?),
        false => None,
    };
    let mut ports = ports(arguments)?;
    let connect = arguments.connect.iter().map(|(at, to)| {
        let destination = Destination::within(project, to)?;
        anyhow::Ok((*at, destination))
    });
    Ok(Bootstrap {
        instance: arguments.id.clone().unwrap_or_else(|| default_id(arguments, &service)),
        control_plane,
        tls,
        outbound: arguments.outbound,
        first: ports.remove(&None).unwrap_or_default(),
        ports: ports.into_iter().filter_map(|(name, port)| Some((PortName(name?), port))).collect(),
        connect: connect.collect::<Result<_, _>>()?,
        admin: arguments.admin,
        mode: mode(arguments, project)?,
        service,
    })
}

/// What is asked for by port; `None` is the first.
fn ports(
    arguments: &BootstrapArguments,
) -> anyhow::Result<BTreeMap<Option<String>, PortBootstrap>> {
    let mut ports: BTreeMap<Option<String>, PortBootstrap> = BTreeMap::new();
    let name = |port: &Option<String>| port.clone().unwrap_or_else(|| "the first".to_owned());
    for announced in &arguments.announce {
        let port = ports.entry(announced.port.clone()).or_default();
        if port.announce.replace(announced.value.get()).is_some() {
            bail!("--announce is given twice for port {}", name(&announced.port));
        }
    }
    for listen in &arguments.inbound {
        let same = |one: &&OfPort<SocketAddr>| one.port == listen.port;
        let Some(instance) = arguments.instance.iter().find(same) else {
            bail!("--inbound for port {} needs an --instance", name(&listen.port));
        };
        let port = ports.entry(listen.port.clone()).or_default();
        if port.inbound.replace((listen.value, instance.value)).is_some() {
            bail!("--inbound is given twice for port {}", name(&listen.port));
        }
    }
    let lonely =
        |one: &&OfPort<SocketAddr>| !arguments.inbound.iter().any(|in_| in_.port == one.port);
    if let Some(instance) = arguments.instance.iter().find(lonely) {
        bail!("--instance for port {} needs an --inbound", name(&instance.port));
    }
    Ok(ports)
}

fn mode(arguments: &BootstrapArguments, project: &str) -> anyhow::Result<BootstrapMode> {
    Ok(match &arguments.endpoints_of {
        Some(name) => {
            BootstrapMode::EndpointsOnly { destination: Destination::within(project, name)? }
        }
        None if arguments.delta => BootstrapMode::AggregatedDelta,
        None => BootstrapMode::Aggregated,
    })
}

/// Whether connections are encrypted, and where they go.
fn control_plane(server: &str) -> anyhow::Result<(bool, ControlPlane)> {
    let (scheme, rest) = server.split_once("://").unwrap_or(("", server));
    let is_encrypted = match scheme {
        "https" => true,
        "http" => false,
        _ => bail!("{server:?} is no server: write http://HOST:PORT or https://HOST:PORT"),
    };
    let rest = rest.trim_end_matches('/');
    let (host, port) =
        rest.rsplit_once(':').with_context(|| format!("{server:?} names no port"))?;
    let port = port.parse().with_context(|| format!("{server:?} names no port"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    Ok((is_encrypted, ControlPlane { host, port }))
}

fn tls_paths(
    arguments: &BootstrapArguments,
    service: &ServiceName,
    control_plane: &ControlPlane,
) -> anyhow::Result<TlsPaths> {
    let server_name = arguments.server_name.clone().unwrap_or_else(|| control_plane.host.clone());
    let folder = match &arguments.tls_dir {
        Some(folder) => std::path::absolute(folder)
            .with_context(|| format!("find the folder {}", folder.display()))?,
        None => {
            let all = paths::data(None)?.join("proxies");
            let own = all.join(identity_of(service));
            if joins(arguments) || own.exists() { own } else { all }
        }
    };
    let joined = joined_paths(&folder, server_name);
    if joins(arguments) || joined.certificate.exists() {
        let followed = joined.followed.filter(|files| joins(arguments) || files.exist());
        return Ok(TlsPaths { followed, ..joined });
    }
    let name = format!("proxy-{}", identity_of(service));
    Ok(TlsPaths {
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}-key.pem")),
        followed: None,
        ..joined
    })
}

/// The bootstrap is good without them, and an Envoy is not.
fn warn_of_missing(tls: &TlsPaths) {
    let files = [&tls.root, &tls.certificate, &tls.key];
    let missing: Vec<&PathBuf> = files.into_iter().filter(|file| !file.exists()).collect();
    for file in missing {
        print::note(&format!(
            "note: {} is not there yet; Envoy needs it to connect",
            file.display()
        ));
    }
}

/// None for a workload: each of its copies has a name already.
fn default_id(arguments: &BootstrapArguments, service: &ServiceName) -> String {
    if arguments.output == BootstrapFormat::Workload {
        return String::new();
    }
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{}.{}@{host}", service.name(), service.project())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(server: &str, expect: Option<(bool, &str, u16)>) {
        let found = control_plane(server).ok();
        let found = found.as_ref().map(|(tls, at)| (*tls, at.host.as_str(), at.port));
        assert_eq!(found, expect, "{server}");
    }

    #[derive(clap::Parser)]
    struct Only {
        #[command(flatten)]
        arguments: BootstrapArguments,
    }

    #[track_caller]
    fn check_ports(more: &[&str], expect: Result<&[&str], &str>) {
        let line = [&["bootstrap", "--service", "db"], more].concat();
        let only = <Only as clap::Parser>::try_parse_from(line).expect("a command line");
        match (ports(&only.arguments), expect) {
            (Ok(found), Ok(expect)) => {
                let found = found.iter().map(|(name, port)| {
                    let inbound = port.inbound.map(|(at, to)| (at.port(), to.port()));
                    format!("{} {inbound:?} {:?}", name.as_deref().unwrap_or("-"), port.announce)
                });
                assert_eq!(found.collect::<Vec<_>>(), expect);
            }
            (Err(error), Err(expect)) => assert!(error.to_string().contains(expect), "{error}"),
            (found, expect) => panic!("{found:?} instead of {expect:?}"),
        }
    }

    #[test]
    fn what_is_asked_for_each_port() {
        let [a, b, c] = ["127.0.0.1:1", "81=127.0.0.1:2", "81=127.0.0.1:3"];
        check_ports(&[], Ok(&[]));
        check_ports(
            &[
                "--inbound",
                a,
                "--instance",
                a,
                "--inbound",
                b,
                "--instance",
                c,
                "--announce",
                "81=2",
            ],
            Ok(&["- Some((1, 1)) None", "81 Some((2, 3)) Some(2)"]),
        );
        check_ports(&["--announce", "1", "--announce", "2"], Err("twice for port the first"));
        check_ports(&["--inbound", b, "--instance", a], Err("--inbound for port 81 needs"));
        let lonely = ["--inbound", a, "--instance", a, "--instance", b];
        check_ports(&lonely, Err("--instance for port 81 needs"));
        let twice = ["--inbound", b, "--instance", c, "--inbound", b];
        check_ports(&twice, Err("--inbound is given twice for port 81"));
    }

    #[test]
    fn servers() {
        check("http://127.0.0.1:7443", Some((false, "127.0.0.1", 7443)));
        check("https://orrery.example.org:7443/", Some((true, "orrery.example.org", 7443)));
        check("https://[::1]:7443", Some((true, "::1", 7443)));
        check("https://orrery.example.org", None);
        check("orrery.example.org:7443", None);
    }
}
