//! The Azure provider against a server that follows the published interface of the Resource Manager:
//! its login, its machines, its scale sets with pages, and its way of saying "not so fast".
use crate::wait::until;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use orrery_mesh::address::Port;
use orrery_mesh::announce::{Announcements, Announcer};
use orrery_mesh::names::ServiceName;
use orrery_mesh::providers::EndpointsProvider as _;
use orrery_mesh::providers::azure::{AzureProvider, Binding, Bindings, Credentials, Manager};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

const GROUP: &str = "/subscriptions/e3f0/resourceGroups/mesh-rg/providers";

/// A cloud in this process.
struct Cloud {
    url: String,
    state: Arc<Mutex<Inside>>,
    _serving: JoinSet<()>,
}

#[derive(Default)]
struct Inside {
    url: String,
    /// By path.
    resources: BTreeMap<String, Value>,
    logins: usize,
    /// Everything that was asked with a token that counts.
    asked: Vec<String>,
    /// Answers in the place of the next one.
    instead: Option<(StatusCode, Option<&'static str>)>,
}

impl Cloud {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind to a free port");
        let url = format!("http://{}", listener.local_addr().expect("a bound address"));
        let state = Arc::new(Mutex::new(Inside { url: url.clone(), ..Inside::default() }));
        let router = Router::new().fallback(answer).with_state(state.clone());
        let mut serving = JoinSet::new();
        serving.spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { url, state, _serving: serving }
    }

    fn put(&self, path: &str, value: Value) {
        self.state.lock().resources.insert(path.to_owned(), value);
    }

    /// A machine with two interfaces, of which one is the primary.
    fn put_machine(&self, name: &str, ip: &str) {
        let interface =
            |kind: &str| format!("{GROUP}/Microsoft.Network/networkInterfaces/{name}-{kind}");
        self.put(
            &format!("{GROUP}/Microsoft.Compute/virtualMachines/{name}"),
            json!({"properties": {"instanceView": state("running"), "networkProfile": {"networkInterfaces": [
                {"id": interface("second"), "properties": {"primary": false}},
                {"id": interface("first"), "properties": {"primary": true}},
            ]}}}),
        );
        self.put(&interface("first"), interface_of(ip, true));
        self.put(&interface("second"), interface_of("10.9.9.9", false));
    }

    fn provider(&self, secret: &str, uris: &[String]) -> Arc<AzureProvider> {
        let credentials: Credentials = serde_json::from_value(json!({
            "tenantId": "t-1", "clientId": "c-1", "clientSecret": secret,
            "resourceManager": self.url, "login": self.url,
        }))
        .expect("credentials");
        assert!(!format!("{credentials:?}").contains(secret), "secrets are not shown");
        let bindings = Arc::new(Fixed { uris: uris.to_vec(), announcer: Announcer::default() });
        AzureProvider::new("one", Manager::new(credentials), bindings)
    }
}

fn state(power: &str) -> Value {
    json!({"statuses": [
        {"code": "ProvisioningState/succeeded", "level": "Info"},
        {"code": format!("PowerState/{power}"), "level": "Info"},
    ]})
}

/// A machine of a scale set in a list of machines.
fn member(id: &str, power: &str) -> Value {
    json!({"id": id, "properties": {"instanceView": state(power)}})
}

/// Its interface in a list of interfaces; the Resource Manager spells ids in several ways.
fn interface_in(machine: &str, ip: &str, primary: bool) -> Value {
    let mut interface = interface_of(ip, primary);
    interface["properties"]["virtualMachine"] = json!({"id": machine.to_uppercase()});
    interface
}

fn interface_of(ip: &str, primary: bool) -> Value {
    json!({"properties": {"primary": primary, "ipConfigurations": [
        {"properties": {"privateIPAddress": "10.8.8.8", "primary": false}},
        {"properties": {"privateIPAddress": ip, "primary": true}},
    ]}})
}

async fn answer(State(state): State<Arc<Mutex<Inside>>>, request: Request<Body>) -> Response {
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().map(str::to_owned));
    let bearer = request.headers().get(header::AUTHORIZATION).cloned();
    let body = axum::body::to_bytes(request.into_body(), 1 << 16).await.expect("a small body");
    let mut inside = state.lock();
    if path == "/t-1/oauth2/v2.0/token" {
        inside.logins += 1;
        return login(&inside.url, &body);
    }
    if let Some((status, wait)) = inside.instead.take() {
        let wait = wait.map(|wait| [(header::RETRY_AFTER, wait)]);
        return match wait {
            Some(wait) => (status, wait).into_response(),
            None => status.into_response(),
        };
    }
    if bearer.is_none_or(|bearer| bearer != "Bearer token-1") {
        return (StatusCode::UNAUTHORIZED, json!({"error": {"message": "who?"}}).to_string())
            .into_response();
    }
    let query = query.unwrap_or_default();
    assert!(query.contains("api-version="), "{path} needs a version");
    inside.asked.push(format!("{path}?{query}"));
    match inside.resources.get(&path) {
        Some(value) => value.to_string().into_response(),
        None => {
            let gone = json!({"error": {"code": "ResourceNotFound", "message": "it is not there"}});
            (StatusCode::NOT_FOUND, gone.to_string()).into_response()
        }
    }
}

