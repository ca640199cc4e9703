//! Declaring clusters, blueprints and addons.
use orrery_hub::{ApplyOptions, Error, ObjectName};
use orrery_proto::infra::v1::{Blueprint, Cluster};
use orrery_proto::meta::v1::Condition;
use orrery_testkit::world::World;
use serde_json::{Value, json};

pub fn name(project: &str, name: &str) -> ObjectName {
    ObjectName::new(project, name)
}

/// Declares an object as a person does.
pub async fn apply(world: &World, object: Value) -> Result<(), Error> {
    let scheme = world.hub.scheme();
    let object = scheme.read_value(&object, &<_>::default()).unwrap().object;
    let accessor = world.hub.accessor(object.kind()).unwrap();
    accessor.apply(object, ApplyOptions::default()).await.map(|_| ())
}

pub async fn good(world: &World, object: Value) {
    apply(world, object).await.unwrap();
}

fn object(kind: &str, project: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "infra.orrery.dev/v1", "kind": kind,
        "metadata": {"name": name, "project": project}, "spec": spec,
    })
}

pub fn addon(project: &str, name: &str, version: &str) -> Value {
    let template = json!({"process": {"command": "/bin/true", "args": [version]}});
    object("Addon", project, name, json!({"version": version, "template": template}))
}

pub fn blueprint(project: &str, name: &str, addons: Value) -> Value {
    object("Blueprint", project, name, json!({"addons": addons}))
}

/// A cluster that has no machines yet, and none to wait for.
pub fn cluster(project: &str, name: &str, blueprint: &str) -> Value {
    let pools = json!([{"name": "workers", "replicas": 0}]);
    object("Cluster", project, name, json!({"process": {}, "pools": pools, "blueprint": blueprint}))
}

pub fn condition<'a>(of: &'a [Condition], kind: &str) -> Option<&'a Condition> {
    of.iter().find(|condition| condition.r#type == kind)
}

/// The cluster, once one of its conditions has this status and reason.
pub async fn until(world: &World, at: &ObjectName, kind: &str, is: (&str, &str)) -> Cluster {
    let wanted = |cluster: &Cluster| {
        let status = cluster.status.clone().unwrap_or_default();
        let generation = cluster.metadata.as_ref().map(|meta| meta.generation);
        let found = condition(&status.conditions, kind);
        Some(status.observed_generation) == generation
            && found.is_some_and(|it| (it.status.as_str(), it.reason.as_str()) == is)
    };
    world.until(at, wanted).await
}

pub async fn until_blueprint(world: &World, at: &ObjectName, state: &str) -> Blueprint {
    let wanted = |it: &Blueprint| it.status.as_ref().is_some_and(|status| status.state == state);
    world.until(at, wanted).await
}

pub async fn delete<T>(world: &World, at: &ObjectName, cascade: Option<orrery_hub::Propagation>)
where
    T: prost::Message + prost::Name + Default,
{
    let resources = world.hub.resources::<T>().unwrap();
    let options = orrery_hub::DeleteOptions { propagation: cascade, ..at.clone().into() };
    resources.accessor().delete(options).await.unwrap();
}
