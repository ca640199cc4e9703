//! What a client of the Kubernetes dialect is told when something cannot be done: a `Status`.
use super::render;
use super::resource::Resource;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use orrery_api::Violation;
use orrery_hub::Error;
use orrery_hub::ownership::FieldConflict;
use serde_json::{Map, Value, json};
use std::time::Duration;

/// How long a client should wait before it asks again, when the store is away for a moment.
const RETRY_AFTER_SECONDS: u32 = 1;

/// A refused request. Prints as a `Status` object, which every tool of this field can show.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub code: StatusCode,
    pub reason: &'static str,
    pub message: String,
    /// Boxed, so that good answers do not carry the size of bad ones around.
    details: Box<Map<String, Value>>,
    retry_after_seconds: Option<u32>,
    /// With what a list can go on that is not one of a single moment any more.
    continue_from: Option<String>,
    /// What else there is to say about the request.
    warnings: Vec<String>,
}

/// One thing that is wrong, as `details.causes` lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub reason: &'static str,
    pub message: String,
    pub field: String,
}

impl Cause {
    pub fn new(reason: &'static str, field: &str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), field: field.to_owned() }
    }
}

impl From<&Violation> for Cause {
    fn from(violation: &Violation) -> Self {
        Self::new(violation.reason.as_str(), &violation.path, violation.message.clone())
    }
}

impl From<&FieldConflict> for Cause {
    fn from(conflict: &FieldConflict) -> Self {
        let message = format!("conflict with {}", conflict.owner());
        Self::new("FieldManagerConflict", &conflict.field, message)
    }
}

