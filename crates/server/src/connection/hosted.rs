//! The task of a connection, and the request that is its guest.
use super::gathered::Writes;
use super::relay::Relay;
use super::threads::beside;
use futures::future::BoxFuture;
use hyper::rt::Executor;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::AsyncWrite;

/// How often a task looks again at what its own turn made possible before others have theirs.
const ROUNDS_MAX: usize = 8;

/// Where a connection leaves its requests: one stays in the task of the connection, and those that come while
/// it does get tasks of their own, so that they run beside it. Clones share the place.
#[derive(Clone, Default)]
pub struct Guest {
    place: Arc<Mutex<Place>>,
}

#[derive(Default)]
enum Place {
    #[default]
    Free,
    Arrived(BoxFuture<'static, ()>),
    Taken,
}

impl Guest {
    fn arrived(&self) -> Option<BoxFuture<'static, ()>> {
        let mut place = self.place.lock();
        match std::mem::replace(&mut *place, Place::Taken) {
            Place::Arrived(work) => Some(work),
            before @ (Place::Free | Place::Taken) => {
                *place = before;
                None
            }
        }
    }

    fn leave(&self) {
        *self.place.lock() = Place::Free;
    }

    /// Nobody looks any more.
    fn close(&self) {
        *self.place.lock() = Place::Taken;
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Guest {
    fn execute(&self, work: F) {
        let mut place = self.place.lock();
        if matches!(*place, Place::Free) {
            *place = Place::Arrived(Box::pin(work));
            return;
        }
        drop(place);
        // It ends with its stream, which ends with the connection.
        beside(work);
    }
}

/// A connection with its guest. Both end with it.
pub struct Hosted<C: Future, I> {
    connection: Pin<Box<C>>,
    /// How the connection ended, until everything is sent.
    ended: Option<C::Output>,
    writes: Writes<I>,
    guest: Guest,
    work: Option<BoxFuture<'static, ()>>,
    relay: Arc<Relay>,
    waker: Waker,
}

impl<C: Future, I: AsyncWrite + Unpin> Hosted<C, I> {
    /// Of a connection that was given the guest as its executor, and writes through `writes`.
    pub fn new(connection: C, writes: Writes<I>, guest: Guest) -> Self {
        let relay = Arc::new(Relay::default());
        let waker = Waker::from(relay.clone());
        let connection = Box::pin(connection);
        Self { connection, ended: None, writes, guest, work: None, relay, waker }
    }

    /// Does what can be done now, as long as one thing leads to another.
    fn advance(&mut self, context: &mut Context<'_>) {
        for _ in 0..ROUNDS_MAX {
            self.relay.look();
            if let Poll::Ready(outcome) = self.connection.as_mut().poll(context) {
                self.ended = Some(outcome);
                self.guest.close();
                self.work = None;
                return;
            }
            self.host(context);
            if !self.relay.happened() {
                return;
            }
        }
    }

    fn host(&mut self, context: &mut Context<'_>) {
        if self.work.is_none() {
            self.work = self.guest.arrived();
        }
        let Some(work) = &mut self.work else { return };
        // As in a task of its own: whoever panics takes nobody else along.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        if let Ok(Poll::Pending) = polled {
            return;
        }
        if polled.is_err() {
            tracing::error!("a request panicked");
        }
        self.work = None;
        self.guest.leave();
    }
}

impl<C, I> Future for Hosted<C, I>
where
    C: Future<Output: Unpin>,
    I: AsyncWrite + Unpin,
{
    /// How the connection ended, unless nothing could be sent to the peer any more.
    type Output = std::io::Result<C::Output>;

    fn poll(self: Pin<&mut Self>, task: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        this.relay.begin(task.waker());
        let waker = this.waker.clone();
        let mut context = Context::from_waker(&waker);
        if this.ended.is_none() {
            this.writes.gather();
            this.advance(&mut context);
        }
        let sent = this.writes.poll_send(&mut context);
        this.relay.end();
        // What cannot be sent yet is tried again when there is room.
        ready!(sent)?;
        this.ended.take().map_or(Poll::Pending, |outcome| Poll::Ready(Ok(outcome)))
    }
}

#[cfg(test)]
mod tests;
