//! Asking as somebody else.
use crate::access::{bind_in, meta, until};
use crate::audit::{lines, operations};
use crate::support::{Answer, WORKLOADS, World, workload};
use axum::body::Body;
use axum::http::Method;
use orrery_hub::{Hub, ObjectName};
use orrery_pki::{BearerToken, TlsFiles};
use orrery_proto::core::v1 as core;
use orrery_proto::hub::v1::DiscoverRequest;
use orrery_proto::hub::v1::hub_client::HubClient;
use serde_json::{Value, json};

const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const MYSELF: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const BOB: (&str, &str) = ("impersonate-user", "bob");

pub async fn ask(
    world: &World,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: &Value,
) -> Answer {
    let headers: Vec<_> =
        [("content-type", "application/json")].iter().chain(headers).copied().collect();
    world.send(world.request(method, path, &headers, Body::from(body.to_string()))).await
}

/// A token of a person, as the header that shows it.
pub async fn bearer(hub: &Hub, user: &str) -> String {
    let token = BearerToken::generate(user);
    let spec = core::AccessTokenSpec {
        user: Some(user.into()),
        secret_hash: Some(token.hash().to_string()),
        ..<_>::default()
    };
    let resource =
        core::AccessToken { metadata: meta("", user), spec: Some(spec), ..<_>::default() };
    hub.resources().unwrap().create(&resource).await.unwrap();
    format!("Bearer {}", &*token.to_text())
}

/// A role of the project `system` with one rule, bound to one person.
pub async fn grant(hub: &Hub, user: &str, rule: core::AccessRule) {
    let name = format!("{user}-{}", rule.resources.join("-").replace('/', "-"));
    let role = core::Role {
        metadata: meta("system", &name),
        spec: Some(core::RoleSpec { rules: vec![rule] }),
        ..<_>::default()
    };
    hub.resources().unwrap().create(&role).await.unwrap();
    bind_in(hub, "system", &name, user).await;
}

fn impersonate(group: &str, resource: &str, names: &[&str]) -> core::AccessRule {
    core::AccessRule {
        verbs: vec!["impersonate".into()],
        groups: vec![group.into()],
        resources: vec![resource.into()],
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    }
}

async fn can_delete(world: &World, headers: &[(&str, &str)]) -> bool {
    let asked = json!({ "spec": { "resourceAttributes": {
        "verb": "delete", "group": "apps.orrery.dev", "resource": "workloads", "namespace": "default",
    } } });
    let answer = ask(world, Method::POST, ACCESS, headers, &asked).await.expect(201);
    answer["status"]["allowed"].as_bool().unwrap()
}

/// On a plain port everybody may do everything, and so ask as anybody; what that one may do decides.
#[tokio::test]
async fn the_request_is_that_of_whom_it_names() {
    let world = World::start().await;
    world.post(WORKLOADS, &workload("one")).await.expect(201);
    let all = [
        BOB,
        ("impersonate-group", "ops"),
        ("impersonate-group", "system:authenticated"),
        ("impersonate-uid", "42"),
        ("impersonate-extra-Team", "red"),
    ];
    let me = ask(&world, Method::POST, MYSELF, &all, &json!({})).await.expect(201);
    let expect = json!({
        "username": "bob", "groups": ["ops", "orrery:user", "system:authenticated"],
        "uid": "42", "extra": { "team": ["red"] },
    });
    assert_eq!(me["status"]["userInfo"], expect);

    assert!(can_delete(&world, &[]).await, "nothing is restricted for the port itself");
    assert!(!can_delete(&world, &[BOB]).await);
    let refused = ask(&world, Method::GET, WORKLOADS, &[BOB], &json!({})).await.expect(403);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("user \"bob\" cannot list workloads"), "{message}");
    assert!(message.starts_with("workloads.apps.orrery.dev is forbidden: "), "{message}");
    let one = format!("{WORKLOADS}/one");
    ask(&world, Method::DELETE, &one, &[BOB], &json!({})).await.expect(403);
    let admin = [BOB, ("impersonate-group", "orrery:admins")];
    assert!(can_delete(&world, &admin).await, "groups count as if they were bob's");

    bind_in(&world.hub, "default", "viewer", "bob").await;
    until("the binding counts", async || {
        let answer = ask(&world, Method::GET, WORKLOADS, &[BOB], &json!({})).await;
        (answer.code == 200).then_some(())
    })
    .await;
    ask(&world, Method::DELETE, &one, &[BOB], &json!({})).await.expect(403);
}

