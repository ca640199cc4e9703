//! Kinds that another server keeps: a centre, and sites at the edge that serve what it declares.
mod away;
mod caching;
mod kept;
mod proven;
mod replicas;
mod served;
mod wishes;

use crate::support::{PATIENCE, World, options};
use orrery_api::{DecodeOptions, Object};
use orrery_hub::{Hub, Revision};
use orrery_server::{CacheOptions, KindFrom, Operations, UpstreamOptions};
use serde_json::{Value, json};
use std::time::Duration;

const CLASSES: &str = "/apis/infra.orrery.dev/v1/namespaces/default/machineclasses";

/// Far longer than a test takes: what is seen anew was heard of, and did not just expire.
const FOREVER: Duration = Duration::from_secs(3600);

/// What a site is told: who keeps these kinds.
fn mk_operations(server: &str, kinds: &[&str]) -> Operations {
    let from = |kind: &&str| KindFrom { kind: (*kind).into(), server: server.into() };
    let upstreams = UpstreamOptions {
        kinds: kinds.iter().map(from).collect(),
        cache: Some(CacheOptions { bytes_max: 1 << 20, expiry: FOREVER }),
        ..UpstreamOptions::default()
    };
    Operations { upstreams, ..Operations::default() }
}

/// A site whose machine classes the centre keeps.
async fn site_of(centre: &World) -> World {
    World::operated(<_>::default(), mk_operations(&centre.url(), &["MachineClass"])).await
}

fn class(name: &str, note: &str) -> Value {
    json!({
        "apiVersion": "infra.orrery.dev/v1", "kind": "MachineClass",
        "metadata": {"name": name, "annotations": {"note": note}},
        "spec": {"provider": "ProcessMachine"},
    })
}

/// A class, written past the API of the centre: it may be at an address that the test's own client cannot reach.
async fn declare(hub: &Hub, name: &str, note: &str) -> Revision {
    let mut value = class(name, note);
    value["metadata"]["project"] = json!("default");
    let kind = hub.scheme().resolve("", "MachineClass").unwrap();
    let object = Object::from_json_value(&kind, &value, &DecodeOptions::default()).unwrap().object;
    let applied = hub.accessor(&kind).unwrap().apply(object, <_>::default()).await.unwrap();
    applied.object.resource_version().parse().unwrap()
}

fn at(name: &str) -> String {
    format!("{CLASSES}/{name}")
}

fn note_of(object: &Value) -> &str {
    object["metadata"]["annotations"]["note"].as_str().unwrap_or_default()
}

async fn note(world: &World, name: &str, text: &str) {
    let change = json!({"metadata": {"annotations": {"note": text}}});
    world.patch(&at(name), crate::support::MERGE, &change).await.expect(200);
}

/// Waits until an object is read as it should be.
async fn until_noted(world: &World, name: &str, text: &str) {
    let seen = async {
        while note_of(&world.get(&at(name)).await.expect(200)) != text {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, seen).await;
    assert!(seen.is_ok(), "{name} does not become {text:?}");
}

/// Waits until a site hears of what happens at the centre: what it kept before a change, it forgets.
async fn until_listening(centre: &World, site: &World) {
    centre.post(CLASSES, &class("probe", "before")).await.expect(201);
    site.get(&at("probe")).await.expect(200);
    note(centre, "probe", "after").await;
    until_noted(site, "probe", "after").await;
}

/// How often a figure of a server was counted, over all its labels that hold these.
async fn figure(world: &World, name: &str, labels: &[&str]) -> u64 {
    let text = world.get_as("/metrics", "text/plain").await.text;
    let counted = text
        .lines()
        .filter(|line| line.starts_with(name) && labels.iter().all(|label| line.contains(label)));
    let value = |line: &str| line.rsplit_once(' ').and_then(|(_, value)| value.parse::<f64>().ok());
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let sum = counted.filter_map(value).sum::<f64>() as u64;
    sum
}

/// How often the centre was asked by programs, which is by its sites.
async fn asked(centre: &World, verb: &str) -> u64 {
    let verb = format!("verb=\"{verb}\"");
    figure(centre, "orrery_api_requests_total", &["transport=\"grpc\"", &verb]).await
}
