//! The servers on one store, which share what is kept of upstreams.
use super::errors::{Question, answered};
use super::link::MESSAGE_BYTES_MAX;
use super::requests;
use async_trait::async_trait;
use orrery_api::{Encoded, Kind};
use orrery_client::Endpoint;
use orrery_fleet::leader::SERVER_LEASES;
use orrery_hub::cache::{Missed, Replicas, owner_of};
use orrery_hub::{Error, GetOptions, Hub, ListOptions, ObjectName, Page};
use orrery_pki::LiveTls;
use orrery_proto::hub::v1::replicas_client::ReplicasClient;
use parking_lot::RwLock;
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::Channel;

/// How often is looked which servers there are. One that is missed asks the upstream more often, and nothing else.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// How long another server has to answer, which may have to ask the upstream first. After that, this one asks.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);

/// A server that is there.
#[derive(Clone)]
struct Member {
    address: String,
    client: Option<ReplicasClient<Channel>>,
}

/// The servers that hold their lease, as this one sees them.
pub struct Servers {
    /// This one.
    own: String,
    /// By id, with this one.
    members: RwLock<HashMap<String, Member>>,
    tls: RwLock<Option<LiveTls>>,
}

impl Servers {
    pub fn new(own: &str) -> Self {
        let (members, tls) = <_>::default();
        Self { own: own.to_owned(), members, tls }
    }

    /// Looks for servers until it is told to stop.
    pub async fn follow(
        self: Arc<Self>,
        hub: Hub,
        tls: Option<LiveTls>,
        stop: CancellationToken,
    ) -> Result<(), Infallible> {
        *self.tls.write() = tls;
        loop {
            match hub.holders(SERVER_LEASES).await {
                Ok(found) => self.take(found),
                Err(error) => tracing::debug!(%error, "cannot see which servers there are"),
            }
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
        }
    }

    /// The servers that there are now; a connection to one that stays is kept.
    fn take(&self, found: Vec<(String, String)>) {
        let mut members = self.members.write();
        let known = std::mem::take(&mut *members);
        members.extend(found.into_iter().map(|(id, address)| {
            let before = known.get(&id).filter(|member| member.address == address);
            let client = before.and_then(|member| member.client.clone());
            (id, Member { address, client })
        }));
    }

    async fn client(&self, server: &str) -> Result<ReplicasClient<Channel>, Missed> {
        let unreachable = |error: orrery_client::Error| Missed::Unreachable(error.to_string());
        let member = self.members.read().get(server).cloned();
        let gone = || Missed::Unreachable("it is gone".to_owned());
        let Member { address, client } = member.ok_or_else(gone)?;
        if let Some(client) = client {
            return Ok(client);
        }
        let endpoint = Endpoint::live(&address, self.tls.read().clone()).map_err(unreachable)?;
        let channel = endpoint.connect().await.map_err(unreachable)?;
        let client = ReplicasClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        if let Some(member) = self.members.write().get_mut(server) {
            member.client = Some(client.clone());
        }
        Ok(client)
    }
}

/// What the upstream said to the other server, or that the other server said nothing.
fn missed(kind: &Kind, name: &ObjectName, status: &Status) -> Missed {
    let question = Question { kind, upstream: "another server", name, writes: false };
    match answered(&question, status) {
        Some(
            error @ (Error::NotFound { .. }
            | Error::ProjectNotFound { .. }
            | Error::Expired { .. }
            | Error::BadRequest(_)),
        ) => Missed::Refused(error),
        // It does not serve the kind from elsewhere, or has trouble with it: the upstream tells this server itself.
        None | Some(_) => Missed::Unreachable(status.message().to_owned()),
    }
}

async fn in_time<T>(asking: impl Future<Output = Result<T, Missed>>) -> Result<T, Missed> {
    let late = || Missed::Unreachable("it did not answer in time".to_owned());
    tokio::time::timeout(ANSWER_TIMEOUT, asking).await.unwrap_or_else(|_| Err(late()))
}

#[async_trait]
impl Replicas for Servers {
    fn owner(&self, key: &str) -> Option<String> {
        let members = self.members.read();
        let owner = owner_of(key, members.keys().map(String::as_str))?;
        (owner != self.own).then(|| owner.to_owned())
    }

    async fn get(
        &self,
        server: &str,
        kind: &Arc<Kind>,
        options: GetOptions,
    ) -> Result<Encoded, Missed> {
        in_time(async {
            let request = requests::get(kind, &options);
            let answer = self.client(server).await?.get(request).await;
            let answer = answer.map_err(|status| missed(kind, &options.name, &status))?;
            let unfit = |why: &str| Missed::Unreachable(why.to_owned());
            requests::found(kind, answer.into_inner().resource).map_err(unfit)
        })
        .await
    }

    async fn list(
        &self,
        server: &str,
        kind: &Arc<Kind>,
        options: ListOptions,
    ) -> Result<Page<Encoded>, Missed> {
        in_time(async {
            let place = ObjectName::new(options.project.as_deref().unwrap_or_default(), "");
            let answer = self.client(server).await?.list(requests::list(kind, &options)).await;
            let answer = answer.map_err(|status| missed(kind, &place, &status))?.into_inner();
            let unfit = |why: &str| Missed::Unreachable(why.to_owned());
            let found = |item| requests::found(kind, Some(item)).map_err(unfit);
            let revision = answer.resource_version.parse();
            Ok(Page {
                items: answer.items.into_iter().map(found).collect::<Result<_, _>>()?,
                revision: revision.map_err(|_| unfit("it names no revision"))?,
                continue_from: Some(answer.r#continue).filter(|token| !token.is_empty()),
                remaining: None,
            })
        })
        .await
    }
}
