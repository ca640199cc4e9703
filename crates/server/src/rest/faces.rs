//! The shapes that tools look for: projects as namespaces, and events in both of the dialect's groups.
pub mod events;

use serde_json::{Value, json};

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

fn take(value: &mut Value, key: &str) -> Value {
    value.get_mut(key).map(Value::take).unwrap_or_else(|| json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
