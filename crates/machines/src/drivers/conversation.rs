//! The stream of one driver, from its first message to its last.
//!
//! ```text
//!   greet --> enrol --> converse --> retire
//!     |          |          ^ |
//!     |          |          +-+ answers, heartbeats, unregister
//!     +----------+--> refused: the stream ends with the reason
//! ```
use super::error::GoneReason;
use super::peer::Peer;
use super::session::{Parts, Session};
use super::wire;
use super::{Inner, Timing};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use orrery_proto::infragrpc::driver_side::Response;
use orrery_proto::infragrpc::{DriverSide, McMside};
use std::sync::{Arc, OnceLock};
use tokio::sync::mpsc;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;
use uuid::Uuid;

/// Messages that wait for the transport. Small: an operation that waits here grows old, and its
/// place in line is taken in the session instead.
const OUTBOX_MESSAGES: usize = 64;

type Incoming = BoxStream<'static, Result<DriverSide, Status>>;
pub(super) type Outgoing = BoxStream<'static, Result<McMside, Status>>;

/// The end of our half of the stream. Dropping it ends the stream.
struct Ending {
    status: Arc<OnceLock<Status>>,
    _closed: DropGuard,
}

impl Ending {
    fn with(self, status: Status) {
        self.status.get_or_init(|| status);
    }
}

/// Starts the conversation with a driver and returns our half of it.
pub(super) fn open(
    drivers: &Arc<Inner>,
    peer: Peer,
    incoming: impl Stream<Item = Result<DriverSide, Status>> + Send + 'static,
) -> Result<Outgoing, Status> {
    let greeting = drivers.greetings.clone().try_acquire_owned();
    let busy = |_| Status::resource_exhausted("too many drivers are registering; try again");
    let greeting = greeting.map_err(busy)?;
    let (outbox, messages) = mpsc::channel(OUTBOX_MESSAGES);
    let (outgoing, ending) = outgoing(messages);
    let drivers = drivers.clone();
    let tasks = drivers.tasks.clone();
    let mut incoming = incoming.boxed();
    tasks.spawn(async move {
        let enrolled = enrol(&drivers, peer, &mut incoming, outbox).await;
        drop(greeting);
        serve(&drivers, enrolled, incoming, ending).await;
    });
    Ok(outgoing)
}

fn outgoing(messages: mpsc::Receiver<McMside>) -> (Outgoing, Ending) {
    let closed = CancellationToken::new();
    let status: Arc<OnceLock<Status>> = Arc::default();
    let ending = Ending { status: status.clone(), _closed: closed.clone().drop_guard() };
    let last = stream::once(async move { status.get().cloned() })
        .filter_map(|status| async move { status.map(Err) });
    let all = ReceiverStream::new(messages).map(Ok).take_until(closed.cancelled_owned());
    (all.chain(last).boxed(), ending)
}

async fn serve(
    drivers: &Inner,
    enrolled: Result<Arc<Session>, Status>,
    mut incoming: Incoming,
    ending: Ending,
) {
    match enrolled {
        Err(status) => {
            tracing::info!(reason = status.message(), "driver refused");
            ending.with(status);
        }
        Ok(session) => {
            let reason = converse(drivers, &session, &mut incoming).await;
            drivers.retire(&session, reason.clone());
            if reason != GoneReason::Closed {
                ending.with(Status::unavailable(reason.to_string()));
            }
        }
    }
}

async fn enrol(
    drivers: &Arc<Inner>,
    peer: Peer,
    incoming: &mut Incoming,
    outbox: mpsc::Sender<McMside>,
) -> Result<Arc<Session>, Status> {
    let token = Uuid::new_v4().to_string();
    let register = wire::register(&token, drivers.timing.heartbeat);
    outbox.send(register).await.map_err(|_| Status::cancelled("the driver went away"))?;
    let first = first_message(&drivers.timing, incoming, &drivers.stop).await?;
    let hello = wire::hello(first).map_err(Status::invalid_argument)?;
    drivers.gate.admit(&peer, &hello.key).map_err(Status::permission_denied)?;
    drivers.enrol(Parts { hello, peer, token, outbox, ended: drivers.stop.child_token() })
}

async fn first_message(
    timing: &Timing,
    incoming: &mut Incoming,
    stop: &CancellationToken,
) -> Result<DriverSide, Status> {
    let first = stop.run_until_cancelled(timeout(timing.registration, incoming.next())).await;
    match first {
        None => Err(Status::unavailable("the server stops")),
        Some(Err(_elapsed)) => Err(Status::deadline_exceeded(format!(
            "the driver did not register within {:?}",
            timing.registration
        ))),
        Some(Ok(None)) => Err(Status::cancelled("the driver closed its stream")),
        Some(Ok(Some(message))) => message,
    }
}

/// Reads until one side is done, and says why.
async fn converse(drivers: &Inner, session: &Session, incoming: &mut Incoming) -> GoneReason {
    let timing = &drivers.timing;
    let mut beat = interval(timing.heartbeat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut heard = Instant::now();
    loop {
        // In this order: why the session ended is known only before its parts fall, and a message
        // that is there counts before its absence does.
        tokio::select! {
            biased;
            () = session.ended.cancelled() => return drivers.why_ended(session),
            message = incoming.next() => match message {
                None => return GoneReason::Closed,
                Some(Err(status)) => return GoneReason::Broken(status.message().to_owned()),
                Some(Ok(message)) => {
                    heard = Instant::now();
                    take(drivers, session, message);
                }
            },
            () = session.unread() => return GoneReason::Closed,
            _ = beat.tick(), if session.speaks_extensions() => {
                if heard.elapsed() >= timing.silence {
                    return GoneReason::Silent(timing.silence);
                }
                session.beat();
            }
        }
    }
}

fn take(drivers: &Inner, session: &Session, message: DriverSide) {
    match &message.response {
        Some(Response::Heartbeat(_)) => {}
        Some(Response::RegisterResp(_)) => {
            tracing::warn!(driver = session.hello.name, "driver registers a second time; ignored");
        }
        None if message.operation_type == "unregister" => drivers.leave(session),
        None
        | Some(
            Response::Createresponse(_)
            | Response::Deleteresponse(_)
            | Response::Listresponse(_)
            | Response::Statusresponse(_),
        ) => session.settle(message),
    }
}
