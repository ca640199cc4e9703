//! What a commander's request means: one of the hub's operations.
use crate::api::{Front, to_wire};
use crate::backup;
use crate::connection::aside;
use crate::gate::{Asked, Caller, Transport};
use crate::identity::{Guard, Lasting, asked_of_resource};
use crate::metrics::Metrics;
use crate::sealing::Rotation;
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use orrery_access::Attributes;
use orrery_fleet::Fleet;
use orrery_fleet::commander::handler::{Reply, Request, Words};
use orrery_fleet::commander::{Answer, CommandHandler};
use orrery_fleet::middleware::Peer;
use orrery_hub::{Error, ObjectName};
use orrery_proto::fleet::v1::{ExecRequest, ExecResponse, LogsRequest, TopRequest, TopResponse};
use orrery_proto::hub::v1::{self as wire, BackupChunk};
use orrery_store::Engine;
use std::sync::Arc;

const WORKLOAD: &str = "orrery.apps.v1.Workload";
/// What rules call the keys that secrets are sealed with.
const ENCRYPTION_KEYS: &str = "encryptionkeys";

pub struct Commands {
    front: Front,
    engine: Arc<dyn Engine>,
    fleet: Arc<Fleet>,
    rotation: Rotation,
    metrics: Arc<Metrics>,
}

impl Commands {
    pub fn new(
        front: Front,
        engine: Arc<dyn Engine>,
        fleet: Arc<Fleet>,
        rotation: Rotation,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { front, engine, fleet, rotation, metrics }
    }

    async fn logs(&self, caller: &Caller, request: LogsRequest) -> Answer {
        let name = ObjectName::new(&request.project, &request.name);
        let asked = self.front.asked_of("get", WORKLOAD, "log", &name);
        let guard = self.front.guard(caller);
        let logs = async {
            guard.check_resource("get", "workloads", "log", &name.project, &name.name)?;
            self.fleet.logs_of(request).await
        };
        match self.front.gate().through(caller, asked, logs).await {
            Ok(output) => {
                let may = asked_of_resource("get", "workloads", "log", &name.project, &name.name);
                lasting(&guard, may, output.map(Reply::Logs).map(Ok).boxed())
            }
            Err(error) => failed(&error),
        }
    }

    async fn exec(&self, caller: &Caller, request: ExecRequest, words: Words) -> Answer {
        let reply = |event| Reply::Exec(ExecResponse { event: Some(event) });
        let name = ObjectName::new(&request.project, &request.name);
        let asked = self.front.asked_of("create", WORKLOAD, "exec", &name);
        let guard = self.front.guard(caller);
        let begun = async {
            guard.check_resource("create", "workloads", "exec", &name.project, &name.name)?;
            self.fleet.exec(request, words).await
        };
        match self.front.gate().through(caller, asked, begun).await {
            Ok(events) => {
                let may =
                    asked_of_resource("create", "workloads", "exec", &name.project, &name.name);
                lasting(&guard, may, events.map(reply).map(Ok).boxed())
            }
            Err(error) => failed(&error),
        }
    }

    async fn top(&self, caller: &Caller, request: TopRequest) -> Result<TopResponse, Error> {
        let kind = if request.nodes { "orrery.infra.v1.Node" } else { WORKLOAD };
        let resource = if request.nodes { "nodes" } else { "workloads" };
        let name = ObjectName::new(&request.project, "");
        let asked = self.front.asked_of("list", kind, "load", &name);
        let guard = self.front.guard(caller);
        let asking = async {
            guard.check_resource("list", resource, "load", &name.project, "")?;
            self.fleet.top(request).await
        };
        self.front.gate().through(caller, asked, asking).await
    }

    async fn rotate_key(
        &self,
        caller: &Caller,
        request: wire::RotateKeyRequest,
    ) -> Result<Reply, Error> {
        let asked = Asked::path("update", "/secrets/key");
        let guard = self.front.guard(caller);
        let rotating = async {
            guard.check_resource("update", ENCRYPTION_KEYS, "", "", "")?;
            let wanted = match request.key.as_str() {
                "" => None,
                id => Some(
                    id.parse()
                        .map_err(|e: orrery_seal::KeyIdError| Error::BadRequest(e.to_string()))?,
                ),
            };
            self.rotation.rotate(wanted).await
        };
        let done = self.front.gate().through(caller, asked, rotating).await?;
        Ok(Reply::RotateKey(wire::RotateKeyResponse {
            key: done.key.to_string(),
            previous: done.previous.to_string(),
            resealed: done.resealed,
        }))
    }

