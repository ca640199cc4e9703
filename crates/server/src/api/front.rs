//! The operations as callers from outside reach them: through the gate.
use super::{HubApi, to_wire};
use crate::gate::{Asked, Caller, Gate};
use crate::identity::{Guard, Lasting, Uses};
use futures::stream::{BoxStream, Stream, StreamExt as _};
use orrery_hub::{Error, ObjectName};
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::apply_each_response::Outcome;
use std::sync::Arc;

/// Requests of one stream that are worked on at once: enough to fill a durable commit.
const AT_ONCE_MAX: usize = 64;

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

    /// Something that belongs to an object and is no resource itself, such as what it has written.
    pub fn asked_of(
        &self,
        verb: &'static str,
        message: &str,
        subresource: &'static str,
        name: &ObjectName,
    ) -> Asked {
        let kind = self.api.scheme().by_full_name(message);
        let asked = kind.map(|kind| Asked::of(verb, kind, &name.project, &name.name));
        let asked = asked.unwrap_or_else(|| Asked::path(verb, message));
        Asked { subresource, ..asked }
    }

    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    /// What the one who asks may do.
    pub fn guard(&self, caller: &Caller) -> Guard {
        self.api.of(&caller.peer).guard().clone()
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
        self.gate.through(caller, asked, self.api.of(&caller.peer).get(request)).await
    }

    pub async fn list_versions(
        &self,
        caller: &Caller,
        request: wire::ListVersionsRequest,
    ) -> Result<wire::ListVersionsResponse, Error> {
        let asked = Asked::versions(self.api.scheme(), request.name.as_ref());
        self.gate.through(caller, asked, self.api.of(&caller.peer).list_versions(request)).await
    }

    pub async fn list(
        &self,
        caller: &Caller,
        request: wire::ListRequest,
    ) -> Result<wire::ListResponse, Error> {
        let asked = Asked::list(self.api.scheme(), &request);
        self.gate.through(caller, asked, self.api.of(&caller.peer).list(request)).await
    }

    pub async fn apply(
        &self,
        caller: &Caller,
        request: wire::ApplyRequest,
    ) -> Result<wire::ApplyResponse, Error> {
        let asked = Asked::apply(self.api.scheme(), &request);
        self.gate.through(caller, asked, self.api.of(&caller.peer).apply(request)).await
    }

    /// Applies what comes, some of it at once. Each request passes the gate by itself, and is judged by the
    /// roles and bindings of its moment: whoever loses a right loses it with the next request. The stream ends
    /// when nothing is left of what it was used for; `ended` says so in the caller's language.
    pub fn apply_each<E: Send + 'static>(
        &self,
        caller: Caller,
        requests: impl Stream<Item = Result<wire::ApplyEachRequest, E>> + Send + 'static,
        ended: fn(&Error) -> E,
    ) -> BoxStream<'static, Result<wire::ApplyEachResponse, E>> {
        let guard = self.guard(&caller);
        let (front, caller, uses) = (self.clone(), Arc::new(caller), Uses::default());
        let lasting = Lasting::used(uses.clone());
        let answers = requests.map(move |request| {
            let (front, caller, uses) = (front.clone(), caller.clone(), uses.clone());
            async move {
                let request = match request {
                    Ok(request) => request,
                    Err(error) => return Ok(Err(error)),
                };
                let wire::ApplyEachRequest { id, apply } = request;
                let outcome = front.apply_noting(&caller, apply.unwrap_or_default(), &uses).await;
                let outcome =
                    outcome.map_or_else(|error| Outcome::Error(to_wire(&error)), Outcome::Applied);
                Ok(Ok(wire::ApplyEachResponse { id, outcome: Some(outcome) }))
            }
        });
        // What the caller does not read holds up what it sends: nothing piles up here.
        let answers = answers.buffer_unordered(AT_ONCE_MAX).boxed();
        let answers = guard.lasting(lasting, answers);
        answers.map(move |answer| answer.unwrap_or_else(|error| Err(ended(&error)))).boxed()
    }

    async fn apply_noting(
        &self,
        caller: &Caller,
        request: wire::ApplyRequest,
        uses: &Uses,
    ) -> Result<wire::ApplyResponse, Error> {
        let asked = Asked::apply(self.api.scheme(), &request);
        let api = self.api.of(&caller.peer);
        let used = api.uses(&request, &asked.project, &asked.name);
        let applied = self.gate.through(caller, asked, api.apply(request)).await?;
        used.into_iter().for_each(|used| uses.note(used));
        Ok(applied)
    }

    pub async fn delete(
        &self,
        caller: &Caller,
        request: wire::DeleteRequest,
    ) -> Result<wire::DeleteResponse, Error> {
        let asked = Asked::delete(self.api.scheme(), &request);
        self.gate.through(caller, asked, self.api.of(&caller.peer).delete(request)).await
    }

    pub async fn watch(
        &self,
        caller: &Caller,
        request: wire::WatchRequest,
    ) -> Result<BoxStream<'static, Result<wire::WatchResponse, Error>>, Error> {
        let asked = Asked::watch(self.api.scheme(), &request);
        let kind = asked.kind.clone();
        let opening = async {
            let watching = self.gate.watching(caller, &kind)?;
            Ok((watching, self.api.of(&caller.peer).watch(request).await?))
        };
        let (watching, events) = self.gate.through(caller, asked, opening).await?;
        // It is counted for as long as somebody listens.
        Ok(events.inspect(move |_| _ = &watching).boxed())
    }
}
