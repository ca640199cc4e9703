//! Our server as a process of its own, and clients of it.
use crate::load::Method;
use crate::process::{self, Process};
use orrery_proto::hub::v1::hub_client::HubClient;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use tokio::time::Instant;
use tonic::transport::Channel;

pub struct Server {
    pub process: Process,
    pub url: String,
    /// From the start of the process to its first answer.
    pub started_in: Duration,
}

pub type Client = HubClient<Channel>;

impl Server {
    pub async fn start(data: &Path) -> anyhow::Result<Self> {
        Self::start_program(&process::orrery()?, data).await
    }

    /// Of another build than the one beside this benchmark.
    pub async fn start_program(program: &Path, data: &Path) -> anyhow::Result<Self> {
        let port = process::free_port()?;
        let mut command = Command::new(program);
        command.args(["server", "--log", "error", "--drivers-listen", "off"]);
        command.args(["--storage-listen", "off", "--listen"]);
        command.arg(format!("127.0.0.1:{port}")).arg("--data-dir").arg(data);
        let begun = Instant::now();
        let process = Process::start(&mut command)?;
        process::listening(port).await?;
        let url = format!("http://127.0.0.1:{port}");
        let mut client = Client::connect(url.clone()).await?;
        client.discover(orrery_proto::hub::v1::DiscoverRequest {}).await?;
        Ok(Self { process, url, started_in: begun.elapsed() })
    }

    /// A method of the hub, for much load.
    pub fn method(&self, name: &str) -> Method {
        let address = self.url.trim_start_matches("http://").to_owned();
        Method { address, path: format!("/orrery.hub.v1.Hub/{name}") }
    }

    /// Connections of their own.
    pub async fn clients(&self, count: usize) -> anyhow::Result<Vec<Client>> {
        let mut clients = Vec::new();
        for _ in 0..count {
            clients.push(Client::connect(self.url.clone()).await?);
        }
        Ok(clients)
    }
}
