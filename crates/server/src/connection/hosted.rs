//! The task of a connection, and the request that is its guest.
use super::gathered::Writes;
use super::relay::{Relay, Side};
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
    connection_waker: Waker,
    work_waker: Waker,
}

impl<C: Future, I: AsyncWrite + Unpin> Hosted<C, I> {
    /// Of a connection that was given the guest as its executor, and writes through `writes`.
    pub fn new(connection: C, writes: Writes<I>, guest: Guest) -> Self {
        let relay = Arc::new(Relay::default());
        let [connection_waker, work_waker] =
            [Side::Connection, Side::Guest].map(|side| relay.waker(side));
        // Whoever begins is looked at.
        connection_waker.wake_by_ref();
        let connection = Box::pin(connection);
        let (ended, work) = (None, None);
        Self { connection, ended, writes, guest, work, relay, connection_waker, work_waker }
    }

    /// Does what can be done now, as long as one thing leads to another. Who was not woken is not asked.
    fn advance(&mut self) {
        for _ in 0..ROUNDS_MAX {
            let (called, answered) =
                (self.relay.take(Side::Connection), self.relay.take(Side::Guest));
            if !called && !answered {
                return;
            }
            if called {
                let mut context = Context::from_waker(&self.connection_waker);
                if let Poll::Ready(outcome) = self.connection.as_mut().poll(&mut context) {
                    self.ended = Some(outcome);
                    self.guest.close();
                    self.work = None;
                    return;
                }
            }
            self.host(answered);
        }
    }

    fn host(&mut self, woken: bool) {
        let arrived = self.work.is_none().then(|| self.guest.arrived()).flatten();
        if !woken && arrived.is_none() {
            return;
        }
        self.work = arrived.or_else(|| self.work.take());
        let Some(work) = &mut self.work else { return };
        let mut context = Context::from_waker(&self.work_waker);
        // As in a task of its own: whoever panics takes nobody else along.
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(&mut context)));
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
        if this.ended.is_none() {
            this.writes.gather();
            this.advance();
        }
        let sent = this.writes.poll_send(&mut Context::from_waker(&this.connection_waker));
        this.relay.end();
        // What cannot be sent yet is tried again when there is room.
        ready!(sent)?;
        this.ended.take().map_or(Poll::Pending, |outcome| Poll::Ready(Ok(outcome)))
    }
}

#[cfg(test)]
mod tests;
