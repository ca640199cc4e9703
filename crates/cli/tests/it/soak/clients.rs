//! Those who write and read, on whichever server answers.
use super::World;
use super::history::{Call, Outcome, Question, Seen};
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::hub::v1::{ApplyRequest, Encoding, GetRequest, Resource, ResourceName, resource};
use rand::{Rng as _, SeedableRng as _, rngs::StdRng};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

pub const CLIENTS: usize = 6;
/// No controller touches it, and nothing in it is mandatory.
pub const KIND: &str = "Role";
/// What the names of the objects that clients write begin with.
pub const PREFIX: &str = "soak-";
pub const PROJECT: &str = "default";
const KEYS: usize = 4;

/// A server that was killed does not answer; one that waits for etcd answers late.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts while nobody answers.
const PAUSE: Duration = Duration::from_millis(50);
/// How often a client writes or reads; the checker looks at every call.
const PACE: Duration = Duration::from_millis(15);
/// How long everything may take to be told once the killing is over.
const END: Duration = Duration::from_secs(60);

/// A client of one server; `None` while that one is away.
pub async fn connect(world: &World, number: usize) -> Option<HubClient<Channel>> {
    let endpoint = Endpoint::from_shared(world.servers.url(number)).ok()?;
    let endpoint = endpoint.connect_timeout(PATIENCE).timeout(PATIENCE);
    endpoint.connect().await.ok().map(HubClient::new)
}

/// Waits until both servers answer.
pub async fn prepare(world: &World) {
    for number in 0..2 {
        until("a server answers", || async { connect(world, number).await }).await;
    }
}

async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let look = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let found = tokio::time::timeout(END, look).await;
    found.unwrap_or_else(|_| panic!("waited in vain until {what}"))
}

/// One client: reads, and writes at what it has read, until it is over.
pub async fn run(world: Arc<World>, number: usize) {
    let mut rng = StdRng::seed_from_u64(100 + number as u64);
    let mut known: BTreeMap<usize, Seen> = BTreeMap::new();
    let mut value = number as u64;
    let mut server = number;
    let mut client = None;
    while !world.over.is_cancelled() {
        tokio::time::sleep(PACE).await;
        let Some(mut connected) = client.take() else {
            server += 1;
            client = connect(&world, server).await;
            continue;
        };
        let key = rng.random_range(0..KEYS);
        value += CLIENTS as u64;
        let question = match (rng.random_range(0..10), known.get(&key)) {
            (0..4, _) => Question::Get,
            (4..6, _) | (_, None) => Question::Create { value },
            (6, Some(_)) => Question::Write { value },
            (_, Some(seen)) => Question::WriteAt { value, at: seen.revision },
        };
        let start = world.clock.fetch_add(1, Ordering::SeqCst);
        let outcome = ask(&mut connected, key, question).await;
        let end = world.clock.fetch_add(1, Ordering::SeqCst);
        match outcome {
            Outcome::Got(Some(seen)) => drop(known.insert(key, seen)),
            Outcome::Committed(revision) => {
                known.insert(key, Seen { value: question.value().unwrap_or_default(), revision });
            }
            Outcome::Got(None) | Outcome::Refused | Outcome::Unknown => {}
        }
        if outcome != Outcome::Unknown {
            client = Some(connected);
        }
        world.calls.lock().await.push(Call { key: name_of(key), question, outcome, start, end });
    }
}

fn name_of(key: usize) -> String {
    format!("{PREFIX}{key}")
}

async fn ask(client: &mut HubClient<Channel>, key: usize, question: Question) -> Outcome {
    let (mode, value, at) = match question {
        Question::Get => return read(client, key).await,
        Question::Create { value } => (Mode::Create, value, String::new()),
        Question::Write { value } => (Mode::Replace, value, String::new()),
        Question::WriteAt { value, at } => (Mode::Replace, value, at.to_string()),
    };
    let json = format!(
        r#"{{"apiVersion":"core.orrery.dev/v1","kind":"{KIND}","metadata":{{"name":"{}","project":"{PROJECT}","resourceVersion":"{at}","annotations":{{"value":"{value}"}}}}}}"#,
        name_of(key)
    );
    match client.apply(request(json, mode)).await {
        Ok(answer) => {
            let seen = answer.into_inner().resource.as_ref().map(seen);
            Outcome::Committed(seen.expect("an answer holds the object").revision)
        }
        Err(status) => refusal(&status),
    }
}

