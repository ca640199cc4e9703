//! Tables: rows and columns that the server makes, so that every tool prints the same.
use super::faces;
use super::failure::Failure;
use super::resource::{Face, Resource};
use jiff::Timestamp;
use orrery_api::{Object, age, human_duration, table_cells};
use serde_json::{Value, json};

/// The columns of a resource.
pub fn columns(resource: &Resource) -> Value {
    match resource.face {
        Face::Own => own_columns(resource),
        Face::Namespace => json!([
            column("Name", "string", "name", "Name of the namespace.", false),
            column("Status", "string", "", "Where the namespace is in its life.", false),
            column("Age", "string", "", "Time since it was created.", false),
        ]),
        Face::CoreEvent | Face::GroupEvent => json!([
            column("Last Seen", "string", "", "Time since it happened last.", false),
            column("Type", "string", "", "Normal or Warning.", false),
            column("Reason", "string", "", "One word for the cause.", false),
            column("Object", "string", "", "The object it happened to.", false),
            column("Source", "string", "", "The part of the system that tells of it.", true),
            column("Message", "string", "", "What happened, in words.", false),
            column("First Seen", "string", "", "Time since it happened first.", true),
            column("Count", "string", "", "How often it happened.", true),
            column("Name", "string", "name", "Name of the event.", true),
        ]),
    }
}

fn own_columns(resource: &Resource) -> Value {
    let mut all = vec![column("Name", "string", "name", "Name, unique in its project.", false)];
    for own in resource.kind.columns() {
        // A date arrives as a finished age.
        let kind = if own.r#type.as_str() == "date" { "string" } else { own.r#type.as_str() };
        all.push(column(&own.name, kind, "", &own.description, own.wide));
    }
    all.push(column("Age", "string", "", "Time since it was created.", false));
    Value::Array(all)
}

pub fn column(name: &str, kind: &str, format: &str, description: &str, wide: bool) -> Value {
    json!({
        "name": name,
        "type": kind,
        "format": format,
        "description": description,
        "priority": i32::from(wide),
    })
}

/// The cells of one object, as it is in the hub and as it was encoded.
pub fn cells(
    resource: &Resource,
    hub: &Object,
    encoded: &Value,
    now: Timestamp,
) -> Result<Value, Failure> {
    match resource.face {
        Face::Own => {
            let object = resource.scheme().from_hub(hub, &resource.kind);
            let object = object.map_err(Failure::internal)?;
            let own = table_cells(&object, now).into_iter().map(Value::from);
            let ends = (json!(object.name()), json!(age(&object, now)));
            Ok(std::iter::once(ends.0).chain(own).chain([ends.1]).collect())
        }
        Face::Namespace => Ok(json!([hub.name(), encoded["status"]["phase"], age(hub, now)])),
        Face::CoreEvent => Ok(event_cells(encoded, now)),
        Face::GroupEvent => {
            let core = faces::events::own_event_of(encoded.clone(), resource.kind.api_version());
            Ok(event_cells(&faces::events::core_event_of(core), now))
        }
    }
}

fn event_cells(event: &Value, now: Timestamp) -> Value {
    let text = |pointer: &str| {
        event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let since = |pointer: &str| {
        let time: Option<Timestamp> = text(pointer).parse().ok();
        time.map_or_else(|| "<unknown>".to_owned(), |time| human_duration(now.duration_since(time)))
    };
    let kind = text("/involvedObject/kind").to_lowercase();
    let count = event.get("count").and_then(Value::as_i64).unwrap_or(1);
    json!([
        since("/lastTimestamp"),
        text("/type"),
        text("/reason"),
        format!("{kind}/{}", text("/involvedObject/name")),
        text("/source/component"),
        text("/message"),
        since("/firstTimestamp"),
        count.to_string(),
        text("/metadata/name"),
    ])
}
