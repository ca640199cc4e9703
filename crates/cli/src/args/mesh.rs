//! Commands about the service mesh.
use super::Connection;
use crate::complete;
use clap::{Args, Subcommand, ValueEnum};
use orrery_server::MeshSettings;
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// Where the proxy takes the requests of others
    #[arg(long, value_name = "ADDRESS", requires = "instance")]
    pub inbound: Option<SocketAddr>,
    /// Where the instance is that those requests go to
    #[arg(long, value_name = "ADDRESS", requires = "inbound")]
    pub instance: Option<SocketAddr>,
    /// Port under which others reach the instance, announced while the proxy is connected
    #[arg(long, value_name = "PORT")]
    pub announce: Option<u16>,
    /// Where the proxy's own administration listens; nowhere when absent
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<SocketAddr>,
    /// Ask for differences instead of whole states
    #[arg(long)]
    pub delta: bool,
    /// Only endpoints of this service are asked for; all requests go there
    #[arg(long, value_name = "NAME", conflicts_with = "inbound", conflicts_with = "delta")]
    pub endpoints_of: Option<String>,
    /// Folder with the proxy's ca.pem, proxy-SERVICE.PROJECT.pem and proxy-SERVICE.PROJECT-key.pem
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