fn request(json: String, mode: Mode) -> ApplyRequest {
    let resource = Resource { body: Some(resource::Body::Json(json)), ..Resource::default() };
    ApplyRequest {
        resource: Some(resource),
        encoding: Encoding::Json.into(),
        mode: mode.into(),
        ..ApplyRequest::default()
    }
}

async fn read(client: &mut HubClient<Channel>, key: usize) -> Outcome {
    let name = ResourceName {
        kind: KIND.into(),
        project: PROJECT.into(),
        name: name_of(key),
        ..ResourceName::default()
    };
    let request =
        GetRequest { name: Some(name), encoding: Encoding::Json.into(), ..<_>::default() };
    match client.get(request).await {
        Ok(answer) => Outcome::Got(answer.into_inner().resource.as_ref().map(seen)),
        Err(status) if status.code() == Code::NotFound => Outcome::Got(None),
        Err(status) => match refusal(&status) {
            Outcome::Unknown => Outcome::Unknown,
            other => panic!("a read is not refused: {other:?} {status}"),
        },
    }
}

/// What an error says about the write. Whether it has happened is unknown where nobody answered.
fn refusal(status: &Status) -> Outcome {
    match status.code() {
        Code::AlreadyExists | Code::Aborted | Code::NotFound => Outcome::Refused,
        Code::Unavailable
        | Code::Unknown
        | Code::Cancelled
        | Code::DeadlineExceeded
        | Code::Internal => Outcome::Unknown,
        _ => panic!("nobody expects {status:?}"),
    }
}

/// What an object in JSON says.
pub fn seen(resource: &Resource) -> Seen {
    let Some(resource::Body::Json(text)) = &resource.body else { panic!("JSON was asked for") };
    let value: serde_json::Value = serde_json::from_str(text).expect("JSON was asked for");
    let number = |text: &serde_json::Value| text.as_str().and_then(|text| text.parse().ok());
    let meta = &value["metadata"];
    Seen {
        value: number(&meta["annotations"]["value"]).unwrap_or_default(),
        revision: number(&meta["resourceVersion"]).expect("an object has a revision"),
    }
}

/// Declares workloads that are placed on a node that nobody is, so that the leader makes one
/// instance of each and nothing else happens to it. Answers their names.
pub async fn declare_workloads(world: Arc<World>) -> Vec<String> {
    let mut declared = Vec::new();
    while !world.over.is_cancelled() {
        let name = format!("workload-{}", declared.len());
        let json = format!(
            r#"{{"apiVersion":"apps.orrery.dev/v1","kind":"Workload","metadata":{{"name":"{name}","project":"{PROJECT}"}},"spec":{{"process":{{"command":"/bin/true"}},"placement":{{"nodes":["nobody"]}}}}}}"#
        );
        // Applying twice is as good as once, so it is repeated until someone answers.
        let mut server = declared.len();
        until("a workload can be declared", || {
            server += 1;
            let (json, world, server) = (json.clone(), world.clone(), server);
            async move {
                let mut client = connect(&world, server).await?;
                client.apply(request(json, Mode::Apply)).await.ok()
            }
        })
        .await;
        declared.push(name);
        tokio::time::sleep(Duration::from_millis(400)).await;
    }
    declared
}

/// Writes the last word, after which nothing follows: watchers wait for it.
pub async fn settle(world: &Arc<World>, declared: &[String]) {
    let instances = || async {
        let mut client = connect(world, 0).await?;
        let request = orrery_proto::hub::v1::ListRequest {
            kind: "WorkloadInstance".into(),
            project: PROJECT.into(),
            limit: 1000,
            ..Default::default()
        };
        let found = client.list(request).await.ok()?.into_inner().items.len();
        (declared.len() <= found).then_some(())
    };
    until("every workload has its instance", instances).await;
    let json = format!(
        r#"{{"apiVersion":"core.orrery.dev/v1","kind":"{KIND}","metadata":{{"name":"{LAST}","project":"{PROJECT}"}}}}"#
    );
    until("the last word is written", || async {
        connect(world, 0).await?.apply(request(json.clone(), Mode::Apply)).await.ok()
    })
    .await;
    let json = format!(
        r#"{{"apiVersion":"apps.orrery.dev/v1","kind":"Workload","metadata":{{"name":"{LAST}","project":"{PROJECT}"}},"spec":{{"process":{{"command":"/bin/true"}},"placement":{{"nodes":["nobody"]}}}}}}"#
    );
    until("the last workload is declared", || async {
        connect(world, 0).await?.apply(request(json.clone(), Mode::Apply)).await.ok()
    })
    .await;
}

/// The name of what is written last.
pub const LAST: &str = "last";