#[tokio::test]
async fn who_may_not_impersonate_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let world = World::operated(TlsFiles::default(), operations(&path)).await;
    let (ann, eve) = (bearer(&world.hub, "ann").await, bearer(&world.hub, "eve").await);
    bind_in(&world.hub, "system", "admin", "bob").await;
    bind_in(&world.hub, "system", "viewer", "eve").await;
    grant(&world.hub, "ann", impersonate("core", "users", &["bob"])).await;
    let (ann, eve) = (("authorization", ann.as_str()), ("authorization", eve.as_str()));
    let list = async |headers: &[(&str, &str)]| {
        ask(&world, Method::GET, WORKLOADS, headers, &json!({})).await
    };
    until("the bindings count", async || {
        let known = list(&[eve]).await.code == 200 && list(&[ann, BOB]).await.code == 200;
        known.then_some(())
    })
    .await;
    list(&[ann]).await.expect(403);

    let refused = list(&[eve, BOB]).await.expect(403);
    assert_eq!((&refused["kind"], &refused["reason"]), (&json!("Status"), &json!("Forbidden")));
    let told = "users \"bob\" is forbidden: user \"eve\" cannot impersonate resource \"users\" in API group \"core\"";
    assert_eq!(refused["message"], told);
    list(&[ann, ("impersonate-user", "carl")]).await.expect(403);
    for more in [
        ("impersonate-group", "orrery:admins"),
        ("impersonate-uid", "42"),
        ("impersonate-extra-team", "red"),
    ] {
        list(&[ann, BOB, more]).await.expect(403);
        list(&[ann, more]).await.expect(400);
    }
    let stranger = [("authorization", "Bearer nonsense"), BOB];
    list(&stranger).await.expect(401);

    let extra = impersonate("authentication.k8s.io", "userextras/team", &["red"]);
    grant(&world.hub, "ann", extra).await;
    until("the binding counts", async || {
        let answer = list(&[ann, BOB, ("impersonate-extra-team", "red")]).await;
        (answer.code == 200).then_some(())
    })
    .await;
    list(&[ann, BOB, ("impersonate-extra-team", "blue")]).await.expect(403);

    // Who asked, and as whom, whether they were let or not.
    let by = |user: &'static str, code: u16| {
        move |line: &Value| {
            line["user"] == user
                && line["impersonatedUser"]["name"] == "bob"
                && line["code"] == code
        }
    };
    lines(&path, by("ann", 200)).await;
    let written = lines(&path, by("eve", 403)).await;
    let refused = written.iter().find(|line| by("eve", 403)(line)).unwrap();
    assert_eq!((&refused["verb"], &refused["allowed"]), (&json!("list"), &json!(false)));
}

/// A watch that was opened as somebody else ends with the right to ask as them, also where that one may do
/// everything and where only a part of what was said is no longer allowed.
#[tokio::test]
async fn a_watch_ends_with_the_right_to_impersonate() {
    let world = World::start().await;
    let ann = bearer(&world.hub, "ann").await;
    bind_in(&world.hub, "default", "viewer", "bob").await;
    grant(&world.hub, "ann", impersonate("core", "users", &["bob"])).await;
    grant(&world.hub, "ann", impersonate("core", "groups", &["orrery:admins"])).await;
    world.post(WORKLOADS, &workload("one")).await.expect(201);
    let ann = ("authorization", ann.as_str());
    let admin = [ann, BOB, ("impersonate-group", "orrery:admins")];
    until("the bindings count", async || {
        let one = ask(&world, Method::GET, WORKLOADS, &[ann, BOB], &json!({})).await;
        let two = ask(&world, Method::GET, WORKLOADS, &admin, &json!({})).await;
        (one.code == 200 && two.code == 200).then_some(())
    })
    .await;
    let path = format!("{WORKLOADS}?watch=true");
    let mut as_bob = world.watch_with(&path, &[ann, BOB]).await;
    let mut as_admin = world.watch_with(&path, &admin).await;
    for events in [&mut as_bob, &mut as_admin] {
        assert_eq!(events.next().await.unwrap()["type"], "ADDED");
    }

    let take_away = async |name: &str| {
        let bindings = world.hub.resources::<core::RoleBinding>().unwrap();
        bindings.delete(&ObjectName::new("system", name)).await.unwrap();
    };
    take_away("ann-ann-groups").await;
    let end = as_admin.next().await.expect("it ends with a word");
    assert_eq!((&end["type"], &end["object"]["code"]), (&json!("ERROR"), &json!(403)), "{end}");
    world.post(WORKLOADS, &workload("two")).await.expect(201);
    assert_eq!(as_bob.next().await.unwrap()["object"]["metadata"]["name"], "two");
    take_away("ann-ann-users").await;
    let end = as_bob.next().await.expect("it ends with a word");
    let message = end["object"]["message"].as_str().unwrap();
    assert!(message.contains("user \"ann\" cannot impersonate users"), "{message}");
    assert!(as_bob.next().await.is_none(), "and then it is over");
}

/// Whoever believes that they ask as another is not answered as themselves.
#[tokio::test]
async fn calls_of_grpc_are_their_callers_own() {
    let world = World::start().await;
    let mut hub = HubClient::connect(world.url()).await.unwrap();
    hub.discover(DiscoverRequest {}).await.unwrap();
    let mut request = tonic::Request::new(DiscoverRequest {});
    request.metadata_mut().insert("impersonate-user", "bob".parse().unwrap());
    let refused = hub.discover(request).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::Unimplemented);
    assert!(refused.message().contains("Impersonate-User"), "{}", refused.message());
}
