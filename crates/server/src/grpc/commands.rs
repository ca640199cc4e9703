//! What a commander's request means: one of the hub's operations.
use crate::api::{HubApi, to_wire};
use crate::backup;
use crate::identity::Guard;
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
    api: HubApi,
    engine: Arc<dyn Engine>,
    fleet: Arc<Fleet>,
}

impl Commands {
    pub fn new(api: HubApi, engine: Arc<dyn Engine>, fleet: Arc<Fleet>) -> Self {
        Self { api, engine, fleet }
    }

    async fn logs(&self, guard: &Guard, request: LogsRequest) -> Answer {
        let (project, name) = (&request.project, &request.name);
        if let Err(error) = guard.check_resource("get", "workloads", "log", project, name) {
            return failed(&error);
        }
        match self.fleet.logs_of(request).await {
            Ok(output) => Answer::Stream(output.map(Reply::Logs).boxed()),
            Err(error) => failed(&error),
        }
    }

    /// Everything that is kept, as a file in parts.
    async fn backup(&self, guard: &Guard) -> Answer {
        if let Err(error) = guard.check_resource("create", "backups", "", "", "") {
            return failed(&error);
        }
        match backup::chunks(self.engine.clone()).await {
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

    async fn watch(&self, api: &HubApi, request: orrery_proto::hub::v1::WatchRequest) -> Answer {
        match api.watch(request).await {
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
        let api = &self.api.of(peer);
        let outcome = match request {
            Request::Discover(_) => Ok(Reply::Discover(api.discover())),
            Request::Get(request) => api.get(request).await.map(Reply::Get),
            Request::List(request) => api.list(request).await.map(Reply::List),
            Request::Apply(request) => api.apply(request).await.map(Reply::Apply),
            Request::Delete(request) => api.delete(request).await.map(Reply::Delete),
            Request::Watch(request) => return self.watch(api, request).await,
            Request::Backup(_) => return self.backup(api.guard()).await,
            Request::Logs(request) => return self.logs(api.guard(), request).await,
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
