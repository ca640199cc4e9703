//! The kinds of the mesh over REST: versions, conditions, and what a Kubernetes client reads there.
use crate::support::{MERGE, PATIENCE, World, project};
use orrery_mesh::hub::{KubernetesSource, Source as _};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

fn path(group: &str, version: &str, plural: &str) -> String {
    format!("/apis/{group}.smi-spec.io/{version}/namespaces/shop/{plural}")
}

fn object(group: &str, version: &str, kind: &str, name: &str, body: &Value) -> Value {
    let mut value = json!({
        "apiVersion": format!("{group}.smi-spec.io/{version}"), "kind": kind, "metadata": {"name": name},
    });
    for (key, part) in body.as_object().expect("an object") {
        value[key] = part.clone();
    }
    value
}

fn split(version: &str, name: &str, service: &str, backends: &Value) -> Value {
    object(
        "split",
        version,
        "TrafficSplit",
        name,
        &json!({"spec": {"service": service, "backends": backends}}),
    )
}

async fn world() -> World {
    let world = World::start().await;
    world.post("/apis/core.orrery.dev/v1/projects", &project("shop")).await.expect(201);
    world
}

async fn declare_service(world: &World, name: &str, ports: &Value) {
    let service = json!({
        "apiVersion": "mesh.orrery.dev/v1", "kind": "MeshService", "metadata": {"name": name},
        "spec": {"ports": ports},
    });
    world.post("/apis/mesh.orrery.dev/v1/namespaces/shop/meshservices", &service).await.expect(201);
}

/// The definitions that the Service Mesh Interface publishes demand no spec of a group of routes.
#[tokio::test]
async fn a_group_of_routes_may_say_nothing() {
    let world = world().await;
    for version in ["v1alpha1", "v1alpha2", "v1alpha3", "v1alpha4"] {
        let all = path("specs", version, "httproutegroups");
        let name = format!("of-{version}");
        let empty = object("specs", version, "HTTPRouteGroup", &name, &json!({}));
        world.post(&all, &empty).await.expect(201);
        for read in ["v1alpha2", "v1alpha3", "v1alpha4"] {
            let path = format!("{}/{name}", path("specs", read, "httproutegroups"));
            let found = world.get(&path).await.expect(200);
            let matches = found.pointer("/spec/matches").or(found.get("matches"));
            assert_eq!(matches, None, "{found}");
        }
    }
    let split = object("split", "v1alpha3", "TrafficSplit", "x", &json!({}));
    world.post(&path("split", "v1alpha3", "trafficsplits"), &split).await.expect(422);
}

