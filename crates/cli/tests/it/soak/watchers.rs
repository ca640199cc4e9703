//! Those who watch, and go on from where they were when a server dies.
use super::World;
use super::clients::{KIND, LAST, PREFIX, PROJECT, seen};
use super::history::Told;
use orrery_proto::hub::v1::hub_client::HubClient;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{Encoding, WatchRequest, WatchResponse, resource};
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

/// Between two attempts while nobody answers.
const PAUSE: Duration = Duration::from_millis(50);

/// Every change of what the clients write, until the last word.
pub async fn objects(world: Arc<World>) -> Vec<Told> {
    let mut told = follow(&world, KIND, |name| name == LAST).await;
    told.retain(|told| told.name.starts_with(PREFIX));
    told
}

/// Every change of the instances that the leader makes, until the one of the last workload.
pub async fn instances(world: Arc<World>) -> Vec<Told> {
    follow(&world, "WorkloadInstance", |name| name.starts_with(LAST)).await
}

async fn follow(world: &World, kind: &str, is_last: impl Fn(&str) -> bool) -> Vec<Told> {
    let mut told = Vec::new();
    let mut after = String::new();
    let mut server = 0;
    loop {
        server += 1;
        match stretch(world, server, kind, &mut after, &mut told, &is_last).await {
            Some(()) => return told,
            None => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Follows one server for as long as it lives; `Some` when the last change was told.
async fn stretch(
    world: &World,
    server: usize,
    kind: &str,
    after: &mut String,
    told: &mut Vec<Told>,
    is_last: impl Fn(&str) -> bool,
) -> Option<()> {
    let url = world.servers.url(server);
    // Without the deadline of a call: a watch goes on for as long as its server lives.
    let endpoint = tonic::transport::Endpoint::from_shared(url).ok()?;
    let channel = endpoint.connect().await.ok()?;
    let mut client = HubClient::new(channel);
    let request = WatchRequest {
        kind: kind.into(),
        project: PROJECT.into(),
        resource_version: after.clone(),
        encoding: Encoding::Json.into(),
        ..WatchRequest::default()
    };
    let opened = client.watch(request).await;
    let mut events = opened.inspect_err(assert_away).ok()?.into_inner();
    // A first state that breaks off is told again from its beginning.
    let begun = told.len();
    loop {
        let event = match events.message().await {
            Ok(Some(event)) => event,
            Ok(None) | Err(_) => {
                if after.is_empty() {
                    told.truncate(begun);
                }
                return None;
            }
        };
        if event.r#type() == Type::Bookmark {
            after.clone_from(&event.resource_version);
            continue;
        }
        // Within the first state revisions come in the order of names: only its end counts.
        if !after.is_empty() {
            after.clone_from(&event.resource_version);
        }
        let change = change(&event);
        let last = is_last(&change.name);
        told.push(change);
        if last {
            return Some(());
        }
    }
}

/// A server that lives must never send a watcher away, or tell it to list again.
fn assert_away(status: &tonic::Status) {
    let away = [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::DeadlineExceeded];
    assert!(away.contains(&status.code()), "a watch was refused: {status:?}");
}

fn change(event: &WatchResponse) -> Told {
    let resource = event.resource.as_ref().expect("a change holds its object");
    let Some(resource::Body::Json(text)) = &resource.body else { panic!("JSON was asked for") };
    let value: serde_json::Value = serde_json::from_str(text).expect("JSON was asked for");
    let text = |name: &str| value["metadata"][name].as_str().unwrap_or_default().to_owned();
    Told {
        name: text("name"),
        uid: text("uid"),
        is_new: event.r#type() == Type::Added,
        is_gone: event.r#type() == Type::Deleted,
        seen: seen(resource),
    }
}
