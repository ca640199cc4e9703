//! What objects were under the earlier names of their versions: over REST and gRPC.
use crate::access::{bind, certificate, get, json_of, until};
use crate::support::{MERGE, WORKLOADS, World, workload};
use orrery_client::Commander;
use orrery_pki::Role;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use serde_json::{Value, json};

fn version(name: &str) -> Value {
    json!({"spec": {"version": name, "process": {"command": name}}})
}

async fn released() -> World {
    let world = World::start().await;
    let mut first = workload("a");
    first["spec"]["version"] = json!("1.0");
    world.post(WORKLOADS, &first).await.expect(201);
    world.patch(&format!("{WORKLOADS}/a"), MERGE, &version("1.1")).await.expect(200);
    world
}

/// proves: HUB-12
#[tokio::test]
async fn versions_over_rest() {
    let world = released().await;
    let one = format!("{WORKLOADS}/a");
    let listed = world.get(&format!("{one}/versions")).await.expect(200);
    assert_eq!(listed["kind"], "VersionList");
    let items = listed["items"].as_array().unwrap();
    assert_eq!((&items[0]["name"], &items[0]["current"]), (&json!("1.1"), &json!(true)));
    assert_eq!((&items[1]["name"], &items[1]["current"]), (&json!("1.0"), &json!(false)));
    assert!(items[1]["until"].is_string() && items[0]["until"].is_null(), "{listed}");

    let kept = world.get(&format!("{one}/versions/1.0")).await.expect(200);
    assert_eq!(kept["spec"]["version"], "1.0");
    assert_ne!(kept["spec"]["process"]["command"], "1.1");
    assert_eq!(kept["metadata"].get("resourceVersion"), None);
    world.put(&one, &kept).await.expect(200);
    let live = world.get(&one).await.expect(200);
    assert_eq!(live["spec"], kept["spec"]);
    let kept = world.get(&format!("{one}/versions/1.1")).await.expect(200);
    assert_eq!(kept["spec"]["process"]["command"], "1.1");

    let absent = world.get(&format!("{one}/versions/0.9")).await.expect(404);
    let message = "workloads.apps.orrery.dev \"a\" has no version \"0.9\"";
    assert_eq!(absent["message"], message);
    world.get(&format!("{WORKLOADS}/absent/versions")).await.expect(404);
    world.delete(&format!("{one}/versions/1.1"), &json!({})).await.expect(405);
    // Kinds that keep none have no such path.
    world.get("/apis/core.orrery.dev/v1/projects/default/versions").await.expect(404);
    let found = world.get("/apis/apps.orrery.dev/v1").await.expect(200);
    let found = found["resources"].as_array().unwrap().clone();
    let versions = found.iter().find(|it| it["name"] == "workloads/versions").unwrap();
    assert_eq!((&versions["kind"], &versions["verbs"]), (&json!("VersionList"), &json!(["get"])));
    let api = world.get("/openapi/v3/apis/apps.orrery.dev/v1").await.expect(200);
    let path =
        "/apis/apps.orrery.dev/v1/namespaces/{namespace}/workloads/{name}/versions/{version}";
    assert!(api["paths"].get(path).is_some());

    world.delete(&one, &json!({})).await;
    let prefix = "objects/apps/Workload.versions/";
    let kept = async || world.hub.store().snapshot().await.unwrap().range(prefix).count();
    let gone = until("its versions are gone", async || (kept().await == 0).then_some(()));
    gone.await;
}

/// proves: HUB-12
#[tokio::test]
async fn versions_over_grpc() {
    let world = released().await;
    let mut api = HubClient::connect(world.url()).await.unwrap();
    let name = get("workload", "default", "a").name;
    let request = hub::ListVersionsRequest { name: name.clone() };
    let listed = api.list_versions(request).await.unwrap().into_inner().versions;
    let names: Vec<(&str, bool)> = listed.iter().map(|it| (it.name.as_str(), it.current)).collect();
    assert_eq!(names, [("1.1", true), ("1.0", false)]);
    let at = |version: &str| hub::GetRequest {
        version: version.into(),
        ..get("workload", "default", "a")
    };
    let kept = json_of(api.get(at("1.0")).await.unwrap().into_inner().resource);
    assert_eq!(kept["spec"]["version"], "1.0");
    assert_eq!(api.get(at("0.9")).await.unwrap_err().code(), tonic::Code::NotFound);
    let name = get("project", "", "default").name;
    let refused = api.list_versions(hub::ListVersionsRequest { name }).await.unwrap_err();
    assert_eq!(refused.message(), "no versions are kept of projects");
}

/// They are a part of the object, and asked for as such.
#[tokio::test]
async fn versions_are_for_those_who_may_read_them() {
    let world = crate::joining::world().await;
    world.project("demo").await;
    let rule = |resource: &str| orrery_proto::core::v1::AccessRule {
        verbs: vec!["get".into()],
        groups: vec!["apps".into()],
        resources: vec![resource.into()],
        names: vec![],
    };
    for (user, resource) in [("ann", "workloads"), ("bob", "workloads/versions")] {
        let role = orrery_proto::core::v1::Role {
            metadata: crate::access::meta("demo", user),
            spec: Some(orrery_proto::core::v1::RoleSpec { rules: vec![rule(resource)] }),
            ..<_>::default()
        };
        world.hub.resources().unwrap().create(&role).await.unwrap();
        bind(&world, "demo", user, user).await;
    }
    let connect = async |user: &str| {
        let who = certificate(&world, Role::User, user, None);
        Commander::connect(&world.endpoint(Some(who))).await.unwrap()
    };
    let (ann, bob) = (connect("ann").await, connect("bob").await);
    let asked = || hub::ListVersionsRequest { name: get("workload", "demo", "web").name };
    let told = |error: orrery_client::Error| error.to_string();
    until("the role counts", async || {
        let refused = told(bob.list_versions(asked()).await.unwrap_err());
        refused.contains("not found").then_some(())
    })
    .await;
    let refused = told(ann.list_versions(asked()).await.unwrap_err());
    assert!(refused.contains("cannot get workloads/versions"), "{refused}");
    let request = hub::GetRequest { version: "1".into(), ..get("workload", "demo", "web") };
    let refused = told(ann.get(request).await.unwrap_err());
    assert!(refused.contains("cannot get workloads/versions"), "{refused}");
}
