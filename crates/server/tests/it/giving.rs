//! Nobody gives away more than they have: by REST, by gRPC and by the commander connection.
use crate::access::{certificate, meta, until};
use crate::joining::world;
use crate::wire::ask;
use orrery_client::Commander;
use orrery_pki::{IssueRequest, Issued, Role, TlsMaterial};
use orrery_proto::core::v1 as core;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_testkit::world::World;
use serde_json::{Value, json};
use std::time::Duration;

const ROLES: &str = "/apis/core.orrery.dev/v1/namespaces/demo/roles";
const BINDINGS: &str = "/apis/core.orrery.dev/v1/namespaces/demo/rolebindings";
const JSON: (&str, &str) = ("Content-Type", "application/json");

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> core::AccessRule {
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    core::AccessRule {
        verbs: owned(verbs),
        groups: vec![group.to_owned()],
        resources: owned(resources),
        names: vec![],
    }
}

/// Dee may write roles, bindings and tokens, and read workloads.
async fn delegated(world: &World) -> TlsMaterial {
    world.project("demo").await;
    let write = ["get", "list", "create", "update", "patch", "delete"];
    let rules = vec![
        rule(&write, "core", &["roles", "rolebindings", "accesstokens"]),
        rule(&["get", "list"], "apps", &["workloads"]),
    ];
    for project in ["demo", "system"] {
        let role = core::Role {
            metadata: meta(project, "delegate"),
            spec: Some(core::RoleSpec { rules: rules.clone() }),
            ..<_>::default()
        };
        world.hub.resources().unwrap().create(&role).await.unwrap();
    }
    crate::access::bind(world, "system", "delegate", "dee").await;
    let dee = certificate(world, Role::User, "dee", None);
    until("the binding counts", async || {
        (ask(world, &dee, "GET", ROLES, &[], "").await.0 == 200).then_some(())
    })
    .await;
    dee
}

fn role(name: &str, verbs: &[&str]) -> Value {
    json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "Role",
        "metadata": { "name": name, "project": "demo" },
        "spec": { "rules": [{ "verbs": verbs, "groups": ["apps"], "resources": ["workloads"] }] },
    })
}

fn binding(name: &str, role: &str) -> Value {
    json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "RoleBinding",
        "metadata": { "name": name, "project": "demo" },
        "spec": { "role": role, "subjects": [{ "kind": "User", "name": "dee" }] },
    })
}

fn rest(mut value: Value) -> String {
    value["metadata"].as_object_mut().unwrap().remove("project");
    value.to_string()
}

#[tokio::test]
async fn roles_and_bindings_by_rest() {
    let world = world().await;
    let dee = delegated(&world).await;
    let send = async |method: &str, path: &str, kind: &str, body: &str| {
        ask(&world, &dee, method, path, &[("Content-Type", kind)], body).await
    };
    let post = async |path: &str, body: Value| send("POST", path, JSON.1, &rest(body)).await;
    assert_eq!(post(ROLES, role("readers", &["get"])).await.0, 201);
    let (code, said) = post(ROLES, role("writers", &["get", "delete"])).await;
    assert_eq!((code, &said["reason"]), (403, &json!("Forbidden")), "{said}");
    let message = said["message"].as_str().unwrap();
    assert!(
        message.contains("delete workloads of apps") && message.contains("escalate"),
        "{message}"
    );

    // Nor by changing one that is there: replaced, patched in two ways, and applied.
    let mut wider = role("readers", &["*"]);
    let path = format!("{ROLES}/readers");
    assert_eq!(send("PUT", &path, JSON.1, &rest(wider.clone())).await.0, 403);
    let merge = json!({ "spec": wider["spec"] }).to_string();
    assert_eq!(send("PATCH", &path, "application/merge-patch+json", &merge).await.0, 403);
    let change = r#"[{"op": "add", "path": "/spec/rules/0/verbs/-", "value": "create"}]"#;
    assert_eq!(send("PATCH", &path, "application/json-patch+json", change).await.0, 403);
    wider["metadata"].as_object_mut().unwrap().remove("project");
    for name in ["readers", "fresh"] {
        wider["metadata"]["name"] = json!(name);
        let path = format!("{ROLES}/{name}?fieldManager=dee&force=true");
        let body = wider.to_string();
        let applied = send("PATCH", &path, "application/apply-patch+yaml", &body).await;
        assert_eq!(applied.0, 403, "{name}");
    }
    // What does not change what it gives may be written.
    let label = json!({ "metadata": { "labels": { "a": "b" } } }).to_string();
    let labelled = format!("{ROLES}/delegate");
    assert_eq!(send("PATCH", &labelled, "application/merge-patch+json", &label).await.0, 200);

    assert_eq!(post(BINDINGS, binding("fine", "readers")).await.0, 201);
    for (name, role) in [("a", "admin"), ("b", "editor"), ("c", "missing")] {
        let (code, said) = post(BINDINGS, binding(name, role)).await;
        assert_eq!(code, 403, "{said}");
        assert!(said["message"].as_str().unwrap().contains("\"bind\""), "{said}");
    }
    let other = json!({ "spec": { "role": "admin" } }).to_string();
    let path = format!("{BINDINGS}/fine");
    assert_eq!(send("PATCH", &path, "application/merge-patch+json", &other).await.0, 403);
    let dry = format!("{BINDINGS}?dryRun=All");
    assert_eq!(post(&dry, binding("dry", "admin")).await.0, 403, "a dry run tells the same");
}

