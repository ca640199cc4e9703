//! What people may do: by certificate and by token, over REST, gRPC and the commander connection.
use crate::joining::world;
use orrery_client::{Commander, Endpoint};
use orrery_hub::{Hub, ObjectName};
use orrery_pki::{BearerToken, IssueRequest, Role, TlsMaterial};
use orrery_proto::core::v1 as core;
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::identity::v1 as wire;
use orrery_proto::identity::v1::identity_client::IdentityClient;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_testkit::world::{SOON, World};
use serde_json::{Value, json};
use std::time::Duration;
use tonic::metadata::MetadataValue;

const DAY: Duration = Duration::from_secs(86_400);

pub fn certificate(world: &World, role: Role, name: &str, group: Option<&str>) -> TlsMaterial {
    let mut request = IssueRequest::new(role, name);
    request.group = group.map(str::to_owned);
    world.identities.issue(&request, DAY).unwrap().material().unwrap()
}

pub fn meta(project: &str, name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta { project: project.into(), name: name.into(), ..ObjectMeta::default() })
}

/// A binding of a role that every server knows.
pub async fn bind(world: &World, project: &str, role: &str, user: &str) {
    bind_in(&world.hub, project, role, user).await;
}

pub async fn bind_in(hub: &Hub, project: &str, role: &str, user: &str) {
    let subject = core::AccessSubject { kind: Some("User".into()), name: Some(user.into()) };
    let spec = core::RoleBindingSpec { role: Some(role.into()), subjects: vec![subject] };
    let binding = core::RoleBinding {
        metadata: meta(project, &format!("{user}-{role}")),
        spec: Some(spec),
        ..<_>::default()
    };
    hub.resources().unwrap().create(&binding).await.unwrap();
}

pub async fn secret(world: &World, project: &str, name: &str) {
    let data = [("password".to_owned(), b"hush".to_vec())].into_iter().collect();
    let spec = core::SecretSpec { data, ..<_>::default() };
    let secret = core::Secret { metadata: meta(project, name), spec: Some(spec), ..<_>::default() };
    world.hub.resources().unwrap().create(&secret).await.unwrap();
}

pub fn list(kind: &str, project: &str) -> hub::ListRequest {
    hub::ListRequest {
        kind: kind.into(),
        project: project.into(),
        encoding: hub::Encoding::Json.into(),
        ..<_>::default()
    }
}

pub fn get(kind: &str, project: &str, name: &str) -> hub::GetRequest {
    let name = hub::ResourceName {
        kind: kind.into(),
        project: project.into(),
        name: name.into(),
        ..<_>::default()
    };
    hub::GetRequest { name: Some(name), encoding: hub::Encoding::Json.into(), ..<_>::default() }
}

/// Waits until the server has heard of it.
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = tokio::time::timeout(SOON, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    found.await.unwrap_or_else(|_| panic!("waited in vain until {what}"))
}

