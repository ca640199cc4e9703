//! What a newer server wrote and this one does not know, while clients of this one patch the object.
use crate::support::{JSON_PATCH, MERGE, WORKLOADS, World, project, workload};
use orrery_hub::{ApplyOptions, ObjectName};
use prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value as Field};
use serde_json::{Value, json};

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// Field 500 with the number 7.
const UNKNOWN: [u8; 3] = [0xa0, 0x1f, 0x07];

/// Puts an unknown field into a message and all that are in it.
fn plant(message: &mut DynamicMessage) {
    if message.descriptor().package_name() == "google.protobuf" {
        return;
    }
    let fields: Vec<_> = message.fields().map(|(field, _)| field).collect();
    for field in fields {
        match message.get_field_mut(&field) {
            Field::Message(inner) => plant(inner),
            Field::List(items) => {
                items.iter_mut().filter_map(Field::as_message_mut).for_each(plant)
            }
            _ => {}
        }
    }
    message.merge(UNKNOWN.as_slice()).expect("a field");
}

struct Newer {
    world: World,
    kind: &'static str,
    name: ObjectName,
}

impl Newer {
    /// An object whose spec has unknown fields at every level.
    async fn wrote(world: World, kind: &'static str, name: ObjectName) -> Self {
        let newer = Self { world, kind, name };
        let accessor = newer.accessor();
        let mut object = accessor.get(newer.name.clone().into()).await.expect("it is there");
        // Controllers may write its status meanwhile.
        object.update_meta(|meta| meta.resource_version.clear());
        object.edit_message(|message| {
            message.merge(UNKNOWN.as_slice()).expect("a field");
            let spec = message.get_field_by_name_mut("spec").and_then(Field::as_message_mut);
            plant(spec.expect("a spec"));
        });
        accessor.apply(object, ApplyOptions::default()).await.expect("written");
        newer
    }

    fn accessor(&self) -> std::sync::Arc<dyn orrery_hub::Accessor> {
        let kind = self.world.hub.scheme().resolve("", self.kind).expect("a known kind");
        self.world.hub.accessor(&kind).expect("it is accessible").clone()
    }

    async fn unknown(&self) -> usize {
        let object = self.accessor().get(self.name.clone().into()).await.expect("it is there");
        object.encode().windows(UNKNOWN.len()).filter(|window| *window == UNKNOWN).count()
    }

    /// No patch takes an unknown field away.
    async fn keeps(&self, patches: &[(&str, &str, Value)]) {
        let before = self.unknown().await;
        assert!(1 < before, "some are there");
        for (path, form, patch) in patches {
            self.world.patch(path, form, patch).await.expect(200);
            assert_eq!(self.unknown().await, before, "{path} {patch}");
        }
    }
}

#[tokio::test]
async fn a_patch_keeps_what_it_does_not_understand() {
    let world = World::start().await;
    let mut object = workload("a");
    object["spec"]["placement"] =
        json!({ "replicas": 1, "selector": { "matchLabels": { "a": "b" } } });
    object["spec"]["files"] = json!([{ "path": "a", "text": "b" }]);
    world.post(WORKLOADS, &object).await.expect(201);
    let path = &*format!("{WORKLOADS}/a");
    let (scale, status) = (&*format!("{path}/scale"), &*format!("{path}/status"));
    let newer = Newer::wrote(world, "Workload", ObjectName::new("default", "a")).await;
    let replicas = |count: u32| json!({ "spec": { "replicas": count } });
    newer
        .keeps(&[
            (path, MERGE, json!({ "metadata": { "labels": { "a": "b" } } })),
            (path, MERGE, json!({ "spec": { "process": { "args": ["61"] } } })),
            (path, JSON_PATCH, json!([{ "op": "remove", "path": "/metadata/labels" }])),
            (scale, MERGE, replicas(2)),
            (scale, JSON_PATCH, json!([{ "op": "replace", "path": "/spec/replicas", "value": 3 }])),
            (status, MERGE, json!({ "status": { "observedGeneration": 1 } })),
        ])
        .await;
}

/// What a role gives is a list without keys.
#[tokio::test]
async fn a_patch_keeps_the_rules_of_a_role() {
    let world = World::start().await;
    let roles = "/apis/core.orrery.dev/v1/namespaces/default/roles";
    let rule =
        |verb: &str| json!({ "groups": ["core"], "resources": ["secrets"], "verbs": [verb] });
    let role =
        json!({ "metadata": { "name": "a" }, "spec": { "rules": [rule("get"), rule("list")] } });
    world.post(roles, &role).await.expect(201);
    let newer = Newer::wrote(world, "Role", ObjectName::new("default", "a")).await;
    let label = json!({ "metadata": { "labels": { "a": "b" } } });
    let more = json!([{ "op": "add", "path": "/spec/rules/-", "value": rule("watch") }]);
    let path = &*format!("{roles}/a");
    newer.keeps(&[(path, MERGE, label), (path, JSON_PATCH, more)]).await;
}

#[tokio::test]
async fn a_patch_of_a_namespace_keeps_what_it_does_not_understand() {
    let world = World::start().await;
    let projects = "/apis/core.orrery.dev/v1/projects";
    world.post(projects, &project("shop")).await.expect(201);
    let newer = Newer::wrote(world, "Project", ObjectName::new("", "shop")).await;
    let label = |value: &str| json!({ "metadata": { "labels": { "a": value } } });
    let path = "/api/v1/namespaces/shop";
    newer.keeps(&[(path, STRATEGIC, label("b")), (path, MERGE, label("c"))]).await;
}

#[tokio::test]
async fn a_patch_of_an_older_version_keeps_what_it_does_not_understand() {
    let world = World::start().await;
    let group = "/apis/split.smi-spec.io";
    let path = |version: &str| format!("{group}/{version}/namespaces/default/trafficsplits");
    let split = json!({
        "metadata": { "name": "a" },
        "spec": { "service": "s", "backends": [{ "service": "b", "weight": 1 }] },
    });
    world.post(&path("v1alpha2"), &split).await.expect(201);
    let newer = Newer::wrote(world, "TrafficSplit", ObjectName::new("default", "a")).await;
    for version in ["v1alpha4", "v1alpha1"] {
        let label = json!({ "metadata": { "labels": { "a": version } } });
        newer.keeps(&[(&format!("{}/a", path(version)), MERGE, label)]).await;
    }
}
