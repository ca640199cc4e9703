//! What a commander's request means: one of the hub's operations.
use crate::api::{Front, to_wire};
use crate::backup;
use crate::gate::{Asked, Caller, Transport};
use async_trait::async_trait;
use futures::StreamExt;
use orrery_fleet::Fleet;
use orrery_fleet::commander::handler::{Reply, Request};
use orrery_fleet::commander::{Answer, CommandHandler};
use orrery_fleet::middleware::Peer;
use orrery_hub::Error;
use orrery_proto::fleet::v1::LogsRequest;
use orrery_proto::hub::v1::BackupChunk;
use orrery_store::Engine;
use std::sync::Arc;

pub struct Commands {
    front: Front,
    engine: Arc<dyn Engine>,
    fleet: Arc<Fleet>,
}

impl Commands {
    pub fn new(front: Front, engine: Arc<dyn Engine>, fleet: Arc<Fleet>) -> Self {
        Self { front, engine, fleet }
    }

    async fn logs(&self, caller: &Caller, request: LogsRequest) -> Answer {
        let asked = Asked::path("get", "/logs");
        let guard = self.front.guard(caller);
        let logs = async {
            let (project, name) = (&request.project, &request.name);
            guard.check_resource("get", "workloads", "log", project, name)?;
            self.fleet.logs_of(request).await
        };
        match self.front.gate().through(caller, asked, logs).await {
            Ok(output) => Answer::Stream(output.map(Reply::Logs).boxed()),
            Err(error) => failed(&error),
        }
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
            Ok(chunks) => Answer::Stream(
                chunks
                    .map(|chunk| match chunk {
                        Ok(data) => Reply::Backup(BackupChunk { data }),
                        Err(error) => Reply::Error(to_wire(&error)),
                    })
                    .boxed(),
            ),
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
    async fn handle(&self, peer: &Peer, request: Request) -> Answer {
        let caller =
            Caller { transport: Transport::Commander, peer: peer.clone(), ..<_>::default() };
        let (front, caller) = (&self.front, &caller);
        let outcome = match request {
            Request::Discover(_) => front.discover(caller).await.map(Reply::Discover),
            Request::Get(request) => front.get(caller, request).await.map(Reply::Get),
            Request::List(request) => front.list(caller, request).await.map(Reply::List),
            Request::Apply(request) => front.apply(caller, request).await.map(Reply::Apply),
            Request::Delete(request) => front.delete(caller, request).await.map(Reply::Delete),
            Request::Watch(request) => return self.watch(caller, request).await,
            Request::Backup(_) => return self.backup(caller).await,
            Request::Logs(request) => return self.logs(caller, request).await,
            Request::Hello(_) | Request::Cancel(_) => {
                Err(Error::BadRequest("the connection itself answers this".into()))
            }
        };
        match outcome {
            Ok(reply) => Answer::One(Box::new(reply)),
            Err(error) => failed(&error),
        }
    }
}

fn failed(error: &Error) -> Answer {
    Answer::One(Box::new(Reply::Error(to_wire(error))))
}
