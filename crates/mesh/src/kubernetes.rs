//! A Kubernetes cluster: how to reach it, and how to follow a kind there. What the objects mean is the
//! business of whoever follows them.
use futures::StreamExt as _;
use kube::Config;
use kube::api::{Api, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, pinned_kind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use std::path::Path;
use std::time::Duration;

pub use kube::Client;

/// How often is looked whether a kind that a cluster does not serve is there by now.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// How long after it was taken away.
const FIND_AGAIN: Duration = Duration::from_secs(1);

/// Reaches a cluster as a kubeconfig says, with its current context.
pub async fn client(kubeconfig: &Path) -> Result<Client, String> {
    let read = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
    let config = config.map_err(|error| error.to_string())?;
    Client::try_from(config).map_err(|error| error.to_string())
}

/// What a cluster told.
pub enum Told {
    /// Everything of the kind; what is not in it is gone. Empty where the kind is not served.
    All(Vec<DynamicObject>),
    Put(DynamicObject),
    Gone(DynamicObject),
    /// The cluster cannot be asked now; it will be asked again.
    Failed(String),
}

/// Follows a kind for ever, in the first of these versions that the cluster serves.
pub async fn follow(
    client: Client,
    group: &str,
    versions: &[&str],
    kind: &str,
    mut take: impl FnMut(&str, Told),
) {
    loop {
        match served(&client, group, versions, kind).await {
            Ok(Some((version, resource))) => {
                // Ends when the kind is no longer served, in this version.
                watch(client.clone(), resource, |told| take(&version, told)).await;
                tokio::time::sleep(FIND_AGAIN).await;
                continue;
            }
            Ok(None) => take("", Told::All(Vec::new())),
            Err(error) => take("", Told::Failed(error)),
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn served(
    client: &Client,
    group: &str,
    versions: &[&str],
    kind: &str,
) -> Result<Option<(String, ApiResource)>, String> {
    for version in versions {
        match pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await {
            Ok((resource, _)) => return Ok(Some(((*version).to_owned(), resource))),
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Discovery(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(None)
}

async fn watch(client: Client, resource: ApiResource, mut take: impl FnMut(Told)) {
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let mut events = watcher(api, watcher::Config::default()).default_backoff().boxed();
    let mut listed = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => listed.push(object),
            Ok(Event::InitDone) => take(Told::All(std::mem::take(&mut listed))),
            Ok(Event::Apply(object)) => take(Told::Put(object)),
            Ok(Event::Delete(object)) => take(Told::Gone(object)),
            Err(error) if is_not_served(&error) => return,
            Err(error) => take(Told::Failed(error.to_string())),
        }
    }
}

/// Somebody took the definition of the kind away, or this version of it.
fn is_not_served(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}
