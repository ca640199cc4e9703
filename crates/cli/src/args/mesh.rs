//! Commands about the service mesh.
use super::Connection;
use crate::complete;
use clap::{Args, Subcommand, ValueEnum};
use orrery_server::MeshSettings;
use std::fmt::Display;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::str::FromStr;

/// What a server is told about its mesh.
#[derive(Debug, Default, Args)]
pub struct ServerMesh {
    /// PEM file of the authority that signs the certificates of proxies
    #[arg(long, value_name = "FILE", requires = "mesh_authority_key")]
    pub mesh_authority: Option<PathBuf>,
    /// PEM file of its key
    #[arg(long, value_name = "FILE", requires = "mesh_authority")]
    pub mesh_authority_key: Option<PathBuf>,
    /// Kubernetes cluster to read declarations and instances from; may be given more than once
    #[arg(long = "mesh-cluster", value_name = "NAME=KUBECONFIG", value_parser = named_file)]
    pub mesh_clusters: Vec<(String, PathBuf)>,
    /// Azure subscription to look machines up in, and the JSON file with its credentials; may be given
    /// more than once
    #[arg(long = "mesh-azure", value_name = "NAME=FILE", value_parser = named_file)]
    pub mesh_azure: Vec<(String, PathBuf)>,
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if orrery_api::is_name(name) && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        Some(_) | None => Err("write it as NAME=FILE, the name in a-z, 0-9 and '-'".to_owned()),
    }
}

impl ServerMesh {
    pub fn settings(&self) -> MeshSettings {
        let authority = self.mesh_authority.clone().zip(self.mesh_authority_key.clone());
        let (clusters, azure) = (self.mesh_clusters.clone(), self.mesh_azure.clone());
        MeshSettings { authority, clusters, azure }
    }
}

#[derive(Debug, Args)]
pub struct MeshArguments {
    #[command(subcommand)]
    pub command: MeshCommand,
}

#[derive(Debug, Subcommand)]
pub enum MeshCommand {
    /// Print the file to start an Envoy with, in front of a service
    Bootstrap(Box<BootstrapArguments>),
    /// Show services with their endpoints and proxies, and what has no effect
    Status(MeshList),
    /// Show what each proxy should have, was sent, accepted and refused
    Proxies(MeshList),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum BootstrapFormat {
    #[default]
    Yaml,
    Json,
    /// A Workload that runs the Envoy, to be applied
    Workload,
}

/// Something for one port of a service; `None` is its first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfPort<T> {
    pub port: Option<String>,
    pub value: T,
}

fn of_port<T: FromStr>(text: &str) -> Result<OfPort<T>, String>
where
    T::Err: Display,
{
    let (port, value) = match text.split_once('=') {
        Some((port, _)) if !orrery_api::is_name(port) => {
            return Err(format!("{port:?} is no port: write its number or its name"));
        }
        Some((port, value)) => (Some(port.to_owned()), value),
        None => (None, text),
    };
    let value = value.parse().map_err(|error: T::Err| error.to_string())?;
    Ok(OfPort { port, value })
}

fn connection(text: &str) -> Result<(SocketAddr, String), String> {
    let form = "write it as ADDRESS=SERVICE:PORT, such as 127.0.0.1:15432=db:5432";
    let (at, to) = text.split_once('=').ok_or(form)?;
    let at = at.parse().map_err(|_| form)?;
    Ok((at, to.to_owned()))
}

