//! Objects and lists in the form that the client asked for.
use super::accept::{Form, MetaVersion};
use super::failure::Failure;
use super::query::Include;
use super::resource::Resource;
use super::table;
use crate::identity::Guard;
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use jiff::Timestamp;
use orrery_api::{Object, value_to_yaml};
use orrery_hub::Clock;
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Longest text of one warning header; more is cut off, because proxies refuse long headers.
const WARNING_CHARS_MAX: usize = 256;
/// Most warnings in one answer.
const WARNINGS_MAX: usize = 16;

/// Shows the objects of one resource in one form.
#[derive(Clone)]
pub struct Renderer {
    pub resource: Arc<Resource>,
    pub form: Form,
    pub include: Include,
    /// What the one who asks may see.
    pub guard: Guard,
    pub clock: Arc<dyn Clock>,
}

/// What a list says about itself.
pub struct ListHead {
    pub version: String,
    pub continue_from: Option<String>,
    /// How many come after it, where that is known.
    pub remaining: Option<u64>,
}

impl Renderer {
    /// As much of an object as the one who asks may see.
    fn encode(&self, hub: &Object) -> Result<Value, Failure> {
        self.resource.encode(&self.guard.shown(hub))
    }

    /// One object.
    pub fn object(&self, hub: &Object) -> Result<Value, Failure> {
        let encoded = self.encode(hub)?;
        match self.form {
            Form::Json | Form::Yaml => Ok(encoded),
            Form::Metadata(version) => Ok(partial("PartialObjectMetadata", version, encoded)),
            Form::Table(version) => {
                let head = json!({ "resourceVersion": hub.resource_version() });
                let row = self.row(hub, encoded, version)?;
                Ok(self.table(version, head, vec![row], true))
            }
        }
    }

    /// One object of a watch; only the first table of a watch needs its columns.
    pub fn watched(&self, hub: &Object, first: bool) -> Result<Value, Failure> {
        let mut value = self.object(hub)?;
        if !first && matches!(self.form, Form::Table(_)) {
            value["columnDefinitions"] = json!([]);
        }
        Ok(value)
    }

    /// What a watcher is told that has nothing to see: how far the store has come.
    pub fn bookmark(&self, version: &str, initial_events_end: bool) -> Value {
        let mut metadata = json!({ "resourceVersion": version, "creationTimestamp": null });
        if initial_events_end {
            metadata["annotations"] = json!({ "k8s.io/initial-events-end": "true" });
        }
        match self.form {
            Form::Json | Form::Yaml => json!({
                "kind": self.resource.kind_name(),
                "apiVersion": self.resource.api_version(),
                "metadata": metadata,
            }),
            Form::Metadata(version) => {
                partial("PartialObjectMetadata", version, json!({ "metadata": metadata }))
            }
            Form::Table(version) => self.table(version, metadata, Vec::new(), false),
        }
    }

    pub fn list(&self, items: &[Object], head: &ListHead) -> Result<Value, Failure> {
        let mut metadata = json!({ "resourceVersion": head.version });
        if let Some(token) = &head.continue_from {
            metadata["continue"] = json!(token);
        }
        if let Some(remaining) = head.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        let items = items.iter();
        let resource = &self.resource;
        match self.form {
            Form::Json | Form::Yaml => {
                let items = items.map(|item| self.encode(item)).collect::<Result<Vec<_>, _>>()?;
                Ok(listed(resource.api_version(), resource.list_kind(), metadata, items))
            }
            Form::Metadata(version) => {
                let each = |item| Ok(partial("PartialObjectMetadata", version, self.encode(item)?));
                let items = items.map(each).collect::<Result<Vec<_>, Failure>>()?;
                let kind = "PartialObjectMetadataList";
                Ok(listed(version.api_version(), kind, metadata, items))
            }
            Form::Table(version) => {
                let row = |item| self.row(item, self.encode(item)?, version);
                let rows = items.map(row).collect::<Result<Vec<_>, Failure>>()?;
                Ok(self.table(version, metadata, rows, true))
            }
        }
    }

    fn row(&self, hub: &Object, encoded: Value, version: MetaVersion) -> Result<Value, Failure> {
        let cells = table::cells(&self.resource, hub, &encoded, self.now())?;
        Ok(match self.include {
            Include::None => json!({ "cells": cells }),
            Include::Metadata => {
                let object = partial("PartialObjectMetadata", version, encoded);
                json!({ "cells": cells, "object": object })
            }
            Include::Object => json!({ "cells": cells, "object": encoded }),
        })
    }

    fn table(&self, version: MetaVersion, head: Value, rows: Vec<Value>, columns: bool) -> Value {
        let columns = if columns { table::columns(&self.resource) } else { json!([]) };
        json!({
            "kind": "Table",
            "apiVersion": version.api_version(),
            "metadata": head,
            "columnDefinitions": columns,
            "rows": rows,
        })
    }

    pub fn now(&self) -> Timestamp {
        let now = self.clock.now();
        Timestamp::from_second(now.seconds).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

/// Only the metadata of an object.
pub fn partial(kind: &str, version: MetaVersion, mut encoded: Value) -> Value {
    let metadata = encoded.get_mut("metadata").map(Value::take).unwrap_or_else(|| json!({}));
    json!({ "kind": kind, "apiVersion": version.api_version(), "metadata": metadata })
}

fn listed(api_version: &str, kind: &str, metadata: Value, items: Vec<Value>) -> Value {
    let mut list = Map::new();
    list.insert("apiVersion".to_owned(), json!(api_version));
    list.insert("kind".to_owned(), json!(kind));
    list.insert("metadata".to_owned(), metadata);
    list.insert("items".to_owned(), Value::Array(items));
    Value::Object(list)
}

/// An answer with a value in it.
pub fn answer(code: StatusCode, form: Form, value: &Value, warnings: &[String]) -> Response {
    let (kind, text) = match form {
        Form::Yaml => ("application/yaml", value_to_yaml(value)),
        Form::Json | Form::Table(_) | Form::Metadata(_) => ("application/json", value.to_string()),
    };
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    for warning in warnings.iter().take(WARNINGS_MAX) {
        // What no header can carry is not worth losing the answer for.
        if let Ok(value) = HeaderValue::from_str(&warning_text(warning)) {
            headers.append(HeaderName::from_static("warning"), value);
        }
    }
    response
}

/// `299 - "text"`, with what a quoted text cannot hold escaped or left out.
fn warning_text(text: &str) -> String {
    let plain = text.chars().filter(|c| c.is_ascii() && !c.is_ascii_control());
    let escaped: String = plain
        .take(WARNING_CHARS_MAX)
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect();
    format!("299 - \"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted() {
        let cases = [
            ("unknown field \"spec.x\"", "299 - \"unknown field \\\"spec.x\\\"\""),
            ("a\r\nb\\c", "299 - \"ab\\\\c\""),
        ];
        for (text, expect) in cases {
            assert_eq!(warning_text(text), expect);
        }
        assert!(warning_text(&"x".repeat(9999)).len() < 300);
    }
}