fn login(url: &str, body: &[u8]) -> Response {
    let form = String::from_utf8(body.to_vec()).expect("a form");
    let scope = url.replace(':', "%3A").replace('/', "%2F");
    let wanted = [
        "grant_type=client_credentials".to_owned(),
        "client_id=c-1".to_owned(),
        "client_secret=right+%26+proper".to_owned(),
        format!("scope={scope}%2F.default"),
    ];
    if wanted.iter().all(|part| form.split('&').any(|one| one == part)) {
        return json!({"token_type": "Bearer", "access_token": "token-1", "expires_in": 3600})
            .to_string()
            .into_response();
    }
    let wrong = json!({"error": "invalid_client", "error_description": "the secret is wrong"});
    (StatusCode::UNAUTHORIZED, wrong.to_string()).into_response()
}

struct Fixed {
    uris: Vec<String>,
    announcer: Announcer<ServiceName>,
}

impl Bindings for Fixed {
    fn of(&self, provider: &str, service: &ServiceName) -> Vec<Binding> {
        assert_eq!(provider, "one");
        let port = Port::new(8080).expect("a port");
        let is_bound = service.name() == "books";
        is_bound
            .then(|| Binding { resource_uris: self.uris.clone(), port, name: None })
            .into_iter()
            .collect()
    }

    fn services(&self) -> BTreeSet<ServiceName> {
        [books()].into()
    }

    fn announcements(&self) -> Announcements<ServiceName> {
        self.announcer.listen()
    }
}

fn books() -> ServiceName {
    "shop/books".parse().expect("a name")
}

const SECRET: &str = "right & proper";

fn vm(name: &str) -> String {
    format!("{GROUP}/Microsoft.Compute/virtualMachines/{name}")
}

async fn listed(provider: &AzureProvider) -> Result<Vec<String>, String> {
    let found = provider.list_endpoints(&books()).await.map_err(|error| error.reason)?;
    Ok(found.iter().map(|one| one.endpoint.to_string()).collect())
}

/// proves: MSH-05
#[tokio::test]
async fn machines_and_scale_sets_become_addresses() {
    let cloud = Cloud::start().await;
    cloud.put_machine("one", "10.0.0.4");
    cloud.put_machine("off", "10.0.0.5");
    cloud.state.lock().resources.get_mut(&vm("off")).expect("it is there")["properties"]["instanceView"] =
        state("deallocated");
    let set = format!("{GROUP}/Microsoft.Compute/virtualMachineScaleSets/baz");
    cloud.put(&set, json!({"properties": {"orchestrationMode": "Uniform"}}));
    let member_id = |number: u8| format!("{set}/virtualMachines/{number}");
    cloud.put(
        &format!("{set}/virtualMachines"),
        json!({"value": [
            member(&member_id(0), "running"), member(&member_id(1), "running"),
            member(&member_id(2), "stopped"),
        ]}),
    );
    let interfaces = format!("{set}/networkInterfaces");
    cloud.put(
        &interfaces,
        json!({
            "value": [
                interface_in(&member_id(0), "10.0.1.1", true),
                interface_in(&member_id(0), "10.0.1.9", false),
                interface_in(&member_id(2), "10.0.1.3", true),
            ],
            "nextLink": format!("{}{interfaces}/page-2?api-version=2018-10-01", cloud.url),
        }),
    );
    let second = json!({"value": [interface_in(&member_id(1), "10.0.1.2", true)], "nextLink": ""});
    cloud.put(&format!("{interfaces}/page-2"), second);
    let provider = cloud.provider(SECRET, &[vm("one"), vm("off"), vm("gone"), set]);
    let expect = ["10.0.0.4:8080", "10.0.1.1:8080", "10.0.1.2:8080"];
    assert_eq!(listed(&provider).await.expect("listed"), expect);
    let other = provider.list_endpoints(&"shop/other".parse().expect("a name")).await;
    assert_eq!(other, Ok(vec![]), "an unknown service has no endpoints");
    listed(&provider).await.expect("listed");
    assert_eq!(cloud.state.lock().logins, 1, "one token serves many questions");
}

