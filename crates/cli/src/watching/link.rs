//! The way to a server, for what outlasts a connection.
use super::lasting::{Events, Source};
use crate::connection::Target;
use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{self, StreamExt as _};
use orrery_client::Commander;
use orrery_proto::hub::v1::WatchRequest;
use std::sync::Arc;
use tokio::sync::Mutex;

/// One connection at a time, shared by all watches of a command.
pub struct Link {
    target: Target,
    server: Mutex<Arc<Commander>>,
}

impl Link {
    pub fn new(target: Target, server: Arc<Commander>) -> Self {
        Self { target, server: Mutex::new(server) }
    }
}

impl Source for Link {
    fn open(self: Arc<Self>, request: WatchRequest) -> BoxFuture<'static, anyhow::Result<Events>> {
        let opening = async move {
            let server = self.server.lock().await.clone();
            let watch = server.watch(request).await?;
            // The connection is kept for as long as somebody listens.
            let events = stream::unfold((watch, server), |(mut watch, server)| async move {
                let event = watch.next().await.map_err(anyhow::Error::from).transpose()?;
                Some((event, (watch, server)))
            });
            Ok(events.boxed())
        };
        opening.boxed()
    }

    fn restore(self: Arc<Self>) -> BoxFuture<'static, anyhow::Result<()>> {
        let restoring = async move {
            let mut server = self.server.lock().await;
            // Another watch may have been here first.
            if server.is_lost() {
                *server = Arc::new(self.target.connect().await?);
            }
            Ok(())
        };
        restoring.boxed()
    }
}