impl Failure {
    pub fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Box::default(),
            retry_after_seconds: None,
            continue_from: None,
            warnings: Vec::new(),
        }
    }

    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn internal(message: impl std::fmt::Display) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message.to_string())
    }

    pub fn unknown_path() -> Self {
        let message = "the server could not find the requested resource";
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    pub fn method_not_allowed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// Somebody asks for more than their share.
    pub fn too_many(message: impl Into<String>, retry_after: Duration) -> Self {
        let seconds = u32::try_from(retry_after.as_secs()).unwrap_or(u32::MAX).max(1);
        let mut failure = Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message);
        failure.details.insert("retryAfterSeconds".to_owned(), json!(seconds));
        failure.retry_after_seconds = Some(seconds);
        failure
    }

    pub fn unsupported_media(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// The client knows a revision that this server has not reached.
    pub fn version_too_large(asked: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {asked}, current: {current}");
        let cause = Cause::new("ResourceVersionTooLarge", "", "Too large resource version");
        let mut failure = Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message);
        failure.details.insert("retryAfterSeconds".to_owned(), json!(RETRY_AFTER_SECONDS));
        failure.retry_after_seconds = Some(RETRY_AFTER_SECONDS);
        failure.with_causes(&[cause])
    }

    /// An object, or the options of a request, with everything that is wrong in it. Here
    /// `details.kind` is the kind itself: that is how kubectl prints it.
    pub fn invalid(group: &str, kind: &str, name: &str, causes: &[Cause]) -> Self {
        let each: Vec<String> = causes.iter().map(Cause::to_string).collect();
        let all = match each.as_slice() {
            [only] => only.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        let of_group = if group.is_empty() { String::new() } else { format!(".{group}") };
        let message = format!("{kind}{of_group} {name:?} is invalid: {all}");
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
            .about(group, kind, name)
            .with_causes(causes)
    }

    /// Wrong options of a request, such as an unknown `dryRun`.
    pub fn invalid_options(kind: &str, cause: Cause) -> Self {
        Self::invalid("meta.k8s.io", kind, "", &[cause])
    }

    /// A list was continued too late.
    fn outdated(token: String) -> Self {
        let message = "the continue token is too old: what was there when the list began is not \
                       remembered any more; begin the list again without it, or go on with the \
                       token in metadata.continue of this answer, and see what was changed \
                       meanwhile as it is now";
        let gone = Self::new(StatusCode::GONE, "Expired", message);
        Self { continue_from: Some(token), ..gone }
    }

    /// An error of the hub, as it looks from this resource.
    pub fn of(error: Error, resource: &Resource, name: &str) -> Self {
        let what = resource.qualified_plural();
        let about = |failure: Self| failure.about(resource.group(), resource.plural(), name);
        let message = error.to_string();
        match error {
            Error::NotFound { .. } => about(Self::new(
                StatusCode::NOT_FOUND,
                "NotFound",
                format!("{what} {name:?} not found"),
            )),
            Error::AlreadyExists { .. } => about(Self::new(
                StatusCode::CONFLICT,
                "AlreadyExists",
                format!("{what} {name:?} already exists"),
            )),
            Error::BeingDeleted { .. } => about(Self::new(
                StatusCode::CONFLICT,
                "AlreadyExists",
                format!("object is being deleted: {what} {name:?} already exists"),
            )),
            Error::Conflict { message, .. } => about(Self::new(
                StatusCode::CONFLICT,
                "Conflict",
                format!("Operation cannot be fulfilled on {what} {name:?}: {message}"),
            )),
            Error::ApplyConflict { conflicts, .. } => {
                let causes: Vec<Cause> = conflicts.iter().map(Cause::from).collect();
                about(Self::new(StatusCode::CONFLICT, "Conflict", message)).with_causes(&causes)
            }
            Error::Invalid { violations, .. } => {
                let causes: Vec<Cause> = violations.iter().map(|v| resource.cause(v)).collect();
                Self::invalid(resource.group(), resource.kind_name(), name, &causes)
            }
            Error::ProjectNotFound { project } => {
                let message = format!("namespaces {project:?} not found");
                Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(
                    "",
                    "namespaces",
                    &project,
                )
            }
            Error::ProjectTerminating { .. } => {
                let cause = Cause::new("NamespaceTerminating", "metadata.namespace", &*message);
                let message = format!("{what} {name:?} is forbidden: {message}");
                about(Self::new(StatusCode::FORBIDDEN, "Forbidden", message)).with_causes(&[cause])
            }
            Error::Forbidden(why) => {
                let message = match name {
                    "" => format!("{what} is forbidden: {why}"),
                    name => format!("{what} {name:?} is forbidden: {why}"),
                };
                about(Self::new(StatusCode::FORBIDDEN, "Forbidden", message))
            }
            Error::Fenced { .. } => Self::new(StatusCode::CONFLICT, "Conflict", message),
            Error::Expired { resume: Some(token), .. } => Self::outdated(token),
            Error::Expired { resume: None, .. } => Self::new(StatusCode::GONE, "Expired", message),
            Error::BadRequest(_) => Self::bad_request(message),
            Error::TooLarge(_) => Self::too_large(message),
            Error::TooManyRequests { retry_after, .. } => Self::too_many(message, retry_after),
            Error::Unavailable(_) | Error::Away { .. } => Self {
                retry_after_seconds: Some(RETRY_AFTER_SECONDS),
                ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            },
            // Nothing says when to come back: clients take that as leave to write it again by themselves.
            Error::Uncertain(_) => {
                about(Self::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message))
            }
            Error::Internal(_) => Self::internal(message),
        }
    }

    /// The same, with what would have been warned of had the request been good.
    pub fn warning(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }

    /// Says which object the failure is about.
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
            if !value.is_empty() {
                self.details.insert(key.to_owned(), json!(value));
            }
        }
        self
    }

    pub fn with_causes(mut self, causes: &[Cause]) -> Self {
        let listed = causes.iter().map(Cause::to_value).collect();
        self.details.insert("causes".to_owned(), Value::Array(listed));
        self
    }

    /// The `Status` object.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        });
        if let Some(token) = &self.continue_from {
            status["metadata"]["continue"] = json!(token);
        }
        if !self.details.is_empty() || self.code == StatusCode::UNPROCESSABLE_ENTITY {
            status["details"] = Value::Object((*self.details).clone());
        }
        status["code"] = json!(self.code.as_u16());
        status
    }
}

impl std::fmt::Display for Cause {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.field.as_str() {
            "" => f.write_str(&self.message),
            field => write!(f, "{field}: {}", self.message),
        }
    }
}

impl Cause {
    fn to_value(&self) -> Value {
        let mut cause = json!({ "reason": self.reason, "message": self.message });
        if !self.field.is_empty() {
            cause["field"] = json!(self.field);
        }
        cause
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = (self.code, axum::Json(self.to_value())).into_response();
        render::warn(&mut response, &self.warnings);
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::resource::Face;
    use orrery_api::Scheme;
    use orrery_hub::Hub;
    use std::sync::Arc;

    /// Clients repeat by themselves what they are told to come back with, so only what was not done says when.
    #[tokio::test]
    async fn what_may_have_been_done_is_not_asked_for_again() {
        let scheme = Arc::new(Scheme::builtin().expect("our own kinds"));
        let hub = Hub::in_memory(scheme).await.expect("a store").build().expect("a hub");
        let kind = hub.scheme().resolve("", "Secret").expect("a kind");
        let secrets = Resource::new(&hub, &kind, Face::Own).expect("it is served");
        let check = |error: Error, expect: (u16, &str, bool)| {
            let failure = Failure::of(error, &secrets, "a");
            let reason = failure.reason;
            let response = failure.into_response();
            let comes_back = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!((response.status().as_u16(), reason, comes_back), expect);
        };
        check(Error::Unavailable("full".into()), (503, "ServiceUnavailable", true));
        check(Error::Uncertain("no answer".into()), (504, "Timeout", false));
    }
}
