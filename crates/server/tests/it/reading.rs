//! Lists and single objects, in every form.
use crate::support::{TABLE, WORKLOADS, World, project, workload};
use orrery_hub::events::{Happening, Recorder, Severity};
use orrery_proto::core::v1::ObjectReference;
use serde_json::{Value, json};

async fn with_workloads(names: &[&str]) -> World {
    let world = World::start().await;
    for name in names {
        let mut object = workload(name);
        object["metadata"]["labels"] = json!({ "app": name });
        world.post(WORKLOADS, &object).await.expect(201);
    }
    world
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().expect("items").iter();
    items.map(|item| item["metadata"]["name"].as_str().expect("a name")).collect()
}

/// proves: HUB-10
#[tokio::test]
async fn lists_are_typed_and_come_in_pages() {
    let world = with_workloads(&["a", "b", "c", "d", "e"]).await;
    let all = world.get(WORKLOADS).await.expect(200);
    assert_eq!(
        (&all["apiVersion"], &all["kind"]),
        (&json!("apps.orrery.dev/v1"), &json!("WorkloadList"))
    );
    assert_eq!(names(&all), ["a", "b", "c", "d", "e"]);
    let version: u64 =
        all["metadata"]["resourceVersion"].as_str().expect("text").parse().expect("a number");
    assert!(0 < version);
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let page = world.get(&format!("{WORKLOADS}?limit=2&continue={token}")).await.expect(200);
        seen.extend(names(&page).into_iter().map(str::to_owned));
        match page["metadata"]["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c", "d", "e"]);
}

