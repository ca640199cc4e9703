//! Classes and secrets, asked for once per revision.
//!
//! A class is cached under the revision that operations name. A secret is cached until the server
//! announces a change. A new connection begins with empty caches, because announcements may have
//! been missed. A server of the first contract announces nothing, so nothing is cached then.
use crate::model::{Class, Secret, SecretRef};
use crate::{Error, ErrorCode};
use orrery_proto::infragrpc as pb;
use parking_lot::Mutex;
use pb::infragrpc_client::InfragrpcClient;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::Channel;

/// Session token metadata, by which the server knows which driver asks.
const SESSION_METADATA: &str = "orrery-driver-session";
/// More classes or secrets than this per driver are not expected; past it the cache starts anew.
const CACHED_MAX: usize = 1024;
/// A read that takes longer than this is given up; the operation may have less time than that.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// A class with an embedded cloud config stays far below.
const MESSAGE_BYTES_MAX: usize = 16 << 20;

/// Where a driver gets classes and secrets. Cheap to clone.
#[derive(Clone, Default)]
pub struct DataProvider(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    link: Option<Link>,
    /// Counts what may have made a read under way stale.
    changes: u64,
    classes: HashMap<String, Arc<Class>>,
    secrets: HashMap<SecretRef, Arc<Secret>>,
}

#[derive(Clone)]
struct Link {
    client: InfragrpcClient<Channel>,
    token: String,
    caching: bool,
}

impl std::fmt::Debug for DataProvider {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("DataProvider")
    }
}

impl DataProvider {
    pub async fn class(&self, name: &str, revision: i32) -> Result<Arc<Class>, Error> {
        if let Some(class) = self.0.lock().classes.get(name).filter(|it| it.revision == revision) {
            return Ok(class.clone());
        }
        let (mut link, seen) = self.link()?;
        let asked = pb::MachineClassMeta { name: name.into(), revision };
        let reply = link.client.get_machine_class(link.request(asked)?).await;
        let reply = reply.map_err(|status| failed("class", name, &status))?.into_inner();
        check("class", name, reply.code(), &reply.error)?;
        // A server of the first contract does not say which revision it sent.
        let sent = if reply.revision == 0 { revision } else { reply.revision };
        let class = Arc::new(Class::parse(&reply.data, sent)?);
        self.remember(&link, seen, |state| keep(&mut state.classes, name.to_owned(), &class));
        Ok(class)
    }

    pub async fn secret(&self, at: &SecretRef) -> Result<Arc<Secret>, Error> {
        if let Some(secret) = self.0.lock().secrets.get(at) {
            return Ok(secret.clone());
        }
        let (mut link, seen) = self.link()?;
        let asked = secret_meta(at);
        let reply = link.client.get_secret(link.request(asked)?).await;
        let reply = reply.map_err(|status| failed("secret", &at.name, &status))?.into_inner();
        check("secret", &at.name, reply.code(), &reply.error)?;
        let secret = Arc::new(Secret::parse(&reply.data, reply.revision)?);
        self.remember(&link, seen, |state| keep(&mut state.secrets, at.clone(), &secret));
        Ok(secret)
    }

    /// A provider that knows just these, for testing a driver without a server.
    pub fn fixed(
        classes: impl IntoIterator<Item = (String, Class)>,
        secrets: impl IntoIterator<Item = (SecretRef, Secret)>,
    ) -> Self {
        let shared = |(at, class)| (at, Arc::new(class));
        let classes = classes.into_iter().map(shared).collect();
        let secrets = secrets.into_iter().map(|(at, secret)| (at, Arc::new(secret))).collect();
        Self(Arc::new(Mutex::new(State { link: None, changes: 0, classes, secrets })))
    }

    /// From now on, reads go through this channel.
    pub(crate) fn connect(&self, channel: Channel, token: String, caching: bool) {
        let client = InfragrpcClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let mut state = self.0.lock();
        state.link = Some(Link { client, token, caching });
        state.forget_all();
    }

