//! Events in the shapes of the dialect.
//!
//! ```text
//!   ours                              v1 Event                        events.k8s.io/v1 Event
//!   spec.regarding                    involvedObject                  regarding
//!   spec.reason, type, action         the same                        the same
//!   spec.message                      message                         note
//!   spec.source                       source, reportingComponent      reportingController
//!   spec.instance                     reportingInstance               the same
//!   spec.count, lastTimestamp         count, lastTimestamp            series, deprecatedCount, deprecatedLastTimestamp
//!   spec.firstTimestamp               firstTimestamp                  eventTime, deprecatedFirstTimestamp
//! ```
//! What else the dialect has (a related object, the host of a source, the field of an object) is not kept.
use super::take;
use crate::rest::failure::Cause;
use jiff::Timestamp;
use jiff::fmt::strtime;
use serde_json::{Map, Value, json};

/// What stands in an event of ours.
struct Told {
    metadata: Value,
    regarding: Value,
    spec: Value,
}

impl Told {
    fn of(mut event: Value) -> Self {
        let metadata = take(&mut event, "metadata");
        let mut spec = take(&mut event, "spec");
        let mut regarding = take(&mut spec, "regarding");
        rename(&mut regarding, "project", "namespace");
        Self { metadata, regarding, spec }
    }

    fn text(&self, key: &str) -> &str {
        self.spec.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Takes a field over into a shape, if it is there.
    fn copy(&self, key: &str, to: &str, shape: &mut Map<String, Value>) {
        if let Some(value) = self.spec.get(key).filter(|value| !value.is_null()) {
            shape.insert(to.to_owned(), value.clone());
        }
    }
}

/// An event as `v1 Event`, the shape that `kubectl describe` reads.
pub fn core_event_of(event: Value) -> Value {
    let told = Told::of(event);
    let mut core = Map::new();
    core.insert("apiVersion".to_owned(), json!("v1"));
    core.insert("kind".to_owned(), json!("Event"));
    core.insert("metadata".to_owned(), told.metadata.clone());
    core.insert("involvedObject".to_owned(), told.regarding.clone());
    let copied =
        ["reason", "message", "type", "count", "firstTimestamp", "lastTimestamp", "action"];
    for key in copied {
        told.copy(key, key, &mut core);
    }
    core.insert("source".to_owned(), json!({ "component": told.text("source") }));
    core.insert("reportingComponent".to_owned(), json!(told.text("source")));
    core.insert("reportingInstance".to_owned(), json!(told.text("instance")));
    core.insert("eventTime".to_owned(), Value::Null);
    Value::Object(core)
}

/// An event as `events.k8s.io/v1 Event`.
pub fn group_event_of(event: Value) -> Value {
    let told = Told::of(event);
    let mut shape = Map::new();
    shape.insert("apiVersion".to_owned(), json!("events.k8s.io/v1"));
    shape.insert("kind".to_owned(), json!("Event"));
    shape.insert("metadata".to_owned(), told.metadata.clone());
    shape.insert("eventTime".to_owned(), micro(told.text("firstTimestamp")));
    let count = told.spec.get("count").and_then(Value::as_i64).unwrap_or(1);
    let last = micro(told.text("lastTimestamp"));
    if 1 < count && !last.is_null() {
        let series = json!({ "count": count, "lastObservedTime": last });
        shape.insert("series".to_owned(), series);
    }
    shape.insert("reportingController".to_owned(), json!(told.text("source")));
    shape.insert("reportingInstance".to_owned(), json!(told.text("instance")));
    let copied = [
        ("action", "action"),
        ("reason", "reason"),
        ("message", "note"),
        ("type", "type"),
        ("count", "deprecatedCount"),
        ("firstTimestamp", "deprecatedFirstTimestamp"),
        ("lastTimestamp", "deprecatedLastTimestamp"),
    ];
    for (key, to) in copied {
        told.copy(key, to, &mut shape);
    }
    shape.insert("regarding".to_owned(), told.regarding.clone());
    shape.insert("deprecatedSource".to_owned(), json!({ "component": told.text("source") }));
    Value::Object(shape)
}

/// Where one of ours finds its fields in a shape of the dialect: the first that says something.
const FIELDS: [(&str, &[&str]); 9] = [
    ("reason", &["/reason"]),
    ("message", &["/message", "/note"]),
    ("type", &["/type"]),
    ("action", &["/action"]),
    ("instance", &["/reportingInstance"]),
    (
        "source",
        &[
            "/source/component",
            "/reportingComponent",
            "/reportingController",
            "/deprecatedSource/component",
        ],
    ),
    ("count", &["/series/count", "/count", "/deprecatedCount"]),
    ("firstTimestamp", &["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"]),
    (
        "lastTimestamp",
        &["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp", "/eventTime"],
    ),
];

/// What a field of a shape must be, where it is there.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Number,
    Time,
    Fields,
}

const TYPES: [(&str, Type); 20] = [
    ("involvedObject", Type::Fields),
    ("regarding", Type::Fields),
    ("reason", Type::Text),
    ("message", Type::Text),
    ("note", Type::Text),
    ("type", Type::Text),
    ("action", Type::Text),
    ("reportingComponent", Type::Text),
    ("reportingController", Type::Text),
    ("reportingInstance", Type::Text),
    ("source", Type::Fields),
    ("deprecatedSource", Type::Fields),
    ("series", Type::Fields),
    ("count", Type::Number),
    ("deprecatedCount", Type::Number),
    ("eventTime", Type::Time),
    ("firstTimestamp", Type::Time),
    ("lastTimestamp", Type::Time),
    ("deprecatedFirstTimestamp", Type::Time),
    ("deprecatedLastTimestamp", Type::Time),
];
const INNER_TYPES: [(&str, &str, Type); 4] = [
    ("source", "component", Type::Text),
    ("deprecatedSource", "component", Type::Text),
    ("series", "count", Type::Number),
    ("series", "lastObservedTime", Type::Time),
];

