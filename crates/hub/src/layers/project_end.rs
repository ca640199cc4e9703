//! Watches within a project end with it.
//!
//! A watch holds on to the id of its project. When the project is deleted and made again under its
//! name, that is another one: a watcher that went on would never hear of anything again. So it is told
//! to list again, after everything that happened before.
use crate::error::Error;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use orrery_store::Revision;
use std::task::Poll;

/// When a project was deleted.
pub type Gone = BoxFuture<'static, Result<Revision, Error>>;

/// What a watch tells, until its project is gone.
pub fn until_gone<T: Send + 'static>(
    mut events: BoxStream<'static, Result<T, Error>>,
    mut gone: Gone,
) -> BoxStream<'static, Result<T, Error>> {
    let mut end = None;
    let mut over = false;
    stream::poll_fn(move |context| {
        if over {
            return Poll::Ready(None);
        }
        loop {
            // What happened before the end is told before it.
            if let Poll::Ready(event) = events.poll_next_unpin(context) {
                return Poll::Ready(event);
            }
            if let Some(end) = end.take() {
                over = true;
                return Poll::Ready(Some(Err(end)));
            }
            let Poll::Ready(outcome) = gone.as_mut().poll(context) else { return Poll::Pending };
            let told = |at| Error::Expired { requested: at, oldest: at, resume: None };
            // Once more: something may have come while the end was looked for.
            end = Some(outcome.map_or_else(|error| error, told));
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt as _, channel::oneshot};

    #[tokio::test]
    async fn everything_before_the_end_is_told() {
        let events = stream::iter([Ok(1), Ok(2)]).chain(stream::pending()).boxed();
        let gone = std::future::ready(Ok(Revision(9))).boxed();
        let told: Vec<_> = until_gone(events, gone).collect().await;
        assert!(matches!(told.as_slice(), [Ok(1), Ok(2), Err(Error::Expired { .. })]), "{told:?}");
    }

    #[tokio::test]
    async fn a_watch_goes_on_while_its_project_is_there() {
        let (end, ended) = oneshot::channel();
        let gone = ended.map(|revision| Ok(revision.unwrap_or(Revision(0)))).boxed();
        let events = stream::iter([Ok(1)]).chain(stream::pending()).boxed();
        let mut told = until_gone(events, gone);
        assert!(matches!(told.next().await, Some(Ok(1))));
        assert!(told.next().now_or_never().is_none());
        end.send(Revision(3)).expect("listened to");
        assert!(matches!(told.next().await, Some(Err(Error::Expired { .. }))));
        assert!(told.next().await.is_none());
    }
}
