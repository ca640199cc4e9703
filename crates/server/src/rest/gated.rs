//! Requests of the dialect at the gate.
use super::Rest;
use super::exec;
use super::failure::Failure;
use super::impersonation;
use super::path::{self, Sub, Target};
use super::query::Query;
use crate::gate::{Asked, Caller, Transport, status_code};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures::StreamExt as _;
use orrery_hub::{Error, ObjectName};
use std::sync::Arc;
use tracing::Instrument as _;

/// Which object an answer is about, where the request did not say.
#[derive(Clone, Debug)]
pub struct About(pub ObjectName);

/// Lets requests through the gate.
pub async fn gated(State(rest): State<Arc<Rest>>, mut request: Request, next: Next) -> Response {
    let may_ask = impersonation::apply(&rest.guard, &mut request);
    let caller = Caller::of(Transport::Rest, &request);
    let asked = asked(&rest, &request);
    let watched = (asked.verb == "watch").then(|| asked.kind.clone());
    let mut visit = match rest.gate.enter(&caller, asked) {
        Ok(visit) => visit,
        Err(error) => return refused(error),
    };
    if let Err(failure) = may_ask {
        visit.leave(failure.code.as_u16());
        return failure.into_response();
    }
    let watching = watched.map(|kind| rest.gate.watching(&caller, &kind)).transpose();
    let watching = match watching {
        Ok(watching) => watching,
        Err(error) => {
            visit.leave(status_code(&error));
            return refused(error);
        }
    };
    let response = next.run(request).instrument(visit.span()).await;
    if let Some(About(object)) = response.extensions().get() {
        visit.about(&object.project, &object.name);
    }
    visit.leave(response.status().as_u16());
    match watching {
        // It is counted for as long as somebody listens.
        Some(watching) => response
            .map(|body| Body::from_stream(body.into_data_stream().inspect(move |_| _ = &watching))),
        None => response,
    }
}

fn refused(error: Error) -> Response {
    match error {
        Error::TooManyRequests { message, retry_after } => {
            Failure::too_many(message, retry_after).into_response()
        }
        other => Failure::internal(other).into_response(),
    }
}

fn asked(rest: &Rest, request: &Request) -> Asked {
    let (method, uri) = (request.method(), request.uri());
    match path::resolve(&rest.catalog, uri.path()) {
        Some(Target::Collection { resource, project }) => {
            let watch =
                Query::parse(method, uri.query().unwrap_or_default()).is_ok_and(|q| q.watch);
            let verb = match *method {
                Method::GET | Method::HEAD if watch => "watch",
                Method::GET | Method::HEAD => "list",
                Method::DELETE => "deletecollection",
                _ => verb(method),
            };
            Asked::of(verb, &resource.kind, &project.unwrap_or_default(), "")
        }
        Some(Target::Object { resource, name, sub }) => {
            let verb = if sub == Sub::Exec { exec::VERB } else { verb(method) };
            let asked = Asked::of(verb, &resource.kind, &name.project, &name.name);
            Asked { subresource: sub.name(), ..asked }
        }
        Some(
            Target::CoreVersions
            | Target::Groups
            | Target::Group(_)
            | Target::GroupVersion { .. }
            | Target::Review { .. },
        )
        | None => Asked::path(verb(method), uri.path()),
    }
}

/// What a method does to a thing, in the words of access rules. There are no others.
pub fn verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}
