//! Workloads to measure with.
use anyhow::Context as _;
use futures::StreamExt;
use orrery_bench::server::{Client, Server};
use orrery_proto::apps::v1::WorkloadInstance;
use orrery_proto::hub::v1::apply_each_response::Outcome;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{
    ApplyEachRequest, ApplyRequest, Encoding, Resource, WatchRequest, resource::Body,
};
use std::time::Duration;

/// Calls under way at once.
const AT_ONCE: usize = 64;

fn apply(json: String) -> ApplyRequest {
    let resource = Resource { body: Some(Body::Json(json)), ..Resource::default() };
    ApplyRequest {
        resource: Some(resource),
        encoding: Encoding::Protobuf.into(),
        ..ApplyRequest::default()
    }
}

/// A workload for one node; `version` makes it another one.
pub fn workload(name: &str, node: &str, version: usize) -> ApplyRequest {
    apply(format!(
        r#"{{"apiVersion":"apps.orrery.dev/v1","kind":"Workload","metadata":{{"name":"{name}","project":"default"}},"spec":{{"process":{{"command":"true","env":{{"VERSION":"{version}"}}}},"placement":{{"nodes":["{node}"]}}}}}}"#
    ))
}

/// A workload with so many copies, wherever there is room.
pub fn replicated(name: &str, replicas: usize) -> ApplyRequest {
    apply(format!(
        r#"{{"apiVersion":"apps.orrery.dev/v1","kind":"Workload","metadata":{{"name":"{name}","project":"default"}},"spec":{{"process":{{"command":"true"}},"placement":{{"selector":{{}},"replicas":{replicas}}}}}}}"#
    ))
}

/// How many resources are applied.
#[derive(Clone, Copy)]
pub enum Way {
    /// One stream of requests, as programs that have many send them.
    Stream,
    /// A call for each, many at once, on eight connections.
    Calls,
}

/// Applies all of them.
pub async fn apply_all(
    server: &Server,
    requests: Vec<ApplyRequest>,
    way: Way,
) -> anyhow::Result<()> {
    match way {
        Way::Stream => apply_stream(server, requests).await,
        Way::Calls => apply_calls(server, requests).await,
    }
}

async fn apply_stream(server: &Server, requests: Vec<ApplyRequest>) -> anyhow::Result<()> {
    let (mut client, count) = (server.clients(1).await?.remove(0), requests.len());
    let each = |(id, apply)| ApplyEachRequest { id, apply: Some(apply) };
    let requests: Vec<_> = (0..).zip(requests).map(each).collect();
    let mut answers = client.apply_each(futures::stream::iter(requests)).await?.into_inner();
    let mut applied = 0;
    while let Some(answer) = answers.message().await? {
        match answer.outcome {
            Some(Outcome::Applied(_)) => applied += 1,
            Some(Outcome::Error(error)) => anyhow::bail!("refused: {}", error.message),
            None => anyhow::bail!("an answer without an outcome"),
        }
    }
    anyhow::ensure!(applied == count, "{applied} of {count} were answered");
    Ok(())
}

async fn apply_calls(server: &Server, requests: Vec<ApplyRequest>) -> anyhow::Result<()> {
    let clients = server.clients(8).await?;
    let applying = requests.into_iter().enumerate().map(|(number, request)| {
        let mut client: Client = clients[number % clients.len()].clone();
        async move { client.apply(request).await }
    });
    let mut applied = futures::stream::iter(applying).buffer_unordered(AT_ONCE);
    while let Some(outcome) = applied.next().await {
        outcome?;
    }
    Ok(())
}

/// Counts the copies that the store says are running, from now on.
pub struct Running {
    events: tonic::Streaming<orrery_proto::hub::v1::WatchResponse>,
    running: std::collections::HashSet<String>,
}

impl Running {
    pub async fn watch(server: &Server) -> anyhow::Result<Self> {
        let mut client = server.clients(1).await?.remove(0);
        let request = WatchRequest { kind: "WorkloadInstance".into(), ..WatchRequest::default() };
        let events = client.watch(request).await?.into_inner();
        Ok(Self { events, running: std::collections::HashSet::new() })
    }

    /// Returns when so many run.
    pub async fn until(&mut self, wanted: usize) -> anyhow::Result<()> {
        while self.running.len() < wanted {
            let event = self.events.message().await?.context("the watch ended")?;
            if event.r#type() == Type::Bookmark {
                continue;
            }
            let body = event.resource.and_then(|resource| resource.body);
            let Some(Body::Protobuf(bytes)) = body else { continue };
            let copy: WorkloadInstance = prost::Message::decode(bytes)?;
            if copy.status.is_some_and(|status| status.state == "Running") {
                self.running.insert(copy.metadata.unwrap_or_default().name);
            }
        }
        Ok(())
    }
}

pub fn ms(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1000.0)
}

pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
