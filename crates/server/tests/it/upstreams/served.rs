//! What a site does with objects of its centre: all that it does with its own.
use super::{CLASSES, at, class, mk_operations, note_of, site_of};
use crate::support::{APPLY, JSON_PATCH, MERGE, World};
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::hub::v1::resource::Body;
use serde_json::{Value, json};
use tonic::Code;

/// proves: HUB-06
#[tokio::test]
async fn what_is_written_at_a_site_is_at_its_centre() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    let created = site.post(CLASSES, &class("small", "one")).await.expect(201);
    assert_eq!(created, centre.get(&at("small")).await.expect(200), "with uid and version");
    assert_eq!(created["spec"]["providerVersion"], "infra.orrery.dev/v1", "defaults of the centre");
    assert_eq!(site.get(&at("small")).await.expect(200), created);

    assert_eq!((stored(&centre).await, stored(&site).await), (1, 0));

    let mut next = created.clone();
    next["metadata"]["annotations"]["note"] = json!("two");
    let replaced = site.put(&at("small"), &next).await.expect(200);
    assert_ne!(replaced["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    let outdated = site.put(&at("small"), &next).await.expect(409);
    assert_eq!(outdated["reason"], "Conflict");

    let merged = json!({"metadata": {"annotations": {"note": "three"}}});
    let merged = site.patch(&at("small"), MERGE, &merged).await.expect(200);
    assert_eq!(note_of(&merged), "three");
    let path = "/metadata/annotations/note";
    let patch = json!([{"op": "test", "path": path, "value": "three"}, {"op": "replace", "path": path, "value": "four"}]);
    site.patch(&at("small"), JSON_PATCH, &patch).await.expect(200);
    assert_eq!(note_of(&centre.get(&at("small")).await.expect(200)), "four");

    site.post(CLASSES, &class("small", "one")).await.expect(409);
    let listed = site.get(CLASSES).await.expect(200);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1));
    site.delete(&at("small"), &json!({})).await.expect(200);
    gone(&centre, "small").await;
    gone(&site, "small").await;
}

/// How many classes are in the store of a server.
async fn stored(world: &World) -> usize {
    let kept = world.hub.store().snapshot().await.unwrap();
    kept.range("objects/").filter(|entry| entry.key.contains("/MachineClass/")).count()
}

/// The centre lets a class go when nothing there uses it.
async fn gone(world: &World, name: &str) {
    let gone = async {
        while world.get(&at(name)).await.code != 404 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(crate::support::PATIENCE, gone).await.is_ok(), "{name} stays");
}

/// What is wrong is said as the centre says it.
///
/// proves: HUB-06
#[tokio::test]
async fn what_the_centre_refuses_is_refused_at_the_site() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    let invalid = json!({
        "apiVersion": "infra.orrery.dev/v1", "kind": "MachineClass",
        "metadata": {"name": "bad"}, "spec": {"secret": "No Name"},
    });
    let (there, here) = (centre.post(CLASSES, &invalid).await, site.post(CLASSES, &invalid).await);
    assert_eq!(here.expect(422), there.expect(422), "with every field that is wrong");
    let elsewhere = CLASSES.replace("default", "nowhere");
    let (there, here) = (
        centre.post(&elsewhere, &class("a", "")).await,
        site.post(&elsewhere, &class("a", "")).await,
    );
    assert_eq!(here.expect(404), there.expect(404));

    let declared = |note: &str| json!(class("owned", note));
    let mine = format!("{}?fieldManager=mine", at("owned"));
    let yours = format!("{}?fieldManager=yours", at("owned"));
    site.patch(&mine, APPLY, &declared("a")).await.expect(201);
    let (there, here) = (
        centre.patch(&yours, APPLY, &declared("b")).await,
        site.patch(&yours, APPLY, &declared("b")).await,
    );
    assert_eq!(here.expect(409), there.expect(409), "with who holds the field");
    let forced = format!("{yours}&force=true");
    assert_eq!(note_of(&site.patch(&forced, APPLY, &declared("b")).await.expect(200)), "b");
}

fn named(name: &str) -> Option<hub::ResourceName> {
    let (kind, project) = ("MachineClass".into(), "default".into());
    Some(hub::ResourceName { kind, project, name: name.into(), ..<_>::default() })
}

