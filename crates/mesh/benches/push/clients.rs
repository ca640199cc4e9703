//! Many proxies: each with a connection and a stream of its own, acknowledging every answer.
use crate::server::service;
use anyhow::{Context as _, Result};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::aggregated_discovery_service_client::AggregatedDiscoveryServiceClient;
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
const PATIENCE: Duration = Duration::from_secs(300);

/// What is asked for.
#[derive(Clone, Copy)]
pub enum Asks {
    Endpoints,
    Config,
}

pub struct Clients {
    answers: mpsc::Receiver<()>,
    streams: JoinSet<Result<()>>,
}

impl Clients {
    /// Returns when each has its first answer.
    pub async fn connect(server: SocketAddr, count: usize, asks: Asks) -> Result<Self> {
        let (sender, answers) = mpsc::channel(count);
        let mut streams = JoinSet::new();
        for number in 0..count {
            match asks {
                Asks::Endpoints => streams.spawn(endpoints(server, number, sender.clone())),
                Asks::Config => streams.spawn(config(server, number, sender.clone())),
            };
        }
        let mut clients = Self { answers, streams };
        clients.have_another(count).await?;
        Ok(clients)
    }

    /// So many answers came, and no stream ended before they had.
    pub async fn have_another(&mut self, count: usize) -> Result<()> {
        let (answers, streams) = (&mut self.answers, &mut self.streams);
        let all = async {
            for got in 0..count {
                tokio::select! {
                    answer = answers.recv() => answer.context("no stream is left")?,
                    Some(ended) = streams.join_next() => {
                        ended?.with_context(|| format!("a stream ended after {got} answers"))?;
                        anyhow::bail!("the server ended a stream after {got} answers");
                    }
                }
            }
            Ok(())
        };
        tokio::time::timeout(PATIENCE, all).await.context("not all streams got it")?
    }
}

/// All are of the same service.
async fn endpoints(server: SocketAddr, number: usize, got: mpsc::Sender<()>) -> Result<()> {
    let channel = Endpoint::from_shared(format!("http://{server}"))?.connect().await?;
    let (sender, receiver) = mpsc::channel(4);
    let request = || request(Kind::Endpoints, &[service(0).as_str()]);
    sender.send(DiscoveryRequest { node: node(number, 0), ..request() }).await?;
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

/// Each is of a service of its own: clusters, then listeners, then routes, which are counted.
async fn config(server: SocketAddr, number: usize, got: mpsc::Sender<()>) -> Result<()> {
    let channel = Endpoint::from_shared(format!("http://{server}"))?.connect().await?;
    let (sender, receiver) = mpsc::channel(4);
    let mut next = [(Kind::Listener, vec![]), (Kind::Route, vec!["outbound"])].into_iter();
    let first = request(Kind::Cluster, &[]);
    sender.send(DiscoveryRequest { node: node(number, number), ..first }).await?;
    let mut client = AggregatedDiscoveryServiceClient::new(channel);
    let mut answers: Streaming<DiscoveryResponse> =
        client.stream_aggregated_resources(ReceiverStream::new(receiver)).await?.into_inner();
    while let Some(answer) = answers.message().await? {
        let kind = Kind::of(&answer.type_url).context("a kind of ours")?;
        let names: &[&str] = if kind == Kind::Route { &["outbound"] } else { &[] };
        let (response_nonce, version_info) = (answer.nonce, answer.version_info);
        let verdict = DiscoveryRequest { response_nonce, version_info, ..request(kind, names) };
        sender.send(verdict).await?;
        if kind == Kind::Route {
            got.send(()).await?;
        }
        if let Some((kind, names)) = next.next() {
            sender.send(request(kind, &names)).await?;
        }
    }
    Ok(())
}

fn node(number: usize, of: usize) -> Option<Node> {
    let (id, cluster) = (format!("proxy-{number}"), service(of).to_string());
    Some(Node { id, cluster, ..Node::default() })
}

fn request(kind: Kind, names: &[&str]) -> DiscoveryRequest {
    DiscoveryRequest {
        type_url: kind.type_url().to_owned(),
        resource_names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..DiscoveryRequest::default()
    }
}
