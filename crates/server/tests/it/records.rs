//! What programs write down as they run: leases, by which they choose a leader, and events.
use crate::support::{APPLY, MERGE, WORKLOADS, World, workload};
use serde_json::{Value, json};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const CORE: &str = "/api/v1/namespaces/default/events";
const GROUP: &str = "/apis/events.k8s.io/v1/namespaces/default/events";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn lease(holder: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": { "name": "ctl.example.com" },
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": "2026-01-01T00:00:00.000001Z", "renewTime": "2026-01-01T00:00:00.000001Z",
        },
    })
}

/// Of two who saw the same lease, one gets it: what they write names the version that they saw.
#[tokio::test]
async fn one_of_two_takes_a_lease() {
    let world = World::start().await;
    let first = world.post(LEASES, &lease("a")).await.expect(201);
    assert_eq!(first["spec"], lease("a")["spec"], "it comes back as it was written");
    world.post(LEASES, &lease("b")).await.expect(409);
    let path = format!("{LEASES}/ctl.example.com");
    let mut renewed = first.clone();
    renewed["spec"]["renewTime"] = json!("2026-01-01T00:00:10.000000Z");
    let second = world.put(&path, &renewed).await.expect(200);
    let mut stale = first;
    stale["spec"]["holderIdentity"] = json!("b");
    world.put(&path, &stale).await.expect(409);
    assert_eq!(world.get(&path).await.expect(200)["spec"]["holderIdentity"], "a");
    let mut released = second;
    released["spec"]["holderIdentity"] = json!("");
    let free = world.put(&path, &released).await.expect(200);
    assert_eq!(free["spec"]["holderIdentity"], "", "that nobody holds it is said");
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    world.patch(&path, STRATEGIC, &labels).await.expect(200);
    let apply = world.patch(&format!("{path}?fieldManager=x&force=true"), APPLY, &lease("c")).await;
    assert_eq!(apply.expect(200)["spec"]["holderIdentity"], "c");
    world.delete(&path, &json!({})).await.expect(200);
}

#[tokio::test]
async fn what_is_no_lease_is_refused() {
    let world = World::start().await;
    let check = async |change: fn(&mut Value), field: &str| {
        let mut bad = lease("a");
        change(&mut bad);
        let status = world.post(LEASES, &bad).await.expect(422);
        assert_eq!(status["details"]["causes"][0]["field"], field, "{status}");
    };
    check(|lease| lease["spec"]["renewTime"] = json!("2026-01-01T00:00:00Z"), "spec.renewTime")
        .await;
    check(|l| l["spec"]["leaseDurationSeconds"] = json!(0), "spec.leaseDurationSeconds").await;
    check(|lease| lease["metadata"]["name"] = json!("a..b"), "metadata.name").await;
    check(|lease| lease["metadata"]["name"] = json!("A"), "metadata.name").await;
    // Dots are for what programs name.
    let status = world.post(WORKLOADS, &workload("a.b")).await.expect(422);
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.name");
}

fn told() -> Value {
    json!({
        "metadata": { "name": "web.17a2b3c4", "namespace": "default" },
        "involvedObject": {
            "apiVersion": "apps.orrery.dev/v1", "kind": "Workload", "name": "web", "namespace": "default",
            "resourceVersion": "7",
        },
        "reason": "Synced", "message": "it is as it should be", "type": "Normal", "count": 1,
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        "source": { "component": "ctl", "host": "h" }, "eventTime": null, "reportingComponent": "",
    })
}

/// As libraries of Go do it: once made, an event is counted by patches.
#[tokio::test]
async fn a_program_tells_of_events_and_counts_them() {
    let world = World::start().await;
    let made = world.post(CORE, &told()).await.expect(201);
    assert_eq!((&made["reason"], &made["source"]["component"]), (&json!("Synced"), &json!("ctl")));
    let path = format!("{CORE}/web.17a2b3c4");
    let again = json!({ "count": 2, "lastTimestamp": "2026-01-01T00:00:09Z" });
    let counted = world.patch(&path, STRATEGIC, &again).await.expect(200);
    assert_eq!((&counted["count"], &counted["message"]), (&json!(2), &told()["message"]));
    let fields = "involvedObject.name%3Dweb,reason%3DSynced,type%3DNormal";
    let list = world.get(&format!("{CORE}?fieldSelector={fields}")).await.expect(200);
    assert_eq!(list["items"][0]["involvedObject"]["name"], "web");
    let other = world.get(&format!("{GROUP}/web.17a2b3c4")).await.expect(200);
    assert_eq!((&other["note"], &other["series"]["count"]), (&told()["message"], &json!(2)));
    assert_eq!(other["eventTime"], "2026-01-01T00:00:00.000000Z");
    world.delete(&path, &json!({})).await.expect(200);
    world.get(&path).await.expect(404);
}

#[tokio::test]
async fn events_have_a_group_of_their_own() {
    let world = World::start().await;
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "generateName": "web." },
        "regarding": { "kind": "Workload", "name": "web", "namespace": "default" },
        "reason": "Synced", "action": "Sync", "note": "n", "type": "Warning",
        "eventTime": "2026-01-01T00:00:00.000001Z",
        "reportingController": "example.com/ctl", "reportingInstance": "ctl-1",
    });
    let made = world.post(GROUP, &event).await.expect(201);
    for key in ["action", "note", "type", "eventTime", "reportingController", "reportingInstance"] {
        assert_eq!(made[key], event[key], "{key}");
    }
    let name = made["metadata"]["name"].as_str().expect("a name");
    let series =
        json!({ "series": { "count": 5, "lastObservedTime": "2026-01-01T00:01:00.000000Z" } });
    for kind in [MERGE, STRATEGIC] {
        let counted = world.patch(&format!("{GROUP}/{name}"), kind, &series).await.expect(200);
        assert_eq!(counted["series"], series["series"]);
    }
    let core = world.get(&format!("{CORE}/{name}")).await.expect(200);
    assert_eq!((&core["count"], &core["message"]), (&json!(5), &json!("n")));
    let mut bad = event.clone();
    bad["type"] = json!("Odd");
    bad["regarding"] = json!({ "namespace": "default" });
    let fields = async |path: &str, event: &Value| {
        let refused = world.post(path, event).await.expect(422);
        let causes = refused["details"]["causes"].as_array().unwrap().clone();
        causes.iter().map(|cause| cause["field"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fields(GROUP, &bad).await, ["regarding.kind", "regarding.name", "type"]);
    bad["apiVersion"] = json!("v1");
    bad["involvedObject"] = bad["regarding"].take();
    bad.as_object_mut().unwrap().remove("regarding");
    let expect = ["involvedObject.kind", "involvedObject.name", "type"];
    assert_eq!(fields(CORE, &bad).await, expect, "in the words of who reads it");
    let found = world.get("/apis/events.k8s.io/v1").await.expect(200);
    assert_eq!(found["resources"][0]["kind"], "Event");
}
