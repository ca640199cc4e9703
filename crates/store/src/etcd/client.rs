//! The way to etcd: which member to ask, how long to wait, and etcd's errors in our words.
//!
//! One member is preferred until it fails; then the next one is. A read is asked again elsewhere.
//! A transaction is repeated only if it never left this process: otherwise it may have happened,
//! and that is for the caller to find out.

use std::{
    error::Error as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::RwLock;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;
use tonic::{
    Code, ConnectError, Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use super::{
    EtcdOptions,
    options::Credentials,
    pb::{self, auth_client::AuthClient},
    proofs::Shown,
};
use crate::error::Error;

/// How long one member may take to answer a read before the next is asked.
const ATTEMPT: Duration = Duration::from_secs(3);

/// How long it is tried to connect while nobody lets us: longer than a member takes to start again,
/// and short enough for whoever waits for an answer. Members that choose a leader do let us in.
const UNCONNECTED: Duration = Duration::from_secs(3);

/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The largest answer taken. Lists ask for less than this at a time.
pub(super) const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(super) type Wire = InterceptedService<Channel, Stamp>;

/// Whether a request may be sent again when nobody knows whether it was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Repeat {
    Safe,
    Unsafe,
}

#[derive(Clone)]
pub(super) struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    shown: Shown,
    preferred: AtomicUsize,
    request_timeout: Duration,
    stamp: Stamp,
    authenticating: tokio::sync::Mutex<()>,
    closed: CancellationToken,
}

/// What goes with every request: the token of the user, and that a member without a leader is to
/// say so rather than to keep us waiting.
#[derive(Clone, Default)]
pub(super) struct Stamp {
    token: Arc<RwLock<Option<MetadataValue<Ascii>>>>,
}

impl Interceptor for Stamp {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(token) = &*self.token.read() {
            request.metadata_mut().insert("token", token.clone());
        }
        Ok(request)
    }
}

impl Client {
    pub async fn connect(options: &EtcdOptions) -> Result<Self, Error> {
        let client = Self {
            inner: Arc::new(Inner {
                shown: Shown::new(options)?,
                preferred: AtomicUsize::new(0),
                request_timeout: options.request_timeout,
                stamp: Stamp::default(),
                authenticating: tokio::sync::Mutex::default(),
                closed: CancellationToken::new(),
            }),
        };
        client.authenticate(None).await?;
        Ok(client)
    }

    pub fn close(&self) {
        self.inner.closed.cancel();
    }

    pub fn check_open(&self) -> Result<(), Error> {
        if self.inner.closed.is_cancelled() { Err(closed()) } else { Ok(()) }
    }

