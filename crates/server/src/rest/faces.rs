//! The shapes of the core group: projects as namespaces and events as core events.
use serde_json::{Map, Value, json};

/// A project as a namespace.
pub fn namespace_of(mut project: Value) -> Value {
    // What is to go is going, also before its status says so.
    let leaving = project.pointer("/metadata/deletionTimestamp").is_some_and(|at| !at.is_null());
    let phase = project.pointer("/status/phase").filter(|_| !leaving).cloned();
    let phase = phase.unwrap_or_else(|| json!(if leaving { "Terminating" } else { "Active" }));
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": take(&mut project, "metadata"),
        "spec": {},
        "status": { "phase": phase },
    })
}

/// A namespace as a project: its metadata. What else a namespace can say (its own finalizers, its
/// phase) is the server's business.
pub fn project_of(mut namespace: Value, api_version: &str) -> Value {
    json!({
        "apiVersion": api_version,
        "kind": "Project",
        "metadata": take(&mut namespace, "metadata"),
        "spec": {},
    })
}

/// An event as `v1 Event`, the shape that `kubectl describe` reads.
pub fn core_event_of(mut event: Value) -> Value {
    let metadata = take(&mut event, "metadata");
    let mut spec = take(&mut event, "spec");
    let mut regarding = take(&mut spec, "regarding");
    if let Some(regarding) = regarding.as_object_mut()
        && let Some(project) = regarding.remove("project")
    {
        regarding.insert("namespace".to_owned(), project);
    }
    let source = take(&mut spec, "source");
    let component = source.as_str().unwrap_or_default();
    let mut core = Map::new();
    core.insert("apiVersion".to_owned(), json!("v1"));
    core.insert("kind".to_owned(), json!("Event"));
    core.insert("metadata".to_owned(), metadata);
    core.insert("involvedObject".to_owned(), regarding);
    let copied = ["reason", "message", "type", "count", "firstTimestamp", "lastTimestamp"];
    for key in copied {
        if let Some(value) = spec.get_mut(key) {
            core.insert(key.to_owned(), value.take());
        }
    }
    core.insert("source".to_owned(), json!({ "component": component }));
    core.insert("reportingComponent".to_owned(), json!(component));
    core.insert("reportingInstance".to_owned(), json!(""));
    core.insert("eventTime".to_owned(), Value::Null);
    Value::Object(core)
}

/// A field selector on core events in the words of our own.
pub fn own_event_selector(selector: &str) -> String {
    let parts = selector.split(',').map(|part| {
        let end = part.find(['=', '!']).unwrap_or(part.len());
        let (key, rest) = part.split_at(end);
        let own = match key.trim() {
            "involvedObject.name" => "spec.regarding.name",
            "involvedObject.namespace" => "spec.regarding.project",
            "involvedObject.kind" => "spec.regarding.kind",
            "involvedObject.uid" => "spec.regarding.uid",
            "involvedObject.apiVersion" => "spec.regarding.apiVersion",
            "reason" => "spec.reason",
            "type" => "spec.type",
            "source" | "reportingComponent" => "spec.source",
            other => other,
        };
        format!("{own}{rest}")
    });
    parts.collect::<Vec<_>>().join(",")
}

fn take(value: &mut Value, key: &str) -> Value {
    value.get_mut(key).map(Value::take).unwrap_or_else(|| json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_takes_the_shape_of_the_core_group() {
        let own = json!({
            "apiVersion": "core.orrery.dev/v1", "kind": "Event",
            "metadata": { "name": "web-1", "namespace": "demo" },
            "spec": {
                "regarding": { "kind": "Workload", "project": "demo", "name": "web", "uid": "7" },
                "reason": "Started", "type": "Normal", "count": 2,
                "lastTimestamp": "2026-01-01T00:00:00Z", "source": "fleet",
            },
        });
        let core = core_event_of(own);
        assert_eq!(core["involvedObject"]["namespace"], "demo");
        assert_eq!(core["involvedObject"]["name"], "web");
        assert_eq!(core["source"]["component"], "fleet");
        assert_eq!((&core["count"], &core["reason"]), (&json!(2), &json!("Started")));
        assert_eq!(core.get("spec"), None);
    }

    #[test]
    fn a_namespace_keeps_only_what_people_say_of_it() {
        let given = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "demo" },
            "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" },
        });
        let project = project_of(given, "core.orrery.dev/v1");
        assert_eq!(
            project,
            json!({
                "apiVersion": "core.orrery.dev/v1", "kind": "Project",
                "metadata": { "name": "demo" }, "spec": {},
            })
        );
    }

    #[test]
    fn selectors_of_events_are_translated() {
        let cases = [
            ("involvedObject.name=web", "spec.regarding.name=web"),
            (
                "involvedObject.namespace=p,involvedObject.uid!=7",
                "spec.regarding.project=p,spec.regarding.uid!=7",
            ),
            ("metadata.name=x", "metadata.name=x"),
            ("", ""),
        ];
        for (core, own) in cases {
            assert_eq!(own_event_selector(core), own);
        }
    }
}
