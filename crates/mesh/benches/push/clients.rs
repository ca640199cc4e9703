//! Many proxies: each with a connection and a stream of its own, acknowledging every answer.
use crate::server::service;
use anyhow::{Context as _, Result};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DiscoveryRequest, DiscoveryResponse};
use envoy_types::pb::envoy::service::endpoint::v3::endpoint_discovery_service_client::EndpointDiscoveryServiceClient;
use orrery_mesh::xds::Kind;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Endpoint;

/// A run that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Clients {
    count: usize,
    answers: mpsc::Receiver<()>,
    _streams: JoinSet<Result<()>>,
}

impl Clients {
    /// Returns when each has its first answer.
    pub async fn connect(server: SocketAddr, count: usize) -> Result<Self> {
        let (sender, answers) = mpsc::channel(count);
        let mut streams = JoinSet::new();
        for number in 0..count {
            streams.spawn(client(server, number, sender.clone()));
        }
        let mut clients = Self { count, answers, _streams: streams };
        clients.all_have_another().await?;
        Ok(clients)
    }

    pub async fn all_have_another(&mut self) -> Result<()> {
        let all = async {
            for _ in 0..self.count {
                self.answers.recv().await.context("a stream ended")?;
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, all).await.context("not all streams got it")?
    }
}

async fn client(server: SocketAddr, number: usize, got: mpsc::Sender<()>) -> Result<()> {
    let channel = Endpoint::from_shared(format!("http://{server}"))?.connect().await?;
    let (sender, receiver) = mpsc::channel(4);
    let node =
        Node { id: format!("proxy-{number}"), cluster: service(0).to_string(), ..Node::default() };
    sender.send(DiscoveryRequest { node: Some(node), ..request() }).await?;
    let mut client = EndpointDiscoveryServiceClient::new(channel);
    let mut answers: Streaming<DiscoveryResponse> =
        client.stream_endpoints(ReceiverStream::new(receiver)).await?.into_inner();
    while let Some(answer) = answers.message().await? {
        let (response_nonce, version_info) = (answer.nonce, answer.version_info);
        sender.send(DiscoveryRequest { response_nonce, version_info, ..request() }).await?;
        got.send(()).await?;
    }
    Ok(())
}

fn request() -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: Kind::Endpoints.type_url().to_owned(),
        resource_names: vec![service(0).to_string()],
        ..DiscoveryRequest::default()
    }
}
