//! What a commander's request means: one of the hub's operations.
use crate::api::{HubApi, to_wire};
use crate::backup;
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

    async fn logs(&self, request: LogsRequest) -> Answer {
        match self.fleet.logs_of(request).await {
            Ok(output) => Answer::Stream(output.map(Reply::Logs).boxed()),
            Err(error) => failed(&error),
        }
    }

    /// Everything that is kept, as a file in parts.
    async fn backup(&self) -> Answer {
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

    async fn watch(&self, request: orrery_proto::hub::v1::WatchRequest) -> Answer {
        match self.api.watch(request).await {
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
    async fn handle(&self, _peer: &Peer, request: Request) -> Answer {
        let outcome = match request {
            Request::Discover(_) => Ok(Reply::Discover(self.api.discover())),
            Request::Get(request) => self.api.get(request).await.map(Reply::Get),
            Request::List(request) => self.api.list(request).await.map(Reply::List),
            Request::Apply(request) => self.api.apply(request).await.map(Reply::Apply),
            Request::Delete(request) => self.api.delete(request).await.map(Reply::Delete),
            Request::Watch(request) => return self.watch(request).await,
            Request::Backup(_) => return self.backup().await,
            Request::Logs(request) => return self.logs(request).await,
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
