//! The operations as callers from outside reach them: through the gate.
use super::HubApi;
use crate::gate::{Asked, Caller, Gate};
use futures::stream::{BoxStream, StreamExt as _};
use orrery_hub::Error;
use orrery_proto::hub::v1 as wire;

/// Cheap to clone.
#[derive(Clone)]
pub struct Front {
    api: HubApi,
    gate: Gate,
}

impl Front {
    pub fn new(api: HubApi, gate: Gate) -> Self {
        Self { api, gate }
    }

    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    pub async fn discover(&self, caller: &Caller) -> Result<wire::DiscoverResponse, Error> {
        let asked = Asked::path("get", "/discover");
        self.gate.through(caller, asked, async { Ok(self.api.discover()) }).await
    }

    pub async fn get(
        &self,
        caller: &Caller,
        request: wire::GetRequest,
    ) -> Result<wire::GetResponse, Error> {
        let asked = Asked::get(self.api.scheme(), &request);
        self.gate.through(caller, asked, self.api.get(request)).await
    }

    pub async fn list(
        &self,
        caller: &Caller,
        request: wire::ListRequest,
    ) -> Result<wire::ListResponse, Error> {
        let asked = Asked::list(self.api.scheme(), &request);
        self.gate.through(caller, asked, self.api.list(request)).await
    }

    pub async fn apply(
        &self,
        caller: &Caller,
        request: wire::ApplyRequest,
    ) -> Result<wire::ApplyResponse, Error> {
        let asked = Asked::apply(self.api.scheme(), &request);
        self.gate.through(caller, asked, self.api.apply(request)).await
    }

    pub async fn delete(
        &self,
        caller: &Caller,
        request: wire::DeleteRequest,
    ) -> Result<wire::DeleteResponse, Error> {
        let asked = Asked::delete(self.api.scheme(), &request);
        self.gate.through(caller, asked, self.api.delete(request)).await
    }

    pub async fn watch(
        &self,
        caller: &Caller,
        request: wire::WatchRequest,
    ) -> Result<BoxStream<'static, Result<wire::WatchResponse, Error>>, Error> {
        let asked = Asked::watch(self.api.scheme(), &request);
        let watching = self.gate.watching(caller, &asked)?;
        let events = self.gate.through(caller, asked, self.api.watch(request)).await?;
        // It is counted for as long as somebody listens.
        Ok(events.inspect(move |_| _ = &watching).boxed())
    }
}
