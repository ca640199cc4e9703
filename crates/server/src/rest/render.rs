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
use serde_json::{Value, json};
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

    /// A list as an answer. It is written item by item, so that only one of them is in memory in full.
    pub fn list(
        &self,
        items: impl IntoIterator<Item = Result<Object, Failure>>,
        head: &ListHead,
    ) -> Result<Response, Failure> {
        let (head, key) = self.head(head);
        if self.form == Form::Yaml {
            let items = items.into_iter().map(|item| self.item(&item?));
            let items = items.collect::<Result<Vec<_>, _>>()?;
            let mut list = head;
            list[key] = Value::Array(items);
            return Ok(answer(StatusCode::OK, self.form, &list, &[]));
        }
        let mut text = head.to_string();
        // Everything but the closing brace.
        text.pop();
        text += &format!(",\"{key}\":[");
        let mut text = text.into_bytes();
        for (index, item) in items.into_iter().enumerate() {
            if 0 < index {
                text.push(b',');
            }
            let item = self.item(&item?)?;
            serde_json::to_writer(&mut text, &item).map_err(Failure::internal)?;
        }
        text.extend_from_slice(b"]}");
        Ok(written(StatusCode::OK, "application/json", text))
    }

    /// What stands before the items of a list, and what they are called.
    fn head(&self, head: &ListHead) -> (Value, &'static str) {
        let mut metadata = json!({ "resourceVersion": head.version });
        if let Some(token) = &head.continue_from {
            metadata["continue"] = json!(token);
        }
        if let Some(remaining) = head.remaining {
            metadata["remainingItemCount"] = json!(remaining);
        }
        let (api_version, kind) = match self.form {
            Form::Json | Form::Yaml => (self.resource.api_version(), self.resource.list_kind()),
            Form::Metadata(version) => (version.api_version(), "PartialObjectMetadataList"),
            Form::Table(version) => {
                let mut table = self.table(version, metadata, Vec::new(), true);
                if let Value::Object(fields) = &mut table {
                    fields.shift_remove("rows");
                }
                return (table, "rows");
            }
        };
        (json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata }), "items")
    }

    /// One object of a list.
    fn item(&self, hub: &Object) -> Result<Value, Failure> {
        let encoded = self.encode(hub)?;
        match self.form {
            Form::Json | Form::Yaml => Ok(encoded),
            Form::Metadata(version) => Ok(partial("PartialObjectMetadata", version, encoded)),
            Form::Table(version) => self.row(hub, encoded, version),
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

/// An answer with a value in it.
pub fn answer(code: StatusCode, form: Form, value: &Value, warnings: &[String]) -> Response {
    let (kind, text) = match form {
        Form::Yaml => ("application/yaml", value_to_yaml(value)),
        Form::Json | Form::Table(_) | Form::Metadata(_) => ("application/json", value.to_string()),
    };
    let mut response = written(code, kind, text.into_bytes());
    warn(&mut response, warnings);
    response
}

/// Says what else there is to say about a request.
pub fn warn(response: &mut Response, warnings: &[String]) {
    for warning in warnings.iter().take(WARNINGS_MAX) {
        // What no header can carry is not worth losing the answer for.
        if let Ok(value) = HeaderValue::from_str(&warning_text(warning)) {
            response.headers_mut().append(HeaderName::from_static("warning"), value);
        }
    }
}

fn written(code: StatusCode, kind: &'static str, text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
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
