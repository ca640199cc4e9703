//! The contract between host and provider.
use super::process::without_a_host;
use super::schema::type_of;
use super::{Certificate, Host};
use crate::server::get;
use orrery_pki::{ADMINS, BearerToken, IssueRequest, Role, TlsFiles};
use orrery_terraform::value::{Type, Value, decode, encode, read_state};
use orrery_terraform::wire::tfplugin6 as wire;
use orrery_terraform::wire::tfplugin6::provider_client::ProviderClient;
use orrery_testkit::agent::FakeAgent;
use orrery_testkit::world::{SOON, World, WorldOptions};
use serde_json::{Value as Json, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;
use tonic::transport::Channel;

/// proves: HUB-19
#[tokio::test]
async fn whoever_starts_it_by_hand_is_told_what_it_is() {
    let (status, said) = without_a_host().await;
    assert!(!status.success());
    assert!(
        said.contains("Terraform starts it by itself") && said.contains("dev_overrides"),
        "{said}"
    );
}

/// proves: HUB-19
#[tokio::test]
async fn only_the_host_that_started_it_is_let_in() {
    let host = Host::start().await;
    let mut provider = host.provider().await;
    let metadata = provider.get_metadata(wire::MetadataRequest {}).await.unwrap().into_inner();
    assert!(metadata.resources.iter().any(|name| name.type_name == "orrery_workload"));

    let stranger = Certificate::make();
    for other in [stranger.clone(), host.certificate.with_key_of(&stranger)] {
        let refused = match host.connect_as(&other).await {
            Err(_) => true,
            // In TLS 1.3 a client learns of it with its first request.
            Ok(channel) => {
                ProviderClient::new(channel).get_metadata(wire::MetadataRequest {}).await.is_err()
            }
        };
        assert!(refused);
    }
    let mut plain = host.connect_plain().await;
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let ended = timeout(SOON, plain.read_to_end(&mut answer)).await.expect("it is closed");
    assert!(ended.is_err() || answer.first() == Some(&21), "an alert at most: {answer:?}");

    provider.get_metadata(wire::MetadataRequest {}).await.expect("the host is still served");
    let (status, said) = host.shut_down().await;
    assert!(status.success(), "{said}");
}

/// A host that was killed cannot ask the provider to end.
#[tokio::test]
async fn a_provider_ends_with_its_host() {
    let socket = Host::killed().await;
    timeout(SOON, async {
        while socket.exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .expect("it ends, and takes its socket along");
}

/// A resource type, and how the host speaks of it.
struct Resources {
    provider: ProviderClient<Channel>,
    name: &'static str,
    r#type: Type,
}

/// What a plan said.
struct Plan {
    state: Value,
    replaces: Vec<wire::AttributePath>,
    private: Vec<u8>,
}

fn wired(value: &Value) -> Option<wire::DynamicValue> {
    Some(wire::DynamicValue { msgpack: encode(value), json: Vec::new() })
}

impl Resources {
    async fn configured(host: &Host, world: &World, name: &'static str) -> Self {
        Self::configured_with(host, &json!({"server": world.url}), name).await
    }

    async fn configured_with(host: &Host, config: &Json, name: &'static str) -> Self {
        let mut provider = host.provider().await;
        let schemas =
            provider.get_provider_schema(wire::SchemaRequest {}).await.unwrap().into_inner();
        let own = type_of(&schemas.provider.unwrap());
        let config = read_state(config, &own).unwrap();
        let request = wire::ConfigureRequest { config: wired(&config), ..<_>::default() };
        let answer = provider.configure_provider(request).await.unwrap().into_inner();
        assert_eq!(answer.diagnostics, []);
        Self { provider, name, r#type: type_of(&schemas.resource_schemas[name]) }
    }

    fn value(&self, json: &Json) -> Value {
        read_state(json, &self.r#type).unwrap()
    }

    fn read(&self, value: Option<wire::DynamicValue>) -> Value {
        decode(&value.expect("a value").msgpack, &self.r#type).expect("a value of its type")
    }

    async fn check(&mut self, config: &Value) -> Vec<wire::Diagnostic> {
        let request = wire::CheckRequest { type_name: self.name.into(), config: wired(config) };
        self.provider.validate_resource_config(request).await.unwrap().into_inner().diagnostics
    }

    async fn plan(&mut self, prior: &Value, private: &[u8], config: &Value) -> Plan {
        let request = wire::PlanRequest {
            type_name: self.name.into(),
            prior_state: wired(prior),
            proposed_new_state: wired(config),
            config: wired(config),
            prior_private: private.to_vec(),
        };
        let answer = self.provider.plan_resource_change(request).await.unwrap().into_inner();
        assert_eq!(answer.diagnostics, []);
        let state = self.read(answer.planned_state);
        Plan { state, replaces: answer.requires_replace, private: answer.planned_private }
    }

    async fn apply(
        &mut self,
        prior: &Value,
        plan: &Plan,
        config: &Value,
    ) -> (Value, Vec<u8>, Vec<wire::Diagnostic>) {
        let request = wire::ApplyRequest {
            type_name: self.name.into(),
            prior_state: wired(prior),
            planned_state: wired(&plan.state),
            config: wired(config),
            planned_private: plan.private.clone(),
        };
        let answer = self.provider.apply_resource_change(request).await.unwrap().into_inner();
        let state = self.read(answer.new_state);
        assert!(!state.has_unknowns(), "an apply leaves nothing unknown: {state:?}");
        (state, answer.private, answer.diagnostics)
    }

    async fn refresh(&mut self, state: &Value, private: &[u8]) -> Value {
        let request = wire::ReadRequest {
            type_name: self.name.into(),
            current_state: wired(state),
            private: private.to_vec(),
        };
        let answer = self.provider.read_resource(request).await.unwrap().into_inner();
        assert_eq!(answer.diagnostics, []);
        self.read(answer.new_state)
    }
}

/// Whether a state keeps what was known in a plan.
#[track_caller]
fn keeps(planned: &Value, state: &Value) {
    match (planned, state) {
        (Value::Unknown(_), _) => {}
        (Value::Map(planned), Value::Map(state)) => {
            assert!(planned.keys().eq(state.keys()));
            planned.iter().for_each(|(name, value)| keeps(value, &state[name]));
        }
        (planned, state) => assert_eq!(planned, state),
    }
}

fn web(args: Json, wait: bool) -> Json {
    json!({
        "metadata": {"name": "web"},
        "spec": {"process": {"command": "sleep", "args": args}, "placement": {"nodes": ["n1"]}},
        "wait_for_ready": wait,
    })
}

/// proves: HUB-19
#[tokio::test]
async fn plans_are_kept_by_applies() {
    let world = World::start().await;
    world.project("default").await;
    let host = Host::start().await;
    let mut workloads = Resources::configured(&host, &world, "orrery_workload").await;
    let config = workloads.value(&web(json!(["1"]), false));
    assert_eq!(workloads.check(&config).await, []);

    let created = workloads.plan(&Value::Null, &[], &config).await;
    assert!(created.state.at(&["metadata", "uid"]).is_unknown());
    assert_eq!(created.state.at(&["metadata", "project"]), &Value::text("default"));
    assert_eq!(created.state.at(&["spec", "restart_policy"]), &Value::text("always"));
    let (state, private, trouble) = workloads.apply(&Value::Null, &created, &config).await;
    assert_eq!(trouble, []);
    keeps(&created.state, &state);

    let refreshed = workloads.refresh(&state, &private).await;
    let again = workloads.plan(&refreshed, &private, &config).await;
    assert_eq!(again.state, refreshed, "nothing is left to do");

    let changed = workloads.value(&web(json!(["2"]), false));
    let plan = workloads.plan(&refreshed, &private, &changed).await;
    assert!(plan.replaces.is_empty() && plan.state.get("status").is_unknown());
    assert_eq!(plan.state.at(&["metadata", "uid"]), state.at(&["metadata", "uid"]));
    let (state, private, trouble) = workloads.apply(&refreshed, &plan, &changed).await;
    assert_eq!(trouble, []);
    keeps(&plan.state, &state);

    let gone = Plan { state: Value::Null, replaces: Vec::new(), private };
    let (state, private, trouble) = workloads.apply(&state, &gone, &Value::Null).await;
    assert_eq!((state, trouble), (Value::Null, Vec::new()));
    let before = refreshed;
    assert_eq!(workloads.refresh(&before, &private).await, Value::Null, "what is gone is null");
}

/// What the host knows of an unknown value comes back as it was.
#[tokio::test]
async fn unknown_values_are_planned_as_they_are() {
    let world = World::start().await;
    let host = Host::start().await;
    let mut workloads = Resources::configured(&host, &world, "orrery_workload").await;
    let mut config = workloads.value(&web(json!(null), false));
    // A refinement of the host's: an extension of type 12, which says that it is not null.
    let refined = decode(&[0xc7, 3, 12, 0x81, 0x01, 0xc2], &Type::String).unwrap();
    let Value::Map(root) = &mut config else { panic!("an object") };
    let Some(Value::Map(metadata)) = root.get_mut("metadata") else { panic!("an object") };
    metadata.insert("name".into(), refined.clone());
    metadata.insert("project".into(), Value::UNKNOWN);
    assert_eq!(workloads.check(&config).await, []);
    let plan = workloads.plan(&Value::Null, &[], &config).await;
    assert_eq!(plan.state.at(&["metadata", "name"]), &refined);
    assert_eq!(plan.state.at(&["metadata", "project"]), &Value::UNKNOWN);
}

/// An interrupt of the person ends a wait, and what was made stays known.
///
/// proves: HUB-19
#[tokio::test]
async fn a_wait_is_ended_by_the_host() {
    let world = World::start().await;
    world.project("default").await;
    let host = Host::start().await;
    let mut workloads = Resources::configured(&host, &world, "orrery_workload").await;
    let config = workloads.value(&web(json!(["1"]), true));
    let plan = workloads.plan(&Value::Null, &[], &config).await;
    let mut provider = workloads.provider.clone();
    let stopping = async {
        // Nobody runs it: it waits until it is stopped.
        while get(&world, "Workload", "web").await.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        provider.stop_provider(wire::StopRequest {}).await.unwrap();
    };
    let (applied, ()) = tokio::join!(workloads.apply(&Value::Null, &plan, &config), stopping);
    let (state, _, trouble) = applied;
    assert!(trouble[0].detail.contains("interrupted"), "{trouble:?}");
    keeps(&plan.state, &state);
}

/// proves: HUB-19
#[tokio::test]
async fn an_apply_ends_when_the_resource_is_ready() {
    let world = World::start().await;
    world.project("default").await;
    let mut agent = FakeAgent::connect(&world.endpoint(None), "n1").await.unwrap();
    let host = Host::start().await;
    let mut workloads = Resources::configured(&host, &world, "orrery_workload").await;
    let config = workloads.value(&web(json!(["1"]), true));
    let plan = workloads.plan(&Value::Null, &[], &config).await;
    let running = async {
        let copy = agent.assignment().await;
        agent.report(&copy.id, "Running", copy.generation).await;
    };
    let (applied, ()) = tokio::join!(workloads.apply(&Value::Null, &plan, &config), running);
    let (state, _, trouble) = applied;
    assert_eq!(trouble, []);
    assert_eq!(state.at(&["status", "state"]), &Value::text("Running"));
}

/// proves: HUB-19
#[tokio::test]
async fn a_wait_goes_on_when_the_server_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let world = World::start_at(([127, 0, 0, 1], 0).into(), &store).await;
    world.project("default").await;
    let address = world.url.trim_start_matches("http://").parse().unwrap();
    let host = Host::start().await;
    let mut workloads = Resources::configured(&host, &world, "orrery_workload").await;
    let config = workloads.value(&web(json!(["1"]), true));
    let plan = workloads.plan(&Value::Null, &[], &config).await;
    let restarting = async {
        while get(&world, "Workload", "web").await.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        world.stop().await;
        let world = World::start_at(address, &store).await;
        let mut agent = FakeAgent::connect(&world.endpoint(None), "n1").await.unwrap();
        let copy = agent.assignment().await;
        agent.report(&copy.id, "Running", copy.generation).await;
        (world, agent)
    };
    let (applied, _kept) = tokio::join!(workloads.apply(&Value::Null, &plan, &config), restarting);
    let (state, _, trouble) = applied;
    assert_eq!(trouble, []);
    assert_eq!(state.at(&["status", "state"]), &Value::text("Running"));
}

/// With a certificate and with a token; without either it is refused.
///
/// proves: HUB-19
#[tokio::test]
async fn servers_with_tls_are_shown_who_asks() {
    let mut options = WorldOptions::default();
    options.identity.own = true;
    let world = World::start_with(options).await;
    let folder = tempfile::tempdir().unwrap();
    let files = TlsFiles::in_folder(folder.path());
    let request = IssueRequest::new(Role::User, "robot").group(ADMINS);
    let issued = world.identities.issue(&request, Duration::from_secs(3600)).unwrap();
    files.write(issued.root_pem(), issued.certificate_pem(), Some(issued.key_pem())).unwrap();
    let [root, certificate, key] = [files.root, files.certificate, files.key].map(Option::unwrap);

    let token = BearerToken::generate("robot");
    let projects = json!({
        "server": world.url, "root": root, "certificate": certificate, "key": key,
    });
    let host = Host::start().await;
    let mut tokens = Resources::configured_with(&host, &projects, "orrery_access_token").await;
    let spec =
        json!({"user": "robot", "groups": [ADMINS], "secret_hash": token.hash().to_string()});
    let config = tokens.value(&json!({"metadata": {"name": "robot"}, "spec": spec}));
    let plan = tokens.plan(&Value::Null, &[], &config).await;
    let (state, private, trouble) = tokens.apply(&Value::Null, &plan, &config).await;
    assert_eq!(trouble, []);

    let other = Host::start().await;
    let shown = json!({"server": world.url, "root": root, "token": &*token.to_text()});
    let mut shown = Resources::configured_with(&other, &shown, "orrery_access_token").await;
    assert_eq!(shown.refresh(&state, &private).await.get("id"), &Value::text("robot"));

    let third = Host::start().await;
    let nobody = json!({"server": world.url, "root": root, "token": "nobody.at-all"});
    let mut nobody = Resources::configured_with(&third, &nobody, "orrery_access_token").await;
    let request = wire::ReadRequest {
        type_name: nobody.name.into(),
        current_state: wired(&state),
        private: Vec::new(),
    };
    let answer = nobody.provider.read_resource(request).await.unwrap().into_inner();
    assert!(answer.diagnostics[0].detail.contains("refused"), "{:?}", answer.diagnostics);
    assert_eq!(nobody.read(answer.new_state), state, "what cannot be read is not forgotten");
}

/// State of another provider of the same types is taken over; a kind never becomes another.
#[tokio::test]
async fn states_are_upgraded_and_moved() {
    let world = World::start().await;
    let host = Host::start().await;
    let mut workloads = Resources::configured(&host, &world, "orrery_workload").await;
    let raw = json!({"metadata": {"name": "web"}, "gone_since": true}).to_string().into_bytes();
    let raw = Some(wire::RawState { json: raw, ..<_>::default() });
    let request = wire::UpgradeRequest {
        type_name: workloads.name.into(),
        version: 0,
        raw_state: raw.clone(),
    };
    let answer = workloads.provider.upgrade_resource_state(request).await.unwrap().into_inner();
    assert_eq!(
        workloads.read(answer.upgraded_state).at(&["metadata", "name"]),
        &Value::text("web")
    );
    let move_from = |name: &str| wire::MoveRequest {
        source_type_name: name.to_owned(),
        target_type_name: "orrery_workload".to_owned(),
        source_state: raw.clone(),
        ..<_>::default()
    };
    let answer =
        workloads.provider.move_resource_state(move_from("orrery_workload")).await.unwrap();
    assert_eq!(answer.into_inner().diagnostics, []);
    let answer = workloads.provider.move_resource_state(move_from("orrery_volume")).await.unwrap();
    assert!(answer.into_inner().diagnostics[0].detail.contains("different kinds"));
    let broken = wire::UpgradeRequest {
        type_name: workloads.name.into(),
        raw_state: Some(wire::RawState { json: b"{\"spec\": 5}".to_vec(), ..<_>::default() }),
        version: 0,
    };
    let answer = workloads.provider.upgrade_resource_state(broken).await.unwrap().into_inner();
    assert!(answer.diagnostics[0].detail.contains("state.spec"), "{:?}", answer.diagnostics);
}