/// Ids of projects are random, so one of these orders would hold by accident only once in 720 runs.
#[tokio::test]
async fn lists_over_all_projects_are_in_the_order_of_names() {
    const EVERYWHERE: &str = "/apis/apps.orrery.dev/v1/workloads";
    let world = World::start().await;
    let places = ["f", "b", "d", "a", "e", "c"];
    let mut expect = Vec::new();
    for place in places {
        world.post("/apis/core.orrery.dev/v1/projects", &project(place)).await.expect(201);
        for name in ["y", "x"] {
            let path = format!("/apis/apps.orrery.dev/v1/namespaces/{place}/workloads");
            world.post(&path, &workload(name)).await.expect(201);
            expect.push(format!("{place}/{name}"));
        }
    }
    expect.sort();
    let found = |list: &Value| -> Vec<String> {
        let text = |item: &Value, key: &str| item["metadata"][key].as_str().expect(key).to_owned();
        let items = list["items"].as_array().expect("items").iter();
        items.map(|item| format!("{}/{}", text(item, "namespace"), text(item, "name"))).collect()
    };
    assert_eq!(found(&world.get(EVERYWHERE).await.expect(200)), expect);
    // In parts: each in order, and together everything once.
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let path = format!("{EVERYWHERE}?limit=5&continue={token}");
        let page = world.get(&path).await.expect(200);
        assert!(found(&page).is_sorted(), "{page}");
        seen.extend(found(&page));
        match page["metadata"]["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    seen.sort();
    assert_eq!(seen, expect);
}

#[tokio::test]
async fn a_page_says_how_many_come_after_it() {
    let world = with_workloads(&["a", "b", "c", "d", "e"]).await;
    let mut left = Vec::new();
    let mut token = String::new();
    loop {
        let page = world.get(&format!("{WORKLOADS}?limit=2&continue={token}")).await.expect(200);
        left.push(page["metadata"].get("remainingItemCount").cloned());
        match page["metadata"]["continue"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(left, [Some(json!(3)), Some(json!(1)), None]);
    // Who selects would have to be told a guess.
    let selected = world.get(&format!("{WORKLOADS}?limit=1&labelSelector=app")).await.expect(200);
    assert_eq!(selected["metadata"].get("remainingItemCount"), None);
    assert!(selected["metadata"]["continue"].is_string());
}

#[tokio::test]
async fn the_past_is_listed_while_it_is_remembered() {
    let world = with_workloads(&["a", "b"]).await;
    let before = world.get(WORKLOADS).await.expect(200);
    let version = before["metadata"]["resourceVersion"].as_str().expect("text");
    world.post(WORKLOADS, &workload("c")).await.expect(201);
    let past = format!("{WORKLOADS}?resourceVersion={version}&resourceVersionMatch=Exact");
    let list = world.get(&past).await.expect(200);
    assert_eq!(
        (names(&list), &list["metadata"]["resourceVersion"]),
        (vec!["a", "b"], &json!(version))
    );
    let paged =
        world.get(&format!("{WORKLOADS}?resourceVersion={version}&limit=1")).await.expect(200);
    assert_eq!(paged["metadata"]["remainingItemCount"], 1, "a list in parts is of one version");
    let newer = format!("{WORKLOADS}?resourceVersion={version}&resourceVersionMatch=NotOlderThan");
    assert_eq!(names(&world.get(&newer).await.expect(200)), ["a", "b", "c"]);
    let store = world.hub.store();
    store.compact(store.revision()).await.expect("compacted");
    assert_eq!(world.get(&past).await.expect(410)["reason"], "Expired");
    let token = paged["metadata"]["continue"].as_str().expect("more");
    let gone = world.get(&format!("{WORKLOADS}?limit=1&continue={token}")).await.expect(410);
    assert_eq!(gone["reason"], "Expired");
    let fresh = gone["metadata"]["continue"].as_str().expect("with what it can go on");
    let rest = world.get(&format!("{WORKLOADS}?limit=5&continue={fresh}")).await.expect(200);
    assert_eq!(names(&rest), ["b", "c"], "what is there now, from where the list stopped");
}

/// As a Kubernetes API server's are: by namespace and name, whatever the size of the parts.
#[tokio::test]
async fn lists_of_all_projects_are_in_one_order_over_all_parts() {
    let world = World::start().await;
    let all = "/apis/apps.orrery.dev/v1/workloads";
    let mut expect = Vec::new();
    for name in ["zoo", "ant", "mouse", "bee"] {
        world.post("/apis/core.orrery.dev/v1/projects", &project(name)).await.expect(201);
        let path = format!("/apis/apps.orrery.dev/v1/namespaces/{name}/workloads");
        for workload_name in ["b", "a", "c"] {
            world.post(&path, &workload(workload_name)).await.expect(201);
            expect.push(format!("{name}/{workload_name}"));
        }
    }
    expect.sort_unstable();
    for limit in [1, 2, 5, 11, 12] {
        let (mut found, mut token) = (Vec::new(), String::new());
        let mut versions = std::collections::BTreeSet::new();
        loop {
            let part = format!("{all}?limit={limit}&continue={token}");
            let page = world.get(&part).await.expect(200);
            let metadata = &page["metadata"];
            versions.insert(metadata["resourceVersion"].to_string());
            found.extend(page["items"].as_array().expect("items").iter().map(|item| {
                let text = |key: &str| item["metadata"][key].as_str().expect("text").to_owned();
                format!("{}/{}", text("namespace"), text("name"))
            }));
            let left = u64::try_from(expect.len() - found.len()).expect("a small number");
            assert_eq!(metadata["remainingItemCount"].as_u64().unwrap_or(0), left);
            match metadata["continue"].as_str() {
                Some(next) => next.clone_into(&mut token),
                None => break,
            }
            // Something happens between the parts, and the list does not mind.
            world.post("/apis/core.orrery.dev/v1/projects", &project("c")).await;
        }
        assert_eq!((found, versions.len()), (expect.clone(), 1), "in parts of {limit}");
    }
}

#[tokio::test]
async fn selectors_and_scopes_choose() {
    let world = with_workloads(&["a", "b"]).await;
    world.post("/apis/core.orrery.dev/v1/projects", &project("other")).await.expect(201);
    let other = "/apis/apps.orrery.dev/v1/projects/other/workloads";
    world.post(other, &workload("z")).await.expect(201);
    let everywhere = "/apis/apps.orrery.dev/v1/workloads";
    let cases: [(&str, &[&str]); 8] = [
        (everywhere, &["a", "b", "z"]),
        (other, &["z"]),
        ("/apis/apps.orrery.dev/v1/namespaces/other/workloads?", &["z"]),
        ("/apis/apps.orrery.dev/v1/namespaces/absent/workloads?&limit=500", &[]),
        (&format!("{WORKLOADS}?labelSelector=app%3Da"), &["a"]),
        (&format!("{WORKLOADS}?labelSelector=app+in+(b,c)"), &["b"]),
        (&format!("{WORKLOADS}?fieldSelector=metadata.name%3Db"), &["b"]),
        (&format!("{everywhere}?fieldSelector=metadata.namespace%21%3Ddefault"), &["z"]),
    ];
    for (path, expect) in cases {
        let mut list = world.get(path).await.expect(200);
        let items = list["items"].as_array_mut().expect("items");
        items.sort_by_key(|item| item["metadata"]["name"].to_string());
        assert_eq!(names(&list), expect, "{path}");
    }
}

#[tokio::test]
async fn answers_say_namespace_and_numbers_are_numbers() {
    let world = with_workloads(&["a"]).await;
    let one = world.get(&format!("{WORKLOADS}/a")).await.expect(200);
    assert_eq!(one["metadata"]["namespace"], "default");
    assert_eq!(one["metadata"].get("project"), None);
    assert_eq!(one["metadata"]["generation"], 1);
    assert_eq!(one["spec"]["stopGraceSeconds"], 10);
}

#[tokio::test]
async fn tables_have_columns_and_rows() {
    let world = with_workloads(&["a"]).await;
    let table = world.get_as(&format!("{WORKLOADS}?limit=500"), TABLE).await.expect(200);
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let names: Vec<&str> = columns.iter().filter_map(|column| column["name"].as_str()).collect();
    assert_eq!(names, ["Name", "State", "Running", "Desired", "Restarts", "Reason", "Age"]);
    assert_eq!(columns[5]["priority"], 1);
    let row = &table["rows"][0];
    assert_eq!(row["cells"][0], "a");
    assert_eq!(row["cells"].as_array().expect("cells").len(), names.len());
    assert_eq!(row["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(row["object"]["metadata"]["namespace"], "default");
    let cases = [
        ("Object", json!("Workload")),
        ("None", Value::Null),
        ("Metadata", json!("PartialObjectMetadata")),
    ];
    for (include, expect) in cases {
        let path = format!("{WORKLOADS}/a?includeObject={include}");
        let table = world.get_as(&path, TABLE).await.expect(200);
        assert_eq!(table["kind"], "Table");
        assert_eq!(table["rows"][0]["object"]["kind"], expect, "{include}");
    }
    let beta = "application/json;as=Table;v=v1beta1;g=meta.k8s.io";
    assert_eq!(
        world.get_as(WORKLOADS, beta).await.expect(200)["apiVersion"],
        "meta.k8s.io/v1beta1"
    );
}

#[tokio::test]
async fn metadata_alone_and_yaml_can_be_had() {
    let world = with_workloads(&["a"]).await;
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = world.get_as(WORKLOADS, partial).await.expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    assert_eq!(list["items"][0].get("spec"), None);
    let yaml = world.get_as(&format!("{WORKLOADS}/a"), "application/yaml").await;
    assert_eq!(yaml.header("content-type"), Some("application/yaml"));
    assert!(
        yaml.text.starts_with("apiVersion: apps.orrery.dev/v1\nkind: Workload\n"),
        "{}",
        yaml.text
    );
}

#[tokio::test]
async fn versions_of_lists_have_their_meaning() {
    let world = with_workloads(&["a"]).await;
    let now = world.get(WORKLOADS).await.expect(200);
    let now = now["metadata"]["resourceVersion"].as_str().expect("text").to_owned();
    world.get(&format!("{WORKLOADS}?resourceVersion=0")).await.expect(200);
    world
        .get(&format!("{WORKLOADS}?resourceVersion=1&resourceVersionMatch=NotOlderThan"))
        .await
        .expect(200);
    let future = world.get(&format!("{WORKLOADS}?resourceVersion={now}000")).await;
    assert_eq!(future.header("retry-after"), Some("1"));
    let future = future.expect(504);
    assert_eq!(future["reason"], "Timeout");
    assert_eq!(future["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    let past = format!("{WORKLOADS}?resourceVersion=1&resourceVersionMatch=Exact");
    assert_eq!(names(&world.get(&past).await.expect(200)), Vec::<&str>::new(), "before the first");
}

#[tokio::test]
async fn projects_are_namespaces_too() {
    let world = World::start().await;
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "demo", "labels": { "team": "a" } }, "spec": { "finalizers": ["kubernetes"] },
    });
    let made = world.post("/api/v1/namespaces", &namespace).await.expect(201);
    assert_eq!((&made["kind"], &made["status"]["phase"]), (&json!("Namespace"), &json!("Active")));
    let project = world.get("/apis/core.orrery.dev/v1/projects/demo").await.expect(200);
    assert_eq!(
        (&project["kind"], &project["metadata"]["labels"]["team"]),
        (&json!("Project"), &json!("a"))
    );
    assert_eq!(project["metadata"]["uid"], made["metadata"]["uid"]);
    let list = world.get("/api/v1/namespaces").await.expect(200);
    assert_eq!(
        (&list["kind"], names(&list)),
        (&json!("NamespaceList"), vec!["default", "demo", "system"])
    );
    let table = world.get_as("/api/v1/namespaces/demo", TABLE).await.expect(200);
    assert_eq!(table["rows"][0]["cells"][1], "Active");
    // kubectl patches built-in kinds strategically.
    let patch =
        json!({ "metadata": { "labels": { "x": "y" }, "$setElementOrder/finalizers": [] } });
    let path = "/api/v1/namespaces/demo";
    let strategic = "application/strategic-merge-patch+json";
    let patched = world.patch(path, strategic, &patch).await.expect(200);
    assert_eq!(patched["metadata"]["labels"], json!({ "team": "a", "x": "y" }));
    for finalizer in ["x.dev/one", "x.dev/two"] {
        let patch = json!({ "metadata": { "finalizers": [finalizer] } });
        world.patch(path, strategic, &patch).await.expect(200);
    }
    let patch = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["x.dev/one"] } });
    let patched = world.patch(path, strategic, &patch).await.expect(200);
    assert_eq!(patched["metadata"]["finalizers"], json!(["orrery.dev/contents", "x.dev/two"]));
    let unclear = json!({ "metadata": { "ownerReferences": [{ "name": "x" }] } });
    let refused = world.patch(path, strategic, &unclear).await.expect(400);
    assert!(refused["message"].as_str().unwrap_or_default().contains("does not say its uid"));
    world.delete("/api/v1/namespaces", &json!({})).await.expect(405);
}

/// What `kubectl describe` asks for.
#[tokio::test]
async fn events_are_found_by_the_object_they_are_about() {
    let world = World::start().await;
    let recorder = Recorder::new(&world.hub, "tests").expect("a recorder");
    for (name, reason) in [("web", "Started"), ("db", "Failed"), ("web", "Started")] {
        let regarding = ObjectReference {
            api_version: Some("apps.orrery.dev/v1".into()),
            kind: Some("Workload".into()),
            project: Some("default".into()),
            name: Some(name.into()),
            uid: Some(format!("uid-of-{name}")),
        };
        let (severity, message) = (Severity::Normal, "it happened".to_owned());
        recorder.record(Happening { regarding, severity, reason, message }).await;
    }
    let path = "/api/v1/namespaces/default/events?limit=500&fieldSelector=involvedObject.name%3Dweb,involvedObject.namespace%3Ddefault,involvedObject.kind%3DWorkload,involvedObject.uid%3Duid-of-web";
    let list = world.get(path).await.expect(200);
    assert_eq!(
        (&list["kind"], list["items"].as_array().expect("items").len()),
        (&json!("EventList"), 1)
    );
    let event = &list["items"][0];
    assert_eq!((&event["reason"], &event["count"]), (&json!("Started"), &json!(2)));
    assert_eq!(event["involvedObject"]["namespace"], "default");
    assert_eq!(
        (&event["source"]["component"], &event["apiVersion"]),
        (&json!("tests"), &json!("v1"))
    );
    let table = world.get_as("/api/v1/events", TABLE).await.expect(200);
    let objects: Vec<&Value> =
        table["rows"].as_array().expect("rows").iter().map(|row| &row["cells"][3]).collect();
    assert_eq!(objects.len(), 2);
    assert!(objects.contains(&&json!("workload/db")), "{table}");
    world.post("/api/v1/namespaces/default/events", &json!({})).await.expect(422);
}
