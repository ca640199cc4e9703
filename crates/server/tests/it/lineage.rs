//! Where objects came from, over REST and gRPC: only for those who ask.
use crate::support::{APPLY, MERGE, WORKLOADS, World, workload};
use futures::StreamExt as _;
use orrery_api::LINEAGE;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::hub::v1::resource::Body;
use serde_json::{Value, json};

const JSON: i32 = hub::Encoding::Json as i32;

fn from(name: &str, lineage: &str) -> Value {
    let mut object = workload(name);
    object["metadata"]["annotations"] = json!({ LINEAGE: lineage });
    object
}

fn lineage(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][LINEAGE].as_str()
}

/// proves: HUB-16
#[tokio::test]
async fn lineage_over_rest() {
    let world = World::start().await;
    let one = format!("{WORKLOADS}/a");
    let asked = format!("{one}?includeLineage=true");
    let created = world.post(WORKLOADS, &from("a", "here")).await.expect(201);
    assert_eq!(lineage(&created), None);
    assert_eq!(lineage(&world.get(&asked).await.expect(200)), None, "it was dropped");

    let merge = json!({ "metadata": { "annotations": { LINEAGE: "here" } } });
    world.patch(&asked, MERGE, &merge).await.expect(200);
    assert_eq!(lineage(&world.get(&one).await.expect(200)), None);
    assert_eq!(lineage(&world.get(&asked).await.expect(200)), Some("here"));
    let list = world.get(WORKLOADS).await.expect(200);
    assert_eq!(lineage(&list["items"][0]), None);
    let list = world.get(&format!("{WORKLOADS}?includeLineage=true")).await.expect(200);
    assert_eq!(lineage(&list["items"][0]), Some("here"));

    // Whoever does not ask changes nothing of it, in any way.
    let gone = json!({ "metadata": { "annotations": null } });
    world.patch(&one, MERGE, &gone).await.expect(200);
    let declared = format!("{one}?fieldManager=me&force=true");
    world.patch(&declared, APPLY, &from("a", "there")).await.expect(200);
    world.put(&one, &from("a", "there")).await.expect(200);
    assert_eq!(lineage(&world.get(&asked).await.expect(200)), Some("here"));
    world.put(&asked, &from("a", "there")).await.expect(200);
    assert_eq!(lineage(&world.get(&asked).await.expect(200)), Some("there"));
}

/// proves: HUB-16
#[tokio::test]
async fn lineage_over_grpc() {
    let world = World::start().await;
    let mut api = HubClient::connect(world.url()).await.unwrap();
    let apply = |value: &str, include_lineage: bool| {
        let mut object = from("a", value);
        object["metadata"]["project"] = json!("default");
        let body = Some(Body::Json(object.to_string()));
        let resource = Some(hub::Resource { body, ..<_>::default() });
        hub::ApplyRequest { resource, encoding: JSON, include_lineage, ..<_>::default() }
    };
    let read = |resource: Option<hub::Resource>| -> Value {
        let Some(Body::Json(text)) = resource.and_then(|it| it.body) else { panic!("no JSON") };
        serde_json::from_str(&text).unwrap()
    };
    let (kind, project) = ("Workload".to_owned(), "default".to_owned());
    let applied = api.apply(apply("here", true)).await.unwrap().into_inner();
    assert_eq!(lineage(&read(applied.resource)), Some("here"));
    let each = hub::ApplyEachRequest { id: 1, apply: Some(apply("there", false)) };
    let mut answers = api.apply_each(futures::stream::iter([each])).await.unwrap().into_inner();
    let answer = answers.next().await.unwrap().unwrap();
    let Some(hub::apply_each_response::Outcome::Applied(applied)) = answer.outcome else {
        panic!("{answer:?}")
    };
    assert_eq!(lineage(&read(applied.resource)), None);
    for (include_lineage, expect) in [(false, None), (true, Some("here"))] {
        let name = hub::ResourceName {
            kind: kind.clone(),
            project: project.clone(),
            name: "a".into(),
            ..<_>::default()
        };
        let get =
            hub::GetRequest { name: Some(name), encoding: JSON, include_lineage, ..<_>::default() };
        let got = api.get(get).await.unwrap().into_inner();
        assert_eq!(lineage(&read(got.resource)), expect);
        let list = hub::ListRequest {
            kind: kind.clone(),
            project: project.clone(),
            encoding: JSON,
            include_lineage,
            ..<_>::default()
        };
        let mut listed = api.list(list).await.unwrap().into_inner();
        assert_eq!(lineage(&read(listed.items.pop())), expect);
        let watch = hub::WatchRequest {
            kind: kind.clone(),
            project: project.clone(),
            encoding: JSON,
            include_lineage,
            ..<_>::default()
        };
        let mut events = api.watch(watch).await.unwrap().into_inner();
        let first = events.next().await.unwrap().unwrap();
        assert_eq!(lineage(&read(first.resource)), expect);
    }
}
