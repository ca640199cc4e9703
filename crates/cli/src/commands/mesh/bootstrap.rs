//! `orrery mesh bootstrap`: the file an Envoy is started with.
use crate::args::{BootstrapArguments, BootstrapFormat, Global};
use crate::connection::Target;
use crate::output::print;
use crate::paths;
use anyhow::{Context as _, bail};
use orrery_server::{Bootstrap, BootstrapMode, ControlPlane, ServiceName, TlsPaths};
use std::path::PathBuf;

pub fn run(global: &Global, arguments: &BootstrapArguments) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let project = target.project(arguments.project.as_deref());
    let bootstrap = bootstrap(arguments, &project, &target.context().server)?;
    if let Some(tls) = &bootstrap.tls {
        warn_of_missing(tls);
    }
    let config = bootstrap.to_json();
    match arguments.output {
        BootstrapFormat::Yaml => print::line(orrery_api::value_to_yaml(&config).trim_end()),
        BootstrapFormat::Json => print::line(&format!("{config:#}")),
    }
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
    Ok(Bootstrap {
        instance: arguments.id.clone().unwrap_or_else(|| default_id(&service)),
        control_plane,
        tls,
        outbound: arguments.outbound,
        inbound: arguments.inbound.zip(arguments.instance),
        endpoint_port: arguments.announce,
        admin: arguments.admin,
        mode: mode(arguments, project)?,
        service,
    })
}

fn mode(arguments: &BootstrapArguments, project: &str) -> anyhow::Result<BootstrapMode> {
    Ok(match &arguments.endpoints_of {
        Some(name) => BootstrapMode::EndpointsOnly {
            destination: match name.contains('/') {
                true => name.parse()?,
                false => ServiceName::new(project, name)?,
            },
        },
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
    let folder = match &arguments.tls_dir {
        Some(folder) => std::path::absolute(folder)
            .with_context(|| format!("find the folder {}", folder.display()))?,
        None => paths::data(None)?.join("proxies"),
    };
    let name = format!("proxy-{}.{}", service.name(), service.project());
    Ok(TlsPaths {
        root: folder.join("ca.pem"),
        certificate: folder.join(format!("{name}.pem")),
        key: folder.join(format!("{name}-key.pem")),
        server_name: arguments.server_name.clone().unwrap_or_else(|| control_plane.host.clone()),
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

fn default_id(service: &ServiceName) -> String {
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

    #[test]
    fn servers() {
        check("http://127.0.0.1:7443", Some((false, "127.0.0.1", 7443)));
        check("https://orrery.example.org:7443/", Some((true, "orrery.example.org", 7443)));
        check("https://[::1]:7443", Some((true, "::1", 7443)));
        check("https://orrery.example.org", None);
        check("orrery.example.org:7443", None);
    }
}
