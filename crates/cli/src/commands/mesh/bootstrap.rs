//! `orrery mesh bootstrap`: the file an Envoy is started with.
use crate::args::{BootstrapArguments, BootstrapFormat, Global};
use crate::connection::Target;
use crate::output::print;
use crate::paths;
use crate::signals::StopSignals;
use anyhow::{Context as _, bail};
use orrery_client::identity::{Joiner, Member};
use orrery_pki::{Role, TlsFiles};
use orrery_server::{Bootstrap, BootstrapMode, ControlPlane, SecretPaths, ServiceName, TlsPaths};
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

pub async fn run(global: &Global, arguments: &BootstrapArguments) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let project = target.project(arguments.project.as_deref());
    let server = &target.context().server;
    let bootstrap = bootstrap(arguments, &project, server)?;
    let member = match &bootstrap.tls {
        Some(tls) if arguments.token.is_some() || arguments.renew => {
            Some(join(arguments, &bootstrap.service, server, tls).await?)
        }
        Some(tls) => {
            warn_of_missing(tls);
            None
        }
        None if arguments.token.is_some() || arguments.renew => {
            bail!("{server:?} takes plain connections, which need no certificates")
        }
        None => None,
    };
    let config = bootstrap.to_json();
    match arguments.output {
        BootstrapFormat::Yaml => print::line(orrery_api::value_to_yaml(&config).trim_end())?,
        BootstrapFormat::Json => print::line(&format!("{config:#}"))?,
    }
    match member {
        Some(member) if arguments.renew => renew(member).await,
        Some(_) | None => Ok(()),
    }
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
    for (file, content) in tls.secrets() {
        std::fs::write(file, content.to_string())
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(member)
}

/// Stays, and renews the certificate before it ends; the Envoy notices.
async fn renew(member: Member) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    tokio::select! {
        Ok(()) = member.renewal.run(CancellationToken::new()) => Ok(()),
        () = signals.next() => Ok(()),
    }
}

/// The name in the certificate of a service's proxies.
fn identity_of(service: &ServiceName) -> String {
    format!("{}.{}", service.name(), service.project())
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
    let name = format!("proxy-{}", identity_of(service));
    let joins = arguments.token.is_some() || arguments.renew;
    let secrets = SecretPaths {
        own: folder.join(format!("{name}-own.json")),
        trust: folder.join(format!("{name}-trust.json")),
    };
    Ok(TlsPaths {
        secrets: (joins || secrets.own.exists()).then_some(secrets),
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
