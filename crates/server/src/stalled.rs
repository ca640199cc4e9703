//! Connections whose peer has stopped reading.
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// How long a peer may leave everything unread that was sent to it. A watcher that is slow is told to
/// list again long before; this is for one that has stopped, and would keep an answer in memory for
/// as long as its kernel keeps the connection.
pub const STALL_MAX: Duration = Duration::from_secs(60);

/// A connection that fails when nothing more can be written to it for [`STALL_MAX`].
pub struct Stalled<I> {
    inner: I,
    /// Running while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<I> Stalled<I> {
    pub fn new(inner: I) -> Self {
        Self { inner, waiting: None }
    }

    /// Passes on what a write came to, and turns waiting too long into an error.
    fn judge<T>(
        &mut self,
        outcome: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL_MAX)));
        ready!(waiting.as_mut().poll(context));
        let message = "the peer reads nothing of what it asked for";
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Stalled<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Stalled<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(outcome, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write_vectored(context, parts);
        self.judge(outcome, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.inner).poll_flush(context) {
            // That a socket has nothing to flush says nothing about a write that waits.
            Poll::Ready(outcome) => Poll::Ready(outcome),
            Poll::Pending => self.judge(Poll::Pending, context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(outcome, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_stops_reading_is_given_up() {
        let (mut peer, ours) = tokio::io::duplex(16);
        let mut ours = Stalled::new(ours);
        let began = tokio::time::Instant::now();
        let error = ours.write_all(&[0; 64]).await.expect_err("given up");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), STALL_MAX.as_secs());
        let mut read = [0; 16];
        peer.read_exact(&mut read).await.expect("what was written before");
    }

    #[tokio::test(start_paused = true)]
    async fn a_flush_does_not_make_the_wait_longer() {
        let (_peer, ours) = tokio::io::duplex(16);
        let mut ours = Stalled::new(ours);
        let began = tokio::time::Instant::now();
        let writing = std::future::poll_fn(|context| {
            loop {
                let written = ready!(Pin::new(&mut ours).poll_write(context, &[0; 16]));
                if written.is_err() {
                    return Poll::Ready(written);
                }
            }
        });
        assert!(futures::poll!(Box::pin(writing)).is_pending());
        ours.flush().await.expect("nothing to flush");
        assert!(ours.waiting.is_some(), "the peer has read nothing meanwhile");
        ours.write_all(&[0; 64]).await.expect_err("given up");
        assert_eq!(began.elapsed().as_secs(), STALL_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_reads_a_little_now_and_then_is_served() {
        let (mut peer, ours) = tokio::io::duplex(16);
        let mut ours = Stalled::new(ours);
        let reading = async {
            let mut read = [0; 16];
            for _ in 0..8 {
                tokio::time::sleep(STALL_MAX / 2).await;
                peer.read_exact(&mut read).await.expect("bytes");
            }
        };
        let (written, ()) = tokio::join!(ours.write_all(&[0; 128]), reading);
        written.expect("all of it");
    }
}
