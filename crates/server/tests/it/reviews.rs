//! What services ask about others: whose token they were shown, and what somebody may do.
use crate::access::{bind_in, meta, until};
use crate::impersonation::{ask, bearer, grant};
use crate::support::World;
use axum::http::Method;
use orrery_hub::Hub;
use orrery_proto::core::v1 as core;
use serde_json::{Value, json};

pub const TOKENS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const LOCAL: &str = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";

/// The token of somebody, as they show it.
async fn token(hub: &Hub, user: &str) -> String {
    bearer(hub, user).await.trim_start_matches("Bearer ").to_owned()
}

async fn shown(world: &World, token: &str, audiences: &[&str]) -> Value {
    let asked = json!({ "spec": { "token": token, "audiences": audiences } });
    let answer = world.post(TOKENS, &asked).await.expect(201);
    assert_eq!(answer["spec"], asked["spec"], "typed clients want the question back");
    answer["status"].clone()
}

async fn revoke(hub: &Hub, user: &str) {
    let spec = core::RevocationSpec {
        role: Some("user".into()),
        peer: Some(user.into()),
        ..<_>::default()
    };
    let revocation =
        core::Revocation { metadata: meta("", user), spec: Some(spec), ..<_>::default() };
    hub.resources().unwrap().create(&revocation).await.unwrap();
}

#[tokio::test]
async fn a_service_asks_whose_token_it_was_shown() {
    let world = World::start().await;
    let token = token(&world.hub, "ann").await;
    let good = until("the token counts", async || {
        let status = shown(&world, &token, &[]).await;
        (status["authenticated"] == true).then_some(status)
    })
    .await;
    let expect = json!({
        "authenticated": true,
        "user": { "username": "ann", "groups": ["orrery:user", "system:authenticated"] },
        "audiences": ["orrery"],
    });
    assert_eq!(good, expect);
    assert_eq!(shown(&world, &token, &["other", "orrery"]).await, expect);
    let elsewhere = shown(&world, &token, &["other"]).await;
    let text = elsewhere["error"].as_str().unwrap();
    assert!(elsewhere["authenticated"] == false && text.contains("\"orrery\""), "{elsewhere}");

    let long = "x".repeat(20 << 10);
    let guessed = format!("{}AAAA", &token[..token.len() - 4]);
    let mut refusals = Vec::new();
    for bad in ["nonsense", "orrery1.nobody.guessed", &guessed, &long] {
        refusals.push(shown(&world, bad, &[]).await);
    }
    refusals.dedup();
    let expect = json!({ "authenticated": false, "error": "the token is not good here" });
    assert_eq!(refusals, [expect], "all alike");
    world.post(TOKENS, &json!({ "spec": {} })).await.expect(400);
    world.get(TOKENS).await.expect(405);

    revoke(&world.hub, "ann").await;
    until("she is disabled", async || {
        (shown(&world, &token, &[]).await["authenticated"] == false).then_some(())
    })
    .await;
}

fn wanted(verb: &str, resource: &str, project: &str) -> Value {
    json!({ "verb": verb, "group": "apps.orrery.dev", "resource": resource, "namespace": project })
}