    /// Bounds what waits for its turn before it asks: that counts as a part of the request.
    pub async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let limit = self.inner.request_timeout;
        tokio::time::timeout(limit, answer).await.unwrap_or_else(|_| Err(no_answer()))
    }

    /// Done once the engine is closed.
    pub async fn until_closed(&self) -> Error {
        self.inner.closed.cancelled().await;
        closed()
    }

    /// Sends a request and waits for its answer, within bounds.
    pub async fn ask<T, F>(&self, repeat: Repeat, send: impl Fn(Wire) -> F) -> Result<T, Refusal>
    where
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        // What was not begun was certainly not sent.
        self.check_open().map_err(Refusal::Ours)?;
        tokio::select! {
            biased;
            // An answer that is there says more than that no more are waited for.
            answer = self.attempts(repeat, send) => answer,
            () = self.inner.closed.cancelled() => Err(Refusal::Ours(match repeat {
                Repeat::Safe => closed(),
                // It may be on its way.
                Repeat::Unsafe => Error::Unreachable { reason: closed().to_string() },
            })),
        }
    }

    async fn attempts<T, F>(&self, repeat: Repeat, send: impl Fn(Wire) -> F) -> Result<T, Refusal>
    where
        F: Future<Output = Result<tonic::Response<T>, Status>>,
    {
        let began = Instant::now();
        let deadline = began + self.inner.request_timeout;
        let mut connects = Connects::new(began);
        // What a member said of our certificate. It says so after the connection was made, and then cuts it: what
        // else is met says nothing.
        let mut unwelcome = None;
        loop {
            let (member, token) = (self.preferred(), self.inner.stamp.token.read().clone());
            let attempt = match repeat {
                Repeat::Safe => deadline.min(Instant::now() + ATTEMPT),
                Repeat::Unsafe => deadline,
            };
            let refusal = match timeout_at(attempt, send(self.wire(member))).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner()),
                Ok(Err(status)) => Refusal::Etcd(status),
                Err(_) => Refusal::Ours(no_answer()),
            };
            if refusal.is_token_spent() && self.has_user() && Instant::now() < deadline {
                self.authenticate(token.as_ref()).await.map_err(Refusal::Ours)?;
                continue;
            }
            if !refusal.may_pass() {
                return Err(refusal);
            }
            self.avoid(member);
            // Our certificate may have ended, or theirs may be of a new authority; members say so in many ways.
            self.inner.shown.renew().await;
            let (not_sent, now) = (refusal.was_not_sent(), Instant::now());
            let nobody_is_there = connects.failed(not_sent, now, self.inner.shown.count());
            let again = not_sent || repeat == Repeat::Safe;
            if refusal.is_certificate_refused() {
                unwelcome.get_or_insert(refusal.clone());
            }
            let refused =
                unwelcome.is_some() && UNCONNECTED <= now.saturating_duration_since(began);
            if !again || nobody_is_there || refused || deadline <= now + PAUSE {
                return Err(told(refusal, unwelcome, again));
            }
            sleep(PAUSE).await;
        }
    }

    fn has_user(&self) -> bool {
        self.inner.shown.user().is_some()
    }

    pub fn preferred(&self) -> usize {
        self.inner.preferred.load(Ordering::Relaxed) % self.inner.shown.count()
    }

    /// Prefers another member, unless somebody else has noticed already.
    pub fn avoid(&self, member: usize) {
        let next = (member + 1) % self.inner.shown.count();
        let order = Ordering::Relaxed;
        // Losing the race means that the preferred member has changed, which is all we want.
        let _ = self.inner.preferred.compare_exchange(member, next, order, order);
    }

    pub fn wire(&self, member: usize) -> Wire {
        InterceptedService::new(self.inner.shown.member(member), self.inner.stamp.clone())
    }

    /// Gets a token, unless the one that was refused has been replaced meanwhile.
    async fn authenticate(&self, refused: Option<&MetadataValue<Ascii>>) -> Result<(), Error> {
        let Some(user) = self.inner.shown.user() else { return Ok(()) };
        let _one_at_a_time = self.inner.authenticating.lock().await;
        if self.inner.stamp.token.read().as_ref() != refused {
            return Ok(());
        }
        let token = match self.token(&user).await {
            Err(refusal) if refusal.is_password_wrong() => {
                self.inner.shown.renew().await;
                let other = self.inner.shown.user().filter(|other| *other != user);
                let Some(other) = other else { return Err(refusal.into()) };
                self.token(&other).await
            }
            outcome => outcome,
        };
        let token = token?.parse().map_err(|_| Error::unavailable("etcd gave a strange token"))?;
        *self.inner.stamp.token.write() = Some(token);
        Ok(())
    }

    async fn token(&self, user: &Credentials) -> Result<String, Refusal> {
        let deadline = Instant::now() + self.inner.request_timeout;
        loop {
            let member = self.preferred();
            // Without the stamp: a spent token must not go with the request for a new one.
            let mut auth = AuthClient::new(self.inner.shown.member(member));
            let (name, password) = (user.name.clone(), user.password.clone());
            let asking = auth.authenticate(pb::AuthenticateRequest { name, password });
            let refusal = match timeout_at(deadline, asking).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner().token),
                Ok(Err(status)) => Refusal::Etcd(status),
                Err(_) => Refusal::Ours(no_answer()),
            };
            if !refusal.may_pass() || deadline <= Instant::now() + PAUSE {
                return Err(refusal);
            }
            self.avoid(member);
            self.inner.shown.renew().await;
            sleep(PAUSE).await;
        }
    }
}

/// Why there is no answer, of what the last attempt met and what a member said of our certificate before. Whoever must
/// not ask again hears of the last: that one may have been heard, though an earlier one was not.
fn told(last: Refusal, unwelcome: Option<Refusal>, again: bool) -> Refusal {
    unwelcome.filter(|_| again).unwrap_or(last)
}

/// Attempts in a row that did not get as far as a connection.
struct Connects {
    since: Instant,
    count: usize,
}

impl Connects {
    fn new(now: Instant) -> Self {
        Self { since: now, count: 0 }
    }

