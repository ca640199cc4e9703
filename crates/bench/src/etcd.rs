//! Debian's etcd as the peer.
use crate::process::{Process, free_port, listening};
use prost::Message as _;
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

/// Puts a value, durably.
pub const PUT: &str = "/etcdserverpb.KV/Put";
/// Reads a key, linearizably.
pub const GET: &str = "/etcdserverpb.KV/Range";

pub fn put(key: &str, value: &str) -> Vec<u8> {
    PutRequest { key: key.into(), value: value.into() }.encode_to_vec()
}

pub fn get(key: &str) -> Vec<u8> {
    RangeRequest { key: key.into() }.encode_to_vec()
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
