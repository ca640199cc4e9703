//! The commander connection over a real socket.
use orrery_client::{Commander, Error};
use orrery_proto::fleet::v1::CommanderHello;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{
    ApplyRequest, Encoding, GetRequest, ListRequest, Resource, ResourceName, WatchRequest,
    resource::Body,
};
use orrery_testkit::world::{SOON, World};

fn hello(name: &str, version: &str) -> CommanderHello {
    CommanderHello { name: name.into(), version: version.into() }
}

fn project(name: &str) -> ApplyRequest {
    let json = format!(
        r#"{{"apiVersion":"core.orrery.dev/v1","kind":"Project","metadata":{{"name":"{name}"}}}}"#
    );
    let resource = Resource { body: Some(Body::Json(json)), ..Resource::default() };
    ApplyRequest {
        resource: Some(resource),
        encoding: Encoding::Json.into(),
        ..ApplyRequest::default()
    }
}

/// proves: AGT-02, AGT-07, AGT-10
#[tokio::test]
async fn requests_are_answered_side_by_side() {
    let world = World::start().await;
    let commander = world.commander().await;
    let request = WatchRequest { kind: "projects".into(), ..WatchRequest::default() };
    let mut watch = commander.watch(request).await.unwrap();
    while watch.next().await.unwrap().unwrap().r#type() != Type::Bookmark {}
    let names: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
    let applied = names.iter().map(|name| commander.apply(project(name)));
    for outcome in futures::future::join_all(applied).await {
        outcome.expect("each is created");
    }
    let mut added = 0;
    while added < names.len() {
        match watch.next().await.unwrap().unwrap().r#type() {
            Type::Added => added += 1,
            // Each gets its phase meanwhile.
            other => assert_eq!(other, Type::Modified),
        }
    }
    drop(watch);
    let list = ListRequest { kind: "proj".into(), limit: 7, ..ListRequest::default() };
    let page = commander.list(list).await.unwrap();
    assert_eq!((page.items.len(), page.r#continue.is_empty()), (7, false));
    world.stop().await;
}

/// proves: AGT-06
#[tokio::test]
async fn another_version_is_refused_and_told_why() {
    let world = World::start().await;
    let endpoint = world.endpoint(None);
    for version in ["", "9.0.0"] {
        let error = Commander::connect_with(&endpoint, hello("me", version)).await.err().unwrap();
        assert!(matches!(&error, Error::Version { .. }), "{error}");
        assert!(error.to_string().contains(orrery_client::VERSION), "{error}");
    }
    world.stop().await;
}

/// proves: AGT-05
#[tokio::test]
async fn a_name_is_taken_as_long_as_its_connection_lives() {
    let world = World::start().await;
    let endpoint = world.endpoint(None);
    let version = orrery_client::VERSION;
    let first = Commander::connect_with(&endpoint, hello("me", version)).await.unwrap();
    let error = Commander::connect_with(&endpoint, hello("me", version)).await.err().unwrap();
    assert!(matches!(&error, Error::Refused { .. }), "{error}");
    drop(first);
    let again = tokio::time::timeout(SOON, async {
        while Commander::connect_with(&endpoint, hello("me", version)).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    again.await.expect("the name is free again");
    world.stop().await;
}

/// proves: AGT-04
#[tokio::test]
async fn a_server_that_is_not_there_or_goes_is_said() {
    let world = World::start().await;
    let endpoint = world.endpoint(None);
    let commander = world.commander().await;
    let request = WatchRequest { kind: "projects".into(), ..WatchRequest::default() };
    let mut watch = commander.watch(request).await.unwrap();
    while watch.next().await.unwrap().unwrap().r#type() != Type::Bookmark {}
    world.stop().await;
    let lost = watch.next().await.expect_err("the connection is gone");
    assert!(matches!(&lost, Error::ConnectionLost { .. }), "{lost}");
    let gone = Commander::connect(&endpoint).await.err().unwrap();
    assert!(matches!(&gone, Error::NotAvailable { .. }), "{gone}");
}

#[tokio::test]
async fn what_is_not_there_or_not_known_is_said() {
    let world = World::start().await;
    let commander = world.commander().await;
    let get = |kind: &str| {
        let name = ResourceName {
            kind: kind.into(),
            project: "default".into(),
            name: "x".into(),
            ..ResourceName::default()
        };
        GetRequest { name: Some(name), ..GetRequest::default() }
    };
    let missing = commander.get(get("workload")).await.expect_err("not there").to_string();
    assert!(missing.contains("\"x\" not found in project \"default\""), "{missing}");
    let unknown = commander.get(get("wrkloads")).await.expect_err("no such kind").to_string();
    assert!(unknown.contains("workloads"), "did you mean: {unknown}");
    world.stop().await;
}