/// proves: HUB-06
#[tokio::test]
async fn programs_use_it_as_every_kind() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    let mut api = HubClient::connect(site.url()).await.unwrap();
    let mut object = class("small", "one");
    object["metadata"]["project"] = json!("default");
    let resource = hub::Resource { body: Some(Body::Json(object.to_string())), ..<_>::default() };
    let apply = hub::ApplyRequest { resource: Some(resource), ..<_>::default() };
    let applied = api.apply(apply.clone()).await.unwrap().into_inner();
    assert_eq!(applied.outcome(), hub::apply_response::Outcome::Created);
    let again = api.apply(apply).await.unwrap().into_inner();
    assert_eq!(again.outcome(), hub::apply_response::Outcome::Unchanged);
    let get = hub::GetRequest { name: named("small"), ..<_>::default() };
    let found = api.get(get.clone()).await.unwrap().into_inner();
    let mut there = HubClient::connect(centre.url()).await.unwrap();
    assert_eq!(found.encoded(), there.get(get.clone()).await.unwrap().into_inner().encoded());
    let list = hub::ListRequest {
        kind: "MachineClass".into(),
        field_selector: "spec.provider=ProcessMachine".into(),
        ..<_>::default()
    };
    assert_eq!(api.list(list).await.unwrap().into_inner().items.len(), 1);
    let delete = hub::DeleteRequest { name: named("small"), ..<_>::default() };
    api.delete(delete).await.unwrap();
    gone(&site, "small").await;
    let absent = api.get(get).await.expect_err("it is gone");
    assert_eq!(absent.code(), Code::NotFound, "{absent:?}");
}

trait Bytes {
    fn encoded(&self) -> Vec<u8>;
}

impl Bytes for hub::GetResponse {
    fn encoded(&self) -> Vec<u8> {
        match self.resource.as_ref().and_then(|resource| resource.body.clone()) {
            Some(Body::Protobuf(bytes)) => bytes.to_vec(),
            other => panic!("not as it was asked for: {other:?}"),
        }
    }
}

/// proves: HUB-06
#[tokio::test]
async fn changes_at_the_centre_are_watched_at_a_site() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    centre.post(CLASSES, &class("old", "")).await.expect(201);
    let listed = site.get(CLASSES).await.expect(200);
    let since = listed["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let later = format!("{CLASSES}?watch=true&resourceVersion={since}");
    let mut changes = site.watch(&later, "application/json").await;
    let mut all = site.watch(&format!("{CLASSES}?watch=true"), "application/json").await;
    let first = all.next().await.unwrap();
    assert_eq!(
        (&first["type"], &first["object"]["metadata"]["name"]),
        (&json!("ADDED"), &json!("old"))
    );
    let created = centre.post(CLASSES, &class("new", "")).await.expect(201);
    for events in [&mut changes, &mut all] {
        let event = events.next().await.unwrap();
        assert_eq!((&event["type"], &event["object"]), (&json!("ADDED"), &created));
    }
    super::note(&site, "new", "changed").await;
    let event = changes.next().await.unwrap();
    assert_eq!((&event["type"], note_of(&event["object"])), (&json!("MODIFIED"), "changed"));
    let outdated = format!("{CLASSES}?watch=true&resourceVersion=999999999");
    let refused = site.get(&outdated).await;
    assert_ne!(refused.code, 200, "a version that the centre has not reached: {}", refused.text);
}

fn routes(version: &str) -> String {
    format!("/apis/specs.smi-spec.io/{version}/namespaces/default/httproutegroups")
}

/// Every version of a kind is served, though the hub's is all that the two speak of.
///
/// proves: HUB-06
#[tokio::test]
async fn other_versions_are_served_too() {
    let centre = World::start().await;
    let operations = mk_operations(&centre.url(), &["HTTPRouteGroup"]);
    let site = World::operated(<_>::default(), operations).await;
    let object = |version: &str| {
        json!({
            "apiVersion": format!("specs.smi-spec.io/{version}"), "kind": "HTTPRouteGroup",
            "metadata": {"name": "r"},
            "spec": {"matches": [{"name": "m", "pathRegex": "/a", "methods": ["GET"]}]},
        })
    };
    site.post(&routes("v1alpha3"), &object("v1alpha3")).await.expect(201);
    for version in ["v1alpha2", "v1alpha3", "v1alpha4"] {
        let path = format!("{}/r", routes(version));
        let found: Value = site.get(&path).await.expect(200);
        assert_eq!(found, centre.get(&path).await.expect(200), "{version}");
    }
}
