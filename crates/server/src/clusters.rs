//! Clusters put together with the rest: what an addon runs is held to what a workload may be.
use orrery_api::{Object, SchemeBuilder, Violation};
use orrery_clusters::plan::addons::filled;
use orrery_fleet::workloads::validate::program;
use orrery_proto::apps::v1::{NodeSelector, Placement};
use orrery_proto::infra::v1::Addon;

/// What clusters, blueprints and addons must be like.
pub fn rules(builder: SchemeBuilder) -> SchemeBuilder {
    orrery_clusters::rules(builder).validator("orrery.infra.v1.Addon", runnable)
}

/// An addon that no workload could be made of would be noticed only on a cluster.
fn runnable(object: &Object, _old: Option<&Object>) -> Vec<Violation> {
    let Ok(addon) = object.typed::<Addon>() else { return Vec::new() };
    let spec = addon.spec.unwrap_or_default();
    let Some(template) = spec.template else { return Vec::new() };
    let placement = Placement { selector: Some(NodeSelector::default()), ..<_>::default() };
    let found = program(&filled(template, placement, spec.version)).into_iter();
    // It speaks of a workload: what is its spec is the template here.
    let here = |path: String| match path.strip_prefix("spec.") {
        Some(rest) => format!("spec.template.{rest}"),
        None => path,
    };
    found.map(|it| Violation { path: here(it.path), ..it }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_api::Scheme;
    use serde_json::json;

    #[track_caller]
    fn check(template: serde_json::Value, expect: &[&str]) {
        let scheme = Scheme::builtin().expect("our own kinds");
        let addon = json!({
            "apiVersion": "infra.orrery.dev/v1", "kind": "Addon",
            "metadata": {"name": "log", "project": "p"},
            "spec": {"version": "1", "template": template},
        });
        let read = scheme.read_json(addon.to_string().as_bytes(), &<_>::default());
        let object = read.expect("an addon").object;
        let found = runnable(&object, None);
        let paths: Vec<&str> = found.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, expect, "{found:?}");
    }

    #[test]
    fn what_no_workload_could_be_is_no_addon() {
        check(json!({"process": {"command": "/bin/true"}}), &[]);
        let file = json!([{"path": "/etc/x", "text": "y"}]);
        check(
            json!({"process": {"command": "/bin/true"}, "files": file}),
            &["spec.template.files[0].path"],
        );
        check(json!({"podman": {"image": "x"}, "files": file}), &[]);
        check(
            json!({"process": {"command": "/bin/true", "env": {"A=B": "x"}}}),
            &["spec.template.process.env[A=B]"],
        );
    }
}