#[tokio::test]
async fn a_person_may_do_what_bindings_give_and_nothing_else() {
    let world = world().await;
    world.project("demo").await;
    world.project("other").await;
    secret(&world, "demo", "db").await;
    let ann = certificate(&world, Role::User, "ann", None);
    let commander = Commander::connect(&world.endpoint(Some(ann.clone()))).await.unwrap();
    let mut api = HubClient::new(world.endpoint(Some(ann)).connect().await.unwrap());

    // Without a binding: nothing, by either way, and the answer says what is missing.
    let refused = commander.list(list("workloads", "demo")).await.unwrap_err().to_string();
    assert!(
        refused.contains("user \"ann\" cannot list workloads in project \"demo\""),
        "{refused}"
    );
    let refused = api.list(list("workloads", "demo")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
    assert!(commander.discover().await.is_ok(), "what there is at all is no secret");

    bind(&world, "demo", "viewer", "ann").await;
    until("the binding counts", async || commander.list(list("workloads", "demo")).await.ok())
        .await;
    assert!(api.list(list("workloads", "demo")).await.is_ok());
    for denied in [list("workloads", "other"), list("workloads", ""), list("secrets", "demo")] {
        let refused = commander.list(denied.clone()).await;
        assert!(refused.is_err(), "{denied:?}");
    }
    assert!(commander.get(get("secret", "demo", "db")).await.is_err());
    assert!(commander.get(get("node", "", "edge-1")).await.is_err());

    // An editor reads secrets and writes workloads, and gives nobody access.
    bind(&world, "demo", "editor", "ann").await;
    let shown =
        until("the binding counts", async || commander.get(get("secret", "demo", "db")).await.ok());
    assert!(json_of(shown.await.resource).pointer("/spec/data/password").is_some());
    let apply = |kind: &str, project: &str, spec: Value| {
        let object = json!({
            "apiVersion": "core.orrery.dev/v1", "kind": kind,
            "metadata": { "name": "x", "project": project }, "spec": spec,
        });
        let body = Some(hub::resource::Body::Json(object.to_string()));
        let resource = Some(hub::Resource { body, ..<_>::default() });
        hub::ApplyRequest { resource, encoding: hub::Encoding::Json.into(), ..<_>::default() }
    };
    commander.apply(apply("Secret", "demo", json!({}))).await.expect("an editor writes secrets");
    for (kind, project) in [("Secret", "other"), ("Role", "demo"), ("Project", "")] {
        let spec = if kind == "Role" { json!({ "rules": [] }) } else { json!({}) };
        let refused = commander.apply(apply(kind, project, spec)).await.unwrap_err().to_string();
        assert!(refused.contains("cannot"), "{kind}: {refused}");
    }
}

pub fn json_of(resource: Option<hub::Resource>) -> Value {
    match resource.and_then(|resource| resource.body) {
        Some(hub::resource::Body::Json(text)) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// Who may list secrets but not read them sees which there are, and none of what they hold.
#[tokio::test]
async fn sensitive_values_are_for_those_who_may_get_secrets() {
    let world = world().await;
    world.project("demo").await;
    secret(&world, "demo", "db").await;
    let rule = core::AccessRule {
        verbs: vec!["list".into(), "watch".into()],
        groups: vec!["core".into()],
        resources: vec!["secrets".into()],
        names: vec![],
    };
    let role = core::Role {
        metadata: meta("demo", "lister"),
        spec: Some(core::RoleSpec { rules: vec![rule] }),
        ..<_>::default()
    };
    world.hub.resources().unwrap().create(&role).await.unwrap();
    bind(&world, "demo", "lister", "ann").await;
    let ann = certificate(&world, Role::User, "ann", None);
    let commander = Commander::connect(&world.endpoint(Some(ann))).await.unwrap();
    let page =
        until("the role counts", async || commander.list(list("secrets", "demo")).await.ok()).await;
    let shown = json_of(page.items.into_iter().next());
    assert_eq!(shown.pointer("/metadata/name"), Some(&json!("db")));
    assert_eq!(shown.pointer("/spec/data/password"), None, "{shown}");
    let watch = hub::WatchRequest {
        kind: "secrets".into(),
        project: "demo".into(),
        encoding: hub::Encoding::Json.into(),
        ..<_>::default()
    };
    let event = commander.watch(watch).await.unwrap().next().await.unwrap().unwrap();
    let text = json_of(event.resource).to_string();
    assert!(text.contains("\"db\"") && !text.contains("password"), "{text}");
    assert!(commander.get(get("secret", "demo", "db")).await.is_err());
}

/// A machine's certificate opens what is the machine's, and not its neighbour's.
#[tokio::test]
async fn machines_see_what_is_their_own() {
    let world = world().await;
    for name in ["edge-1", "edge-2"] {
        let node = orrery_proto::infra::v1::Node {
            metadata: meta("", name),
            spec: Some(<_>::default()),
            ..<_>::default()
        };
        world.hub.resources().unwrap().create(&node).await.unwrap();
    }
    // Even one that claims to belong to the administrators.
    let edge = certificate(&world, Role::Agent, "edge-1", Some("orrery:admins"));
    let mut api = HubClient::new(world.endpoint(Some(edge)).connect().await.unwrap());
    assert!(api.get(get("node", "", "edge-1")).await.is_ok());
    for denied in [get("node", "", "edge-2"), get("project", "", "default")] {
        let refused = api.get(denied).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied, "{refused}");
    }
    assert!(api.list(list("nodes", "")).await.is_err());
}

/// A token stands for a person; it ends with its resource, also where a stream is open.
#[tokio::test]
async fn a_token_instead_of_a_certificate() {
    let world = world().await;
    let token = BearerToken::generate("ci");
    let spec = core::AccessTokenSpec {
        user: Some("robot".into()),
        groups: vec!["orrery:admins".into()],
        secret_hash: Some(token.hash().to_string()),
        expires_at: None,
    };
    let resource =
        core::AccessToken { metadata: meta("", "ci"), spec: Some(spec), ..<_>::default() };
    world.hub.resources().unwrap().create(&resource).await.unwrap();
    let authority = world.identities.authorities().current().unwrap().fingerprint();
    let endpoint = Endpoint::pinned(&world.url, authority).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let mut api = HubClient::new(channel.clone());
    let with = |text: &str, message: hub::ListRequest| {
        let mut request = tonic::Request::new(message);
        let value: MetadataValue<_> = format!("Bearer {text}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
        request
    };
    let good = token.to_text();
    until("the token counts", async || api.list(with(&good, list("projects", ""))).await.ok())
        .await;

    let mut me = tonic::Request::new(wire::WhoAmIRequest {});
    me.metadata_mut().insert("authorization", format!("Bearer {}", &*good).parse().unwrap());
    let me = IdentityClient::new(channel).who_am_i(me).await.unwrap().into_inner();
    assert_eq!((me.name.as_str(), me.known_by.as_str()), ("robot", "token"));

    let guessed = BearerToken::generate("ci").to_text();
    let unknown = BearerToken::generate("nobody").to_text();
    let truncated = &good[..good.len() - 4];
    let mut answers = Vec::new();
    for bad in [guessed.as_str(), unknown.as_str(), truncated, "", "garbage"] {
        let refused = api.list(with(bad, list("projects", ""))).await.unwrap_err();
        answers.push((refused.code(), refused.message().to_owned()));
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "all alike, so that nobody learns which it was: {answers:?}");
    assert_eq!(answers[0].0, tonic::Code::Unauthenticated);
    let nothing = api.list(list("projects", "")).await.unwrap_err();
    assert_eq!(nothing.code(), tonic::Code::Unauthenticated, "without any proof");

    let mut request =
        tonic::Request::new(hub::WatchRequest { kind: "projects".into(), ..<_>::default() });
    request.metadata_mut().insert("authorization", format!("Bearer {}", &*good).parse().unwrap());
    let mut events = api.watch(request).await.unwrap().into_inner();
    assert!(events.message().await.unwrap().is_some());
    let tokens = world.hub.resources::<core::AccessToken>().unwrap();
    tokens.delete(&ObjectName::new("", "ci")).await.unwrap();
    let ended =
        tokio::time::timeout(SOON, async { while let Ok(Some(_)) = events.message().await {} });
    assert!(ended.await.is_ok(), "the watch ends with its token");
    assert!(api.list(with(&good, list("projects", ""))).await.is_err());
}

/// A revoked identity is refused at once: no new connection is answered, and open ones end.
#[tokio::test]
async fn a_disabled_identity_is_refused_also_on_open_streams() {
    let world = world().await;
    let eve = certificate(&world, Role::User, "eve", Some("orrery:admins"));
    let ann = certificate(&world, Role::User, "ann", Some("orrery:admins"));
    let agent = certificate(&world, Role::Agent, "edge-1", None);
    let eve_connected = Commander::connect(&world.endpoint(Some(eve.clone()))).await.unwrap();
    let ann_connected = Commander::connect(&world.endpoint(Some(ann))).await.unwrap();
    let request = hub::WatchRequest { kind: "projects".into(), ..<_>::default() };
    let mut events = eve_connected.watch(request).await.unwrap();
    assert!(events.next().await.unwrap().is_some());

    let revoke = async |role: &str, peer: &str| {
        let spec = core::RevocationSpec {
            role: Some(role.into()),
            peer: Some(peer.into()),
            ..<_>::default()
        };
        let resource = core::Revocation {
            metadata: meta("", &format!("{role}-{peer}")),
            spec: Some(spec),
            ..<_>::default()
        };
        world.hub.resources().unwrap().create(&resource).await.unwrap();
    };
    revoke("user", "eve").await;
    revoke("agent", "edge-1").await;
    let ended =
        tokio::time::timeout(SOON, async { while let Ok(Some(_)) = events.next().await {} });
    assert!(ended.await.is_ok(), "the open stream ends");
    until("nobody answers", async || {
        Commander::connect(&world.endpoint(Some(eve.clone()))).await.err()
    })
    .await;
    let renewal = until("the agent is refused", async || {
        let channel = world.endpoint(Some(agent.clone())).connect().await.ok()?;
        IdentityClient::new(channel).trust(wire::TrustRequest {}).await.err()
    });
    renewal.await;
    assert!(ann_connected.discover().await.is_ok(), "nobody else is touched");

    // Enabled again.
    let revocations = world.hub.resources::<core::Revocation>().unwrap();
    revocations.delete(&ObjectName::new("", "user-eve")).await.unwrap();
    until("she is answered", async || {
        Commander::connect(&world.endpoint(Some(eve.clone()))).await.ok()
    })
    .await;
}

/// What people ask about themselves is answered by what decides.
#[tokio::test]
async fn questions_about_oneself() {
    let world = world().await;
    world.project("demo").await;
    bind(&world, "demo", "viewer", "ann").await;
    let ann = certificate(&world, Role::User, "ann", None);
    let channel = world.endpoint(Some(ann)).connect().await.unwrap();
    let mut client = IdentityClient::new(channel);
    let me = client.who_am_i(wire::WhoAmIRequest {}).await.unwrap().into_inner();
    assert_eq!((me.name.as_str(), me.known_by.as_str()), ("ann", "certificate"));
    assert!(me.groups.contains(&"system:authenticated".to_owned()));
    let ask = |verb: &str, resource: &str, project: &str| wire::CanIRequest {
        verb: verb.into(),
        resource: resource.into(),
        project: project.into(),
        ..<_>::default()
    };
    until("the binding counts", async || {
        let answer = client.can_i(ask("get", "wl", "demo")).await.unwrap().into_inner();
        answer.allowed.then_some(())
    })
    .await;
    for (verb, resource, project, expect) in [
        ("list", "workloads", "demo", true),
        ("delete", "workloads", "demo", false),
        ("get", "workloads", "other", false),
        ("get", "secrets", "demo", false),
        ("get", "nodes", "demo", false),
        ("get", "unheard-of", "demo", false),
    ] {
        let answer = client.can_i(ask(verb, resource, project)).await.unwrap().into_inner();
        assert_eq!(answer.allowed, expect, "{verb} {resource} {project}: {}", answer.reason);
    }
    let all = client.can_i(ask("", "", "demo")).await.unwrap().into_inner();
    assert_eq!(all.permissions.len(), 2, "{all:?}");
}