    /// Counts an attempt that failed; says whether all members have been tried for long enough.
    fn failed(&mut self, not_sent: bool, now: Instant, members: usize) -> bool {
        if !not_sent {
            *self = Self::new(now);
            return false;
        }
        self.count += 1;
        members <= self.count && UNCONNECTED <= now.saturating_duration_since(self.since)
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    Etcd(Status),
    Ours(Error),
}

impl Refusal {
    /// Whether etcd answered that it has compacted the revision asked for.
    pub fn is_compacted(&self) -> bool {
        self.says("required revision has been compacted")
    }

    /// Whether etcd answered that it has not reached the revision asked for.
    pub fn is_future(&self) -> bool {
        self.says("required revision is a future revision")
    }

    /// Whether the answer was larger than we take.
    pub fn is_too_large(&self) -> bool {
        self.says("message length too large")
    }

    pub fn is_lease_gone(&self) -> bool {
        self.says("requested lease not found")
    }

    fn is_out_of_space(&self) -> bool {
        self.says("database space exceeded")
    }

    /// Whether a member ended the connection because of the certificate that we show, or do not show.
    fn is_certificate_refused(&self) -> bool {
        matches!(self, Self::Etcd(status) if is_certificate_refused(status))
    }

    fn is_password_wrong(&self) -> bool {
        self.says("authentication failed")
    }

    /// Whether another token helps: this one has ended, or somebody changed users or roles after it was given.
    fn is_token_spent(&self) -> bool {
        self.says("invalid auth token") || self.says("revision of auth store is old")
    }

    /// Whether the same request may be answered later or elsewhere.
    fn may_pass(&self) -> bool {
        match self {
            Self::Etcd(status) => may_pass(status.code()),
            Self::Ours(error) => error.retryable(),
        }
    }

    /// Whether the request certainly never reached etcd.
    pub fn was_not_sent(&self) -> bool {
        let Self::Etcd(status) = self else { return false };
        let mut cause = status.source();
        while let Some(error) = cause {
            if error.is::<ConnectError>() {
                return true;
            }
            cause = error.source();
        }
        false
    }

    fn says(&self, words: &str) -> bool {
        matches!(self, Self::Etcd(status) if status.message().contains(words))
    }
}

/// With these codes etcd, or the way to it, says that it is not well now.
fn may_pass(code: Code) -> bool {
    match code {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => true,
        Code::Unknown | Code::Internal | Code::DataLoss => true,
        Code::Ok | Code::InvalidArgument | Code::NotFound | Code::AlreadyExists => false,
        Code::PermissionDenied | Code::Unauthenticated | Code::ResourceExhausted => false,
        Code::FailedPrecondition | Code::OutOfRange | Code::Unimplemented => false,
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            full if full.is_out_of_space() => super::room::full(),
            Refusal::Etcd(status) if is_certificate_refused(&status) => {
                let reason = format!(
                    "etcd does not take the certificate that we show: there may be none, it may have ended, or be of an authority that etcd does not know ({})",
                    describe(&status)
                );
                Self::Unreachable { reason }
            }
            Refusal::Etcd(status) if may_pass(status.code()) => {
                Self::Unreachable { reason: format!("etcd: {}", describe(&status)) }
            }
            Refusal::Etcd(status) => Self::unavailable(format!("etcd: {}", status.message())),
            Refusal::Ours(error) => error,
        }
    }
}

/// An alert of TLS is known by its words alone.
fn is_certificate_refused(status: &Status) -> bool {
    let said = describe(status);
    said.contains("fatal alert") && said.contains("Certificate")
}

/// The message with its causes, for "transport error" alone helps nobody. Causes repeat each other.
fn describe(status: &Status) -> String {
    let mut text = status.message().to_owned();
    let mut cause = status.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    text
}

fn no_answer() -> Error {
    Error::Unreachable { reason: "no answer from etcd in time".to_owned() }
}

fn closed() -> Error {
    Error::unavailable("the engine is closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_been_heard_is_not_hidden_by_what_was_not() {
        let mut alert = Status::unavailable("received fatal alert: BadCertificate");
        alert.set_source(Arc::new(ConnectError("refused".into())));
        let [unwelcome, cut] = [alert, Status::unavailable("cut")].map(Refusal::Etcd);
        assert!(unwelcome.was_not_sent() && unwelcome.is_certificate_refused());
        let sent = |again| !told(cut.clone(), Some(unwelcome.clone()), again).was_not_sent();
        assert!(sent(false), "it must not be repeated: it may have been done");
        assert!(!sent(true), "that is what somebody can mend");
    }
}