/// Waits until what is at a path says this in its conditions.
async fn says(world: &World, path: &str, words: &str) {
    let saying = async {
        loop {
            let found = world.get(path).await.json();
            if found["status"]["conditions"].to_string().contains(words) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let outcome = tokio::time::timeout(PATIENCE, saying).await;
    let found = world.get(path).await.text;
    assert!(outcome.is_ok(), "{path} does not say {words:?}: {found}");
}

/// proves: MSH-04
#[tokio::test]
async fn every_version_is_served_and_they_are_one_object() {
    let world = world().await;
    let groups = world.get("/apis").await.expect(200).to_string();
    for group in ["split.smi-spec.io", "access.smi-spec.io", "specs.smi-spec.io", "mesh.orrery.dev"]
    {
        assert!(groups.contains(group), "{group} is discovered");
    }
    let old = split(
        "v1alpha1",
        "canary",
        "books",
        &json!([{"service": "v1", "weight": "900m"}, {"service": "v2", "weight": 0.1}]),
    );
    world.post(&path("split", "v1alpha1", "trafficsplits"), &old).await.expect(201);
    let newest = world
        .get(&format!("{}/canary", path("split", "v1alpha4", "trafficsplits")))
        .await
        .expect(200);
    assert_eq!(
        newest["spec"]["backends"],
        json!([{"service": "v1", "weight": 900}, {"service": "v2", "weight": 100}])
    );
    let as_written = format!("{}/canary", path("split", "v1alpha1", "trafficsplits"));
    assert_eq!(world.get(&as_written).await.expect(200)["spec"], old["spec"]);

    // A change in one version is a change in all of them.
    let change = json!({"spec": {"backends": [{"service": "v2", "weight": 7}]}});
    let changed = format!("{}/canary", path("split", "v1alpha2", "trafficsplits"));
    world.patch(&changed, MERGE, &change).await.expect(200);
    assert_eq!(
        world.get(&as_written).await.expect(200)["spec"]["backends"],
        json!([{"service": "v2", "weight": "7m"}])
    );

    // The first versions have their fields at the top.
    let routes = object(
        "specs",
        "v1alpha1",
        "HTTPRouteGroup",
        "all",
        &json!({"matches": [{"name": "a", "pathRegex": "/a"}]}),
    );
    world.post(&path("specs", "v1alpha1", "httproutegroups"), &routes).await.expect(201);
    let list = world.get(&path("specs", "v1alpha4", "httproutegroups")).await.expect(200);
    assert_eq!(list["items"][0]["spec"]["matches"][0]["pathRegex"], "/a");

    let bad = split("v1alpha1", "bad", "books", &json!([{"service": "v1", "weight": "much"}]));
    let refused = world.post(&path("split", "v1alpha1", "trafficsplits"), &bad).await;
    assert!(refused.code.is_client_error() && refused.text.contains("weight"), "{}", refused.text);
    let bad = object(
        "specs",
        "v1alpha4",
        "HTTPRouteGroup",
        "bad",
        &json!({"spec": {"matches": [{"name": "a", "pathRegex": "/("}]}}),
    );
    let refused = world.post(&path("specs", "v1alpha4", "httproutegroups"), &bad).await;
    assert_eq!(refused.code.as_u16(), 422, "{}", refused.text);
}

/// What has no effect says so where people look for it, and the rest goes on.
#[tokio::test]
async fn bad_declarations_say_what_is_wrong() {
    let world = world().await;
    declare_service(&world, "books", &json!([{"name": "http", "port": 80}])).await;
    declare_service(&world, "v1", &json!([{"name": "http", "port": 80}])).await;
    declare_service(&world, "odd", &json!([{"name": "http", "port": 81}])).await;
    declare_service(&world, "portless", &json!([])).await;
    let splits = path("split", "v1alpha4", "trafficsplits");
    let cases = [
        (
            "itself",
            json!([{"service": "books", "weight": 1}, {"service": "v1", "weight": 1}]),
            "names its own root",
        ),
        ("zero", json!([{"service": "v1", "weight": 0}]), "gives no backend any weight"),
        ("nowhere", json!([{"service": "nowhere", "weight": 1}]), "does not exist (yet)"),
        ("ports", json!([{"service": "odd", "weight": 1}]), "lacks port 80"),
        ("first", json!([{"service": "v1", "weight": 1}]), "both divide"),
    ];
    for (name, backends, _) in &cases {
        world.post(&splits, &split("v1alpha4", name, "books", backends)).await.expect(201);
    }
    for (name, _, words) in &cases {
        says(&world, &format!("{splits}/{name}"), words).await;
    }
    let service =
        |name: &str| format!("/apis/mesh.orrery.dev/v1/namespaces/shop/meshservices/{name}");
    says(&world, &service("portless"), "it has no ports").await;
    says(&world, &service("v1"), "no instance is known").await;

    let target = object(
        "access",
        "v1alpha3",
        "TrafficTarget",
        "nobody",
        &json!({"spec": {
            "destination": {"kind": "ServiceAccount", "name": "books"}, "sources": [],
            "rules": [{"kind": "HTTPRouteGroup", "name": "missing"}],
        }}),
    );
    world.post(&path("access", "v1alpha3", "traffictargets"), &target).await.expect(201);
    let at = format!("{}/nobody", path("access", "v1alpha3", "traffictargets"));
    says(&world, &at, "allows nobody").await;
    says(&world, &at, "no HTTPRouteGroup").await;
}

/// Ports that take connections, and datagrams.
#[tokio::test]
async fn ports_and_datagrams_say_what_is_wrong() {
    let world = world().await;
    let tcp = json!([{"name": "pg", "port": 5432, "protocol": "tcp"}]);
    declare_service(&world, "db", &tcp).await;
    declare_service(&world, "web", &json!([{"name": "http", "port": 5432}])).await;
    let services = "/apis/mesh.orrery.dev/v1/namespaces/shop/meshservices";
    let bad = json!({
        "apiVersion": "mesh.orrery.dev/v1", "kind": "MeshService", "metadata": {"name": "bad"},
        "spec": {"ports": [{"name": "a", "port": 1, "protocol": "quic"}]},
    });
    let refused = world.post(services, &bad).await;
    assert!(refused.code.as_u16() == 422 && refused.text.contains("protocol"), "{}", refused.text);

    let splits = path("split", "v1alpha4", "trafficsplits");
    let to_web = json!([{"service": "web", "weight": 1}]);
    world.post(&splits, &split("v1alpha4", "odd", "db", &to_web)).await.expect(201);
    says(&world, &format!("{splits}/odd"), "speaks another protocol").await;

    let routes = json!({"spec": {"matches": [{"name": "all"}]}});
    let routes = object("specs", "v1alpha4", "HTTPRouteGroup", "all", &routes);
    world.post(&path("specs", "v1alpha4", "httproutegroups"), &routes).await.expect(201);
    let target = json!({"spec": {
        "destination": {"kind": "ServiceAccount", "name": "db"},
        "sources": [{"kind": "ServiceAccount", "name": "web"}],
        "rules": [{"kind": "HTTPRouteGroup", "name": "all"}],
    }});
    let target = object("access", "v1alpha4", "TrafficTarget", "http", &target);
    let targets = path("access", "v1alpha4", "traffictargets");
    world.post(&targets, &target).await.expect(201);
    says(&world, &format!("{targets}/http"), "only a TCPRoute allows").await;

    let route = json!({"spec": {"matches": {"ports": [53]}}});
    let route = object("specs", "v1alpha4", "UDPRoute", "dns", &route);
    let udp = path("specs", "v1alpha4", "udproutes");
    world.post(&udp, &route).await.expect(201);
    says(&world, &format!("{udp}/dns"), "datagrams are not proxied").await;
}

/// The code path of a cluster, with our own dialect in the place of a Kubernetes.
///
/// proves: MSH-04
#[tokio::test]
async fn declarations_are_read_as_from_a_cluster() {
    let world = world().await;
    let config = kube::Config::new(world.url().parse().expect("an address"));
    let client = kube::Client::try_from(config).expect("a client");
    let source = KubernetesSource::new("west", world.hub.scheme().clone());
    let stop = CancellationToken::new();
    let running = tokio::spawn(source.clone().run(client, stop.clone()));
    tokio::time::timeout(PATIENCE, source.loaded()).await.expect("it tells what it has");
    assert!(source.declarations().splits.is_empty());

    let old = split("v1alpha1", "canary", "books", &json!([{"service": "v1", "weight": 1}]));
    world.post(&path("split", "v1alpha1", "trafficsplits"), &old).await.expect(201);
    let routes =
        object("specs", "v1alpha2", "HTTPRouteGroup", "all", &json!({"matches": [{"name": "a"}]}));
    world.post(&path("specs", "v1alpha2", "httproutegroups"), &routes).await.expect(201);
    let seen = async {
        loop {
            let declared = source.declarations();
            if declared.splits.len() == 1 && declared.http_routes.len() == 1 {
                return declared;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let declared = tokio::time::timeout(PATIENCE, seen).await.expect("it follows");
    let reading = declared.read();
    assert_eq!(
        (reading.splits[0].root.as_str(), reading.splits[0].backends[0].weight),
        ("shop/books", 1000)
    );
    world
        .delete(&format!("{}/canary", path("split", "v1alpha4", "trafficsplits")), &json!({}))
        .await;
    let gone = async {
        while !source.declarations().splits.is_empty() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("it follows");
    stop.cancel();
    running.await.expect("it ends");
}