    async fn metrics(&self, caller: &Caller) -> Result<Reply, Error> {
        let asked = Asked::path("get", "/metrics");
        let (metrics, guard) = (self.metrics.clone(), self.front.guard(caller));
        let reading = async {
            guard.check_resource("get", "metrics", "", "", "")?;
            // Some are read from files.
            let text = tokio::task::spawn_blocking(move || metrics.text()).await;
            let text = text.map_err(|error| Error::Internal(error.to_string()))?;
            text.map_err(|error| Error::Internal(error.to_string()))
        };
        let text = self.front.gate().through(caller, asked, reading).await?;
        Ok(Reply::Metrics(wire::MetricsResponse { text }))
    }

    async fn sealing_status(&self, caller: &Caller) -> Result<Reply, Error> {
        let asked = Asked::path("get", "/secrets/key");
        let guard = self.front.guard(caller);
        let looking = async {
            guard.check_resource("get", ENCRYPTION_KEYS, "", "", "")?;
            self.rotation.status().await
        };
        let status = self.front.gate().through(caller, asked, looking).await?;
        let key = |(id, objects): (_, u64)| wire::SealingKey { id: id_text(id), objects };
        let server = |(id, keys): (String, Vec<_>)| wire::SealingServer {
            id,
            keys: keys.into_iter().map(id_text).collect(),
        };
        Ok(Reply::SealingStatus(wire::SealingStatus {
            key: status.key.map(id_text).unwrap_or_default(),
            keys: status.keys.into_iter().map(key).collect(),
            plain: status.plain,
            servers: status.servers.into_iter().map(server).collect(),
        }))
    }

    /// Everything that is kept, as a file in parts.
    async fn backup(&self, caller: &Caller) -> Answer {
        let asked = Asked::path("get", "/backup");
        let guard = self.front.guard(caller);
        let chunks = async {
            guard.check_resource("create", "backups", "", "", "")?;
            backup::chunks(self.engine.clone()).await
        };
        match self.front.gate().through(caller, asked, chunks).await {
            Ok(chunks) => {
                let may = asked_of_resource("create", "backups", "", "", "");
                let chunk = |data| Reply::Backup(BackupChunk { data });
                lasting(&guard, may, chunks.map(move |data| data.map(chunk)).boxed())
            }
            Err(error) => failed(&error),
        }
    }

    async fn watch(&self, caller: &Caller, request: orrery_proto::hub::v1::WatchRequest) -> Answer {
        match self.front.watch(caller, request).await {
            Ok(events) => Answer::Stream(
                events
                    .map(|event| match event {
                        Ok(event) => Reply::Watch(event),
                        Err(error) => Reply::Error(to_wire(&error)),
                    })
                    .boxed(),
            ),
            Err(error) => failed(&error),
        }
    }
}

#[async_trait]
impl CommandHandler for Commands {
    async fn handle(&self, peer: &Peer, request: Request, words: Words) -> Answer {
        let caller = Caller::new(Transport::Commander, peer.clone());
        let (front, caller) = (&self.front, &caller);
        let outcome = match request {
            Request::Discover(_) => front.discover(caller).await.map(Reply::Discover),
            Request::Get(request) => front.get(caller, request).await.map(Reply::Get),
            Request::ListVersions(request) => {
                front.list_versions(caller, request).await.map(Reply::ListVersions)
            }
            Request::List(request) => {
                let (front, caller) = (front.clone(), caller.clone());
                let listing = async move { front.list(&caller, request).await };
                aside(listing).await.map(Reply::List)
            }
            Request::Apply(request) => front.apply(caller, request).await.map(Reply::Apply),
            Request::Delete(request) => front.delete(caller, request).await.map(Reply::Delete),
            Request::RotateKey(request) => self.rotate_key(caller, request).await,
            Request::Metrics(_) => self.metrics(caller).await,
            Request::SealingStatus(_) => self.sealing_status(caller).await,
            Request::Watch(request) => return self.watch(caller, request).await,
            Request::Backup(_) => return self.backup(caller).await,
            Request::Logs(request) => return self.logs(caller, request).await,
            Request::Exec(request) => return self.exec(caller, request, words).await,
            Request::Top(request) => self.top(caller, request).await.map(Reply::Top),
            Request::Hello(_) | Request::Cancel(_) | Request::ExecInput(_) => {
                Err(Error::BadRequest("the connection itself answers this".into()))
            }
        };
        match outcome {
            Ok(reply) => Answer::One(Box::new(reply)),
            Err(error) => failed(&error),
        }
    }
}

/// A stream that ends, and says why, when whoever listens may not any more.
fn lasting(
    guard: &Guard,
    may: Attributes,
    replies: BoxStream<'static, Result<Reply, Error>>,
) -> Answer {
    let replies = guard.lasting(Lasting::new(may), replies);
    let told = |reply: Result<Reply, Error>| match reply {
        Ok(reply) => reply,
        Err(error) => Reply::Error(to_wire(&error)),
    };
    Answer::Stream(replies.map(told).boxed())
}

fn id_text(id: orrery_seal::KeyId) -> String {
    id.to_string()
}

fn failed(error: &Error) -> Answer {
    Answer::One(Box::new(Reply::Error(to_wire(error))))
}