impl Type {
    /// What is expected, if the value is something else.
    fn expected(self, value: &Value) -> Option<&'static str> {
        let (fits, expected) = match self {
            Self::Text => (value.is_string(), "a string"),
            Self::Number => (value.is_i64(), "a whole number"),
            Self::Time => {
                let time = value.as_str().map(str::parse::<Timestamp>);
                (matches!(time, Some(Ok(_))), "a time such as \"2026-01-31T12:00:00.000000Z\"")
            }
            Self::Fields => (value.is_object(), "an object"),
        };
        (!fits && !value.is_null()).then_some(expected)
    }
}

/// What is of the wrong type in a shape. Here it is looked for, because not every field of it is taken over.
pub fn problems(shape: &Value) -> Vec<Cause> {
    let outer = TYPES.iter().map(|(key, kind)| ((*key).to_owned(), shape.get(key), *kind));
    let inner = INNER_TYPES.iter().map(|(outer, key, kind)| {
        (format!("{outer}.{key}"), shape.get(outer).and_then(|inner| inner.get(key)), *kind)
    });
    let wrong = outer.chain(inner).filter_map(|(path, value, kind)| {
        let (value, expected) = value.and_then(|value| Some((value, kind.expected(value)?)))?;
        let message = format!("Invalid value: expected {expected}, found {value}");
        Some(Cause::new("FieldValueTypeInvalid", &path, message))
    });
    wrong.collect()
}

/// An event of ours, of one in either shape of the dialect.
pub fn own_event_of(mut shape: Value, api_version: &str) -> Value {
    let mut spec = Map::new();
    let about = ["involvedObject", "regarding"].into_iter().find(|key| shape.get(*key).is_some());
    let mut regarding = about.map(|key| take(&mut shape, key)).unwrap_or_else(|| json!({}));
    rename(&mut regarding, "namespace", "project");
    if let Value::Object(fields) = &mut regarding {
        fields.retain(|key, _| !matches!(key.as_str(), "resourceVersion" | "fieldPath"));
    }
    spec.insert("regarding".to_owned(), regarding);
    // Nothing, no text and no number are what clients write who have nothing to say.
    let says = |value: &&Value| !(value.is_null() || *value == "" || *value == 0);
    for (key, places) in FIELDS {
        let mut found = places.iter().filter_map(|place| shape.pointer(place)).filter(says);
        if let Some(value) = found.next() {
            spec.insert(key.to_owned(), value.clone());
        }
    }
    json!({
        "apiVersion": api_version,
        "kind": "Event",
        "metadata": take(&mut shape, "metadata"),
        "spec": spec,
    })
}

fn rename(value: &mut Value, from: &str, to: &str) {
    if let Some(fields) = value.as_object_mut()
        && let Some(moved) = fields.remove(from)
    {
        fields.insert(to.to_owned(), moved);
    }
}

/// A time to the microsecond, with all six digits: clients read no other.
fn micro(time: &str) -> Value {
    let time: Option<Timestamp> = time.parse().ok();
    let text = time.and_then(|time| strtime::format("%Y-%m-%dT%H:%M:%S.%6fZ", time).ok());
    text.map_or(Value::Null, Value::String)
}

/// What a field of ours is called in a shape.
pub fn field_of(own: &str, shape: Shape) -> String {
    let field = own.strip_prefix("spec.").unwrap_or(own);
    let (first, rest) = match field.split_once('.') {
        Some((first, rest)) => {
            (first, format!(".{}", if rest == "project" { "namespace" } else { rest }))
        }
        None => (field, String::new()),
    };
    let first = match (shape, first) {
        _ if field == own => first,
        (Shape::Core, "regarding") => "involvedObject",
        (Shape::Core, "source") => "reportingComponent",
        (Shape::Group, "source") => "reportingController",
        (Shape::Group, "message") => "note",
        (Shape::Group, "count") => "series.count",
        (_, "instance") => "reportingInstance",
        (_, first) => first,
    };
    format!("{first}{rest}")
}

/// The shapes of the dialect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// `v1 Event`
    Core,
    /// `events.k8s.io/v1 Event`
    Group,
}

/// A field selector on events of the dialect in the words of our own.
pub fn own_event_selector(selector: &str) -> String {
    let parts = selector.split(',').map(|part| {
        let end = part.find(['=', '!']).unwrap_or(part.len());
        let (key, rest) = part.split_at(end);
        let key = key.trim();
        let about = ["involvedObject.", "regarding."];
        let field = about.into_iter().find_map(|prefix| key.strip_prefix(prefix));
        let own = match (field, key) {
            (Some("namespace"), _) => "spec.regarding.project",
            (Some("name"), _) => "spec.regarding.name",
            (Some("kind"), _) => "spec.regarding.kind",
            (Some("uid"), _) => "spec.regarding.uid",
            (Some("apiVersion"), _) => "spec.regarding.apiVersion",
            (_, "reason") => "spec.reason",
            (_, "type") => "spec.type",
            (_, "source" | "reportingComponent" | "reportingController") => "spec.source",
            (_, other) => other,
        };
        format!("{own}{rest}")
    });
    parts.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
#[path = "../tests/events.rs"]
mod tests;
