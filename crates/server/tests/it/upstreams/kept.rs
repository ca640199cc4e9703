//! What a site leaves to its centre, and what it decides itself.
use super::{CLASSES, at, class, mk_operations, note_of, options, site_of};
use crate::support::{PATIENCE, World, project};
use axum::body::Body;
use axum::http::Method;
use orrery_server::Server;
use serde_json::json;
use std::time::Duration;

const PROJECTS: &str = "/apis/core.orrery.dev/v1/projects";

/// Waits until a path answers with a code.
async fn until(world: &World, path: &str, code: u16) {
    let answered = async {
        while world.get(path).await.code.as_u16() != code {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, answered).await.is_ok(), "{path} is not {code}");
}

/// A project that goes at a site takes with it what is kept there, and nothing else.
#[tokio::test]
async fn a_project_of_a_site_goes_without_what_the_centre_keeps() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    for world in [&centre, &site] {
        world.post(PROJECTS, &project("shop")).await.expect(201);
    }
    let classes = CLASSES.replace("default", "shop");
    centre.post(&classes, &class("small", "")).await.expect(201);
    site.get(&format!("{classes}/small")).await.expect(200);
    site.delete(&format!("{PROJECTS}/shop"), &json!({})).await.expect(200);
    until(&site, &format!("{PROJECTS}/shop"), 404).await;
    let kept = centre.get(&format!("{classes}/small")).await.expect(200);
    assert!(kept["metadata"]["deletionTimestamp"].is_null(), "{kept}");
}

/// Who may do what at a site is the site's to say: the centre is not even asked.
#[tokio::test]
async fn who_may_read_is_decided_at_the_site() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    centre.post(CLASSES, &class("small", "")).await.expect(201);
    let before = super::asked(&centre, "get").await;
    let nobody = [("impersonate-user", "nobody")];
    let request = site.request(Method::GET, &at("small"), &nobody, Body::empty());
    site.send(request).await.expect(403);
    assert_eq!(super::asked(&centre, "get").await, before);
}

/// Controllers of a site follow classes of the centre, and leave them as they are.
#[tokio::test]
async fn controllers_follow_what_the_centre_keeps() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    let deployment = json!({
        "apiVersion": "infra.orrery.dev/v1", "kind": "MachineDeployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 0, "template": {"class": "small"}},
    });
    let deployments = CLASSES.replace("machineclasses", "machinedeployments");
    site.post(&deployments, &deployment).await.expect(201);
    let created = centre.post(CLASSES, &class("small", "one")).await.expect(201);
    let sets = CLASSES.replace("machineclasses", "machinesets");
    let made = async {
        loop {
            let listed = site.get(&sets).await.expect(200);
            if let Some(set) = listed["items"].get(0) {
                return set.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let set = tokio::time::timeout(PATIENCE, made).await.expect("the class is heard of");
    assert_eq!(set["spec"]["classSnapshot"]["provider"], "ProcessMachine");
    let there = centre.get(&at("small")).await.expect(200);
    assert_eq!((note_of(&there), &there), ("one", &created), "nobody wrote it");
}

#[track_caller]
fn check(said: &str, expect: &str) {
    assert!(said.contains(expect), "{said}");
}

/// proves: HUB-06
#[tokio::test]
async fn a_server_does_not_start_with_what_cannot_work() {
    let refused = async |kinds: &[&str], server: &str| {
        let opened = Server::open(options(<_>::default(), mk_operations(server, kinds))).await;
        opened.err().expect("it is refused").to_string()
    };
    let there = "http://127.0.0.1:9";
    check(
        &refused(&["Project"], there).await,
        "--kind-from Project=http://127.0.0.1:9: Project cannot be kept elsewhere",
    );
    check(&refused(&["Gizmo"], there).await, "Gizmo");
    check(&refused(&["Secret"], there).await, "shared between projects");
    check(&refused(&["MachineClass", "mclass"], there).await, "MachineClass twice");
    check(&refused(&["MachineClass"], "central").await, "is no server address");
    check(&refused(&["MachineClass"], "https://central:1").await, "https needs");
}