/// Machines of a flexible scale set are ordinary machines of its resource group.
///
/// proves: MSH-05
#[tokio::test]
async fn flexible_scale_sets_become_addresses() {
    let cloud = Cloud::start().await;
    let set = format!("{GROUP}/Microsoft.Compute/virtualMachineScaleSets/flex");
    cloud.put(&set, json!({"properties": {"orchestrationMode": "Flexible"}}));
    let machines = format!("{GROUP}/Microsoft.Compute/virtualMachines");
    cloud.put(
        &machines,
        json!({
            "value": [member(&vm("flex_1"), "running"), member(&vm("flex_2"), "deallocating")],
            "nextLink": format!("{}{machines}/page-2?api-version=2024-07-01", cloud.url),
        }),
    );
    cloud.put(&format!("{machines}/page-2"), json!({"value": [member(&vm("flex_3"), "running")]}));
    cloud.put(
        &format!("{GROUP}/Microsoft.Network/networkInterfaces"),
        json!({"value": [
            interface_in(&vm("flex_1"), "10.0.2.1", true), interface_in(&vm("flex_2"), "10.0.2.2", true),
            interface_in(&vm("flex_3"), "10.0.2.3", true), interface_in(&vm("other"), "10.0.2.4", true),
            interface_of("10.0.2.5", true),
        ]}),
    );
    let provider = cloud.provider(SECRET, std::slice::from_ref(&set));
    assert_eq!(listed(&provider).await.expect("listed"), ["10.0.2.1:8080", "10.0.2.3:8080"]);
    let asked = cloud.state.lock().asked.clone();
    let filter = format!("'virtualMachineScaleSet/id' eq '{set}'");
    let filter = filter.replace('\'', "%27").replace('/', "%2F").replace(' ', "%20");
    let wanted =
        format!("{machines}?api-version=2024-07-01&%24filter={filter}&%24expand=instanceView");
    assert!(asked.contains(&wanted), "{wanted} in {asked:#?}");
    cloud.state.lock().resources.remove(&set);
    assert_eq!(listed(&provider).await.expect("listed"), [""; 0], "a set that is gone has none");
}

#[tokio::test]
async fn failures_say_what_they_are_and_a_throttled_subscription_is_left_alone() {
    let cloud = Cloud::start().await;
    cloud.put_machine("one", "10.0.0.4");
    let wrong = cloud.provider("wrong", &[vm("one")]);
    let error = listed(&wrong).await.expect_err("no token");
    assert!(error.contains("the secret is wrong") && !error.contains("client_secret"), "{error}");

    let odd = cloud.provider(SECRET, &["/subscriptions/e3f0/resourceGroups/x".to_owned()]);
    let error = listed(&odd).await.expect_err("no machine");
    assert!(error.contains("neither a virtual machine nor a scale set"), "{error}");

    let provider = cloud.provider(SECRET, &[vm("one")]);
    cloud.state.lock().instead = Some((StatusCode::TOO_MANY_REQUESTS, Some("1")));
    let error = listed(&provider).await.expect_err("throttled");
    assert!(error.contains("429") && error.contains("after 1s"), "{error}");
    let error = listed(&provider).await.expect_err("still waiting");
    assert!(error.contains("asked to wait"), "{error}");
    until("the wait is over", async || listed(&provider).await.is_ok()).await;

    // A token that was withdrawn is fetched anew, and the question asked again.
    let logins = cloud.state.lock().logins;
    cloud.state.lock().instead = Some((StatusCode::UNAUTHORIZED, None));
    assert_eq!(listed(&provider).await.expect("again"), ["10.0.0.4:8080"]);
    assert_eq!(cloud.state.lock().logins, logins + 1);

    let set = format!("{GROUP}/Microsoft.Compute/virtualMachineScaleSets/evil");
    cloud.put(&set, json!({"properties": {}}));
    let page = json!({"value": [], "nextLink": "https://evil.example.org/steal"});
    cloud.put(&format!("{set}/virtualMachines"), page);
    let error = listed(&cloud.provider(SECRET, &[set])).await.expect_err("not followed");
    assert!(error.contains("not the Resource Manager"), "{error}");
}

#[tokio::test]
async fn a_changed_resource_is_announced() {
    let cloud = Cloud::start().await;
    let announcer = Announcer::default();
    let bindings = Arc::new(Fixed { uris: vec![], announcer: announcer.clone() });
    let credentials =
        json!({"tenantId": "t", "clientId": "c", "clientSecret": "s", "login": cloud.url});
    let manager = Manager::new(serde_json::from_value(credentials).expect("credentials"));
    let provider = AzureProvider::new("one", manager, bindings);
    let mut heard = provider.announcements();
    let stop = CancellationToken::new();
    let running = tokio::spawn(provider.run(stop.clone()));
    until("it listens and passes on", async || {
        announcer.announce([books()]);
        tokio::task::yield_now().await;
        !heard.take().is_empty()
    })
    .await;
    stop.cancel();
    running.await.expect("it ends");
}
