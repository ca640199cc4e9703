//! Debian's etcd as the peer.
use crate::process::{Process, free_port, listening};
use std::path::Path;
use std::process::Command;

/// The two calls that are compared, with the fields that they need.
#[derive(Clone, PartialEq, prost::Message)]
struct PutRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// Without `serializable`, so the answer is linearizable.
#[derive(Clone, PartialEq, prost::Message)]
struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
}

/// A client with a connection of its own.
pub struct Client {
    grpc: crate::grpc::Client,
}

impl Client {
    pub async fn connect(address: &str) -> anyhow::Result<Self> {
        Ok(Self { grpc: crate::grpc::Client::connect(address).await? })
    }

    pub async fn put(&mut self, key: &str, value: &str) -> anyhow::Result<()> {
        let request = PutRequest { key: key.into(), value: value.into() };
        self.grpc.call("/etcdserverpb.KV/Put", &request).await.map(drop)
    }

    pub async fn get(&mut self, key: &str) -> anyhow::Result<()> {
        let request = RangeRequest { key: key.into() };
        self.grpc.call("/etcdserverpb.KV/Range", &request).await.map(drop)
    }
}

/// One member on loopback, on the same disk as what it is compared with.
pub async fn start(folder: &Path) -> anyhow::Result<(Process, String)> {
    let (client, peer) = (free_port()?, free_port()?);
    let client_url = format!("http://127.0.0.1:{client}");
    let peer_url = format!("http://127.0.0.1:{peer}");
    let mut command = Command::new("etcd");
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
        .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
        .args(["--initial-cluster", &format!("default={peer_url}"), "--logger", "zap"]);
    let process = Process::start(&mut command)?;
    listening(client).await?;
    Ok((process, format!("127.0.0.1:{client}")))
}