    pub(crate) fn disconnect(&self) {
        let mut state = self.0.lock();
        state.link = None;
        state.forget_all();
    }

    /// Forgets what the server says has changed.
    pub(crate) fn changed(&self, changes: &[pb::mc_mside::Change]) {
        let mut state = self.0.lock();
        state.changes += 1;
        for change in changes {
            match (&change.machine_class, &change.secret) {
                (None, None) => state.forget_all(),
                (class, secret) => {
                    if let Some(class) = class {
                        state.classes.remove(&class.name);
                    }
                    if let Some(it) = secret {
                        state.secrets.remove(&secret_ref(it));
                    }
                }
            }
        }
    }

    fn link(&self) -> Result<(Link, u64), Error> {
        let state = self.0.lock();
        let away = || Error::unavailable("the connection to the server is down");
        Ok((state.link.clone().ok_or_else(away)?, state.changes))
    }

    /// Caches what was read, unless something changed meanwhile.
    fn remember(&self, link: &Link, seen: u64, put: impl FnOnce(&mut State)) {
        let mut state = self.0.lock();
        if link.caching && state.changes == seen {
            put(&mut state);
        }
    }
}

impl State {
    fn forget_all(&mut self) {
        self.changes += 1;
        self.classes.clear();
        self.secrets.clear();
    }
}

impl Link {
    fn request<T>(&self, message: T) -> Result<tonic::Request<T>, Error> {
        let mut request = tonic::Request::new(message);
        request.set_timeout(READ_TIMEOUT);
        if !self.token.is_empty() {
            let token = self.token.parse();
            let token = token.map_err(|_| Error::internal("the session token is not ASCII"))?;
            request.metadata_mut().insert(SESSION_METADATA, token);
        }
        Ok(request)
    }
}

fn keep<K: Eq + Hash, V>(cache: &mut HashMap<K, Arc<V>>, key: K, value: &Arc<V>) {
    if cache.len() >= CACHED_MAX {
        cache.clear();
    }
    cache.insert(key, value.clone());
}

pub(crate) fn secret_ref(meta: &pb::SecretMeta) -> SecretRef {
    SecretRef { namespace: meta.name_space.clone(), name: meta.secret_name.clone() }
}

fn secret_meta(at: &SecretRef) -> pb::SecretMeta {
    pb::SecretMeta { secret_name: at.name.clone(), name_space: at.namespace.clone(), revision: 0 }
}

fn failed(what: &str, name: &str, status: &tonic::Status) -> Error {
    let code = ErrorCode::try_from(status.code() as i32).unwrap_or(ErrorCode::Unknown);
    Error::new(code, format!("cannot read the {what} {name}: {}", status.message()))
}

/// A missing class or secret is nothing that the driver could not find: the user has to make it.
fn check(what: &str, name: &str, code: ErrorCode, error: &str) -> Result<(), Error> {
    if error.is_empty() && code == ErrorCode::Ok {
        return Ok(());
    }
    let code = match code {
        ErrorCode::NotFound => ErrorCode::FailedPrecondition,
        ErrorCode::Ok => ErrorCode::Unknown,
        ErrorCode::Cancelled
        | ErrorCode::Unknown
        | ErrorCode::InvalidArgument
        | ErrorCode::DeadlineExceeded
        | ErrorCode::AlreadyExists
        | ErrorCode::PermissionDenied
        | ErrorCode::ResourceExhausted
        | ErrorCode::FailedPrecondition
        | ErrorCode::Aborted
        | ErrorCode::OutOfRange
        | ErrorCode::Unimplemented
        | ErrorCode::Internal
        | ErrorCode::Unavailable
        | ErrorCode::DataLoss
        | ErrorCode::Unauthenticated => code,
    };
    Err(Error::new(code, format!("cannot read the {what} {name}: {error}")))
}