#[derive(Debug, Args)]
pub struct BootstrapArguments {
    /// Service that the proxy fronts
    #[arg(long, value_name = "NAME")]
    pub service: String,
    /// Project of the service [default: the context's, else default]
    #[arg(short, long, add = complete::projects())]
    pub project: Option<String>,
    /// What the proxy calls itself; tells the proxies of a service apart [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    pub id: Option<String>,
    /// Where the proxy takes the service's own requests to others
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:15001")]
    pub outbound: SocketAddr,
    /// Where the proxy takes the traffic of others, for the service's first port or the one named; may be
    /// given more than once
    #[arg(long, value_name = "[PORT=]ADDRESS", requires = "instance", value_parser = of_port::<SocketAddr>)]
    pub inbound: Vec<OfPort<SocketAddr>>,
    /// Where the instance is that this traffic goes to; once for each --inbound
    #[arg(long, value_name = "[PORT=]ADDRESS", requires = "inbound", value_parser = of_port::<SocketAddr>)]
    pub instance: Vec<OfPort<SocketAddr>>,
    /// Port under which others reach the instance, announced while the proxy is connected; may be given
    /// more than once
    #[arg(long, value_name = "[PORT=]NUMBER", value_parser = of_port::<NonZeroU16>)]
    pub announce: Vec<OfPort<NonZeroU16>>,
    /// Where the proxy takes the service's own connections to a port of another that speaks "tcp"; may be
    /// given more than once
    #[arg(long, value_name = "ADDRESS=SERVICE:PORT", conflicts_with = "endpoints_of", value_parser = connection)]
    pub connect: Vec<(SocketAddr, String)>,
    /// Where the proxy's own administration listens; nowhere when absent
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<SocketAddr>,
    /// Ask for differences instead of whole states
    #[arg(long)]
    pub delta: bool,
    /// Only endpoints of this service, or of one of its ports, are asked for; all requests go there
    #[arg(long, value_name = "NAME[:PORT]", conflicts_with = "inbound", conflicts_with = "delta")]
    pub endpoints_of: Option<String>,
    /// Folder with the proxy's ca.pem, and certificate.pem and key.pem as `orrery join` writes them, or
    /// proxy-SERVICE.PROJECT.pem and proxy-SERVICE.PROJECT-key.pem as `orrery pki issue` does
    /// [default: ~/.local/share/orrery/proxies]
    #[arg(long, value_name = "FOLDER")]
    pub tls_dir: Option<PathBuf>,
    /// Join token: the proxy gets a certificate of its own with it, kept in --tls-dir
    #[arg(long, env = "ORRERY_JOIN_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Stay, and renew the proxy's certificate before it ends; the Envoy notices
    #[arg(long)]
    pub renew: bool,
    /// What the server's certificate must say, where that is not the host of its URL
    #[arg(long, value_name = "NAME")]
    pub server_name: Option<String>,
    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    pub output: BootstrapFormat,
    /// Node that the workload runs on; may be given more than once
    #[arg(long = "node", value_name = "NAME", required_if_eq("output", "workload"))]
    pub nodes: Vec<String>,
    /// Program that the workload runs, as the nodes have it
    #[arg(long, value_name = "PROGRAM", default_value = "envoy")]
    pub envoy: String,
    #[command(flatten)]
    pub connection: Connection,
}

#[derive(Debug, Args)]
pub struct MeshList {
    /// Project to look in [default: the context's, else default]
    #[arg(short, long, conflicts_with = "all_projects", add = complete::projects())]
    pub project: Option<String>,
    /// Look in all projects
    #[arg(short = 'A', long)]
    pub all_projects: bool,
    #[command(flatten)]
    pub connection: Connection,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<(Option<&str>, u16)>) {
        let read = of_port::<NonZeroU16>(text).ok();
        let shown = read.as_ref().map(|one| (one.port.as_deref(), one.value.get()));
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn ports_and_connections() {
        check("15006", Some((None, 15006)));
        check("5432=15008", Some((Some("5432"), 15008)));
        check("pg=15008", Some((Some("pg"), 15008)));
        check("P G=15008", None);
        check("=15008", None);
        check("pg=", None);
        check("0", None);
        let read = connection("127.0.0.1:15432=db:5432").expect("readable");
        assert_eq!((read.0.port(), read.1.as_str()), (15432, "db:5432"));
        assert!(connection("db:5432").is_err() && connection("15432=db:5432").is_err());
    }
}