#[tokio::test]
async fn roles_bindings_and_tokens_by_grpc() {
    let world = world().await;
    let dee = delegated(&world).await;
    let commander = Commander::connect(&world.endpoint(Some(dee.clone()))).await.unwrap();
    let mut api = HubClient::new(world.endpoint(Some(dee)).connect().await.unwrap());
    let token = |name: &str, user: &str, groups: &[&str]| {
        json!({
            "apiVersion": "core.orrery.dev/v1", "kind": "AccessToken", "metadata": { "name": name },
            "spec": { "user": user, "groups": groups, "secretHash": "0".repeat(64) },
        })
    };
    let cases = [
        (role("fine", &["list"]), None),
        (role("wide", &["*"]), Some("escalate")),
        (binding("wide", "admin"), Some("\"bind\"")),
        (token("mine", "dee", &[]), None),
        (token("hers", "root", &[]), Some("\"impersonate\" on users")),
        (token("ours", "dee", &["orrery:admins"]), Some("\"impersonate\" on groups")),
    ];
    for (object, expect) in cases {
        for mode in [hub::apply_request::Mode::Apply, hub::apply_request::Mode::Create] {
            let mut object = object.clone();
            let name = format!("{}-{}", object["metadata"]["name"].as_str().unwrap(), mode as i32);
            object["metadata"]["name"] = json!(name);
            let body = Some(hub::resource::Body::Json(object.to_string()));
            let resource = Some(hub::Resource { body, ..<_>::default() });
            let request = hub::ApplyRequest { resource, mode: mode.into(), ..<_>::default() };
            let by_api = api.apply(request.clone()).await.map_err(|status| {
                assert_eq!(status.code(), tonic::Code::PermissionDenied, "{status}");
                status.message().to_owned()
            });
            match (by_api, expect) {
                (Ok(_), None) => {}
                (Err(said), Some(expect)) => {
                    assert!(said.contains(expect), "{said}");
                    let said = commander.apply(request).await.expect_err("refused").to_string();
                    assert!(said.contains(expect), "{said}");
                }
                (found, expect) => panic!("{object}: {found:?}, expected {expect:?}"),
            }
        }
    }
}

/// An administrator who disables themselves by mistake could not take it back.
#[tokio::test]
async fn nobody_disables_themselves() {
    let world = world().await;
    let admin = certificate(&world, Role::User, "root", Some("orrery:admins"));
    let commander = Commander::connect(&world.endpoint(Some(admin))).await.unwrap();
    let revoke = |peer: &str| {
        let object = json!({
            "apiVersion": "core.orrery.dev/v1", "kind": "Revocation", "metadata": { "name": peer },
            "spec": { "role": "user", "peer": peer },
        });
        let body = Some(hub::resource::Body::Json(object.to_string()));
        let resource = Some(hub::Resource { body, ..<_>::default() });
        commander.apply(hub::ApplyRequest { resource, ..<_>::default() })
    };
    revoke("eve").await.expect("another one");
    let said = revoke("root").await.expect_err("their own").to_string();
    assert!(said.contains("user \"root\" would lock themselves out"), "{said}");
    revoke("mallory").await.expect("they may still do everything");
}

const HOUR: Duration = Duration::from_secs(3600);

/// The certificate that somebody shows is as good as their name for that mistake.
#[tokio::test]
async fn nobody_disables_the_certificate_that_they_show() {
    let world = world().await;
    let issue = |name: &str| {
        let mut request = IssueRequest::new(Role::User, name);
        request.group = Some("orrery:admins".to_owned());
        world.identities.issue(&request, HOUR).unwrap()
    };
    let (own, other) = (issue("root"), issue("eve"));
    let endpoint = world.endpoint(Some(own.material().unwrap()));
    let commander = Commander::connect(&endpoint).await.unwrap();
    let revoke = |name: &str, certificate: &Issued| {
        let object = json!({
            "apiVersion": "core.orrery.dev/v1", "kind": "Revocation", "metadata": { "name": name },
            "spec": { "certificate": certificate.identity().fingerprint.to_string() },
        });
        let body = Some(hub::resource::Body::Json(object.to_string()));
        let resource = Some(hub::Resource { body, ..<_>::default() });
        commander.apply(hub::ApplyRequest { resource, ..<_>::default() })
    };
    revoke("other", &other).await.expect("another one's");
    let said = revoke("own", &own).await.expect_err("their own").to_string();
    assert!(said.contains("user \"root\" would lock themselves out"), "{said}");
    revoke("again", &other).await.expect("they may still do everything");
}