/// Whether somebody may do something, the reason, and whether nothing can give it to them.
async fn may(world: &World, path: &str, spec: &Value) -> (bool, bool) {
    let answer = world.post(path, &json!({ "spec": spec })).await.expect(201);
    assert_eq!(&answer["spec"], spec, "the question is in the answer");
    let status = &answer["status"];
    assert!(status["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{status}");
    (status["allowed"] == true, status["denied"] == true)
}

#[tokio::test]
async fn a_service_asks_what_somebody_may_do() {
    let world = World::start().await;
    bind_in(&world.hub, "default", "viewer", "ann").await;
    let get = wanted("get", "workloads", "default");
    let ann = json!({ "user": "ann", "resourceAttributes": get });
    until("the binding counts", async || may(&world, ACCESS, &ann).await.0.then_some(())).await;
    let of = |user: &str, groups: &[&str], what: &Value| {
        json!({ "user": user, "groups": groups, "uid": "7", "extra": { "k": ["v"] },
                "resourceAttributes": what })
    };
    let (delete, other) =
        (wanted("delete", "workloads", "default"), wanted("get", "workloads", ""));
    let elsewhere = wanted("get", "workloads", "other");
    for (path, spec, expect) in [
        (LOCAL, ann.clone(), true),
        (LOCAL, of("ann", &[], &delete), false),
        (ACCESS, of("ann", &[], &other), false),
        (ACCESS, of("ann", &[], &elsewhere), false),
        (ACCESS, of("bob", &["ops"], &get), false),
        (ACCESS, of("bob", &["orrery:admins"], &elsewhere), true),
        (ACCESS, of("system:anonymous", &["system:unauthenticated"], &get), false),
        (ACCESS, json!({ "groups": ["orrery:admins"], "resourceAttributes": delete }), true),
    ] {
        assert_eq!(may(&world, path, &spec).await, (expect, false), "{spec}");
    }
    world.post(LOCAL, &json!({ "spec": of("ann", &[], &elsewhere) })).await.expect(422);
    world.post(ACCESS, &json!({ "spec": { "resourceAttributes": get } })).await.expect(422);
    world.post(ACCESS, &json!({ "spec": { "user": "ann" } })).await.expect(422);
    let in_project = LOCAL.replace("localsubject", "subject");
    world.post(&in_project, &json!({ "spec": ann })).await.expect(404);
    world.post(&LOCAL.replace("namespaces/default/", ""), &json!({})).await.expect(404);

    revoke(&world.hub, "ann").await;
    until("she is disabled", async || {
        (may(&world, ACCESS, &ann).await == (false, true)).then_some(())
    })
    .await;
}

/// Paths of the server are read by everybody who is known; those of others nobody gave to anybody.
#[tokio::test]
async fn paths_of_others_are_not_the_servers() {
    let world = World::start().await;
    let of = |user: &str, verb: &str, path: &str| json!({ "user": user, "nonResourceAttributes": { "verb": verb, "path": path } });
    for (user, verb, path, expect) in [
        ("ann", "get", "/metrics", true),
        ("ann", "get", "/apis/apps.orrery.dev/v1", true),
        ("ann", "post", "/metrics", false),
        ("ann", "get", "/probe", false),
        ("ann", "get", "/metricsmore", false),
        ("system:anonymous", "get", "/metrics", false),
    ] {
        assert_eq!(may(&world, ACCESS, &of(user, verb, path)).await.0, expect, "{user} {path}");
    }
    let admin = json!({ "user": "ann", "groups": ["orrery:admins"],
                        "nonResourceAttributes": { "verb": "post", "path": "/probe" } });
    assert!(may(&world, ACCESS, &admin).await.0);
    let path = json!({ "spec": of("ann", "get", "/metrics") });
    world.post(LOCAL, &path).await.expect(422);
}

#[tokio::test]
async fn not_everybody_may_ask_about_others() {
    let world = World::start().await;
    let proxy = bearer(&world.hub, "proxy").await;
    let proxy = [("authorization", proxy.as_str())];
    bind_in(&world.hub, "default", "viewer", "proxy").await;
    let post = async |path: &str, spec: Value| {
        ask(&world, Method::POST, path, &proxy, &json!({ "spec": spec })).await
    };
    let token = json!({ "token": "nonsense" });
    let access =
        json!({ "user": "ann", "resourceAttributes": wanted("get", "workloads", "default") });
    let own = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    until("the token counts", async || {
        let asked = json!({ "resourceAttributes": wanted("get", "workloads", "default") });
        (post(own, asked).await.code == 201).then_some(())
    })
    .await;
    let refused = post(TOKENS, token.clone()).await.expect(403);
    let message = "tokenreviews.authentication.k8s.io is forbidden: user \"proxy\" cannot create tokenreviews everywhere";
    assert_eq!((&refused["message"], &refused["reason"]), (&json!(message), &json!("Forbidden")));
    let details = json!({ "group": "authentication.k8s.io", "kind": "tokenreviews" });
    assert_eq!(refused["details"], details);
    for path in [ACCESS, LOCAL] {
        post(path, access.clone()).await.expect(403);
    }

    let rule = |group: &str, resource: &str| core::AccessRule {
        verbs: vec!["create".into()],
        groups: vec![group.into()],
        resources: vec![resource.into()],
        ..<_>::default()
    };
    grant(&world.hub, "proxy", rule("authentication.k8s.io", "tokenreviews")).await;
    until("the binding counts", async || {
        (post(TOKENS, token.clone()).await.code == 201).then_some(())
    })
    .await;
    post(ACCESS, access.clone()).await.expect(403);
    grant(&world.hub, "proxy", rule("authorization", "subjectaccessreviews")).await;
    until("the binding counts", async || {
        (post(ACCESS, access.clone()).await.code == 201).then_some(())
    })
    .await;
    post(LOCAL, access).await.expect(403);
}

/// Discovery tells of them, and an older kubectl asks who it is in the version before.
#[tokio::test]
async fn reviews_are_found() {
    let world = World::start().await;
    let named = async |path: &str| {
        let list = world.get(path).await.expect(200);
        let resources = list["resources"].as_array().unwrap().clone();
        let of =
            |one: &Value| (one["name"].as_str().unwrap().to_owned(), one["namespaced"] == true);
        resources.iter().map(of).collect::<Vec<_>>()
    };
    let authentication = named("/apis/authentication.k8s.io/v1").await;
    assert!(authentication.contains(&("tokenreviews".into(), false)), "{authentication:?}");
    let authorization = named("/apis/authorization.k8s.io/v1").await;
    assert!(authorization.contains(&("subjectaccessreviews".into(), false)), "{authorization:?}");
    assert!(authorization.contains(&("localsubjectaccessreviews".into(), true)));
    let table = [("accept", crate::support::TABLE), ("content-type", "application/json")];
    let mine = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let asked = json!({ "spec": { "nonResourceAttributes": { "verb": "get", "path": "/" } } });
    let asked = axum::body::Body::from(asked.to_string());
    let refused = world.send(world.request(Method::POST, mine, &table, asked)).await;
    assert_eq!(refused.expect(406)["reason"], "NotAcceptable", "it has no columns");
    let older = "/apis/authentication.k8s.io/v1beta1/selfsubjectreviews";
    let me = world.post(older, &json!({})).await.expect(201);
    assert_eq!(me["apiVersion"], "authentication.k8s.io/v1beta1");
    assert_eq!(me["status"]["userInfo"]["username"], "system:anonymous");
}
