//! Small writes, gathered while the task of a connection runs.
use super::silence::Silence;
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is gathered at most: several small answers. More than this is worth a write of its own.
const GATHER_BYTES_MAX: usize = 8 << 10;

/// Both ends of a connection: the one that is read and written, and the one by which its task says when to
/// gather and when to send. What is read breaks the silence.
pub fn gathered<I>(inner: I, silence: Arc<Silence>) -> (Gathered<I>, Writes<I>) {
    let held = Held { inner, kept: Vec::new(), sent: 0, gathering: false };
    let held = Arc::new(Mutex::new(held));
    (Gathered { held: held.clone(), silence }, Writes { held })
}

/// A connection whose flushes wait for the end of the turn, while one is on.
pub struct Gathered<I> {
    held: Arc<Mutex<Held<I>>>,
    silence: Arc<Silence>,
}

/// Begins and ends the turns of the task that a connection belongs to.
pub struct Writes<I> {
    held: Arc<Mutex<Held<I>>>,
}

impl<I: AsyncWrite + Unpin> Writes<I> {
    /// From here on what is written is kept together.
    pub fn gather(&self) {
        self.held.lock().gathering = true;
    }

    /// Sends what was kept.
    pub fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.held.lock();
        held.gathering = false;
        held.poll_flush(context)
    }
}

struct Held<I> {
    inner: I,
    kept: Vec<u8>,
    /// How much of it the connection has taken.
    sent: usize,
    gathering: bool,
}

impl<I: AsyncWrite + Unpin> Held<I> {
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.kept.len() {
            let rest = &self.kept[self.sent..];
            match ready!(Pin::new(&mut self.inner).poll_write(context, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.sent += written,
            }
        }
        self.kept.clear();
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.inner).poll_flush(context)
    }

    /// Whether so much more is kept. What was kept before is sent before anything else.
    fn poll_room(&mut self, bytes: usize, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.gathering && self.kept.len() + bytes <= GATHER_BYTES_MAX {
            return Poll::Ready(Ok(true));
        }
        ready!(self.poll_drain(context))?;
        Poll::Ready(Ok(self.gathering && bytes <= GATHER_BYTES_MAX))
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Gathered<I> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.held.lock().inner).poll_read(context, buffer);
        if read.is_ready() {
            self.silence.broken();
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Gathered<I> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut held = self.held.lock();
        if !ready!(held.poll_room(bytes.len(), context))? {
            return Pin::new(&mut held.inner).poll_write(context, bytes);
        }
        held.kept.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut held = self.held.lock();
        let bytes = parts.iter().map(|part| part.len()).sum();
        if !ready!(held.poll_room(bytes, context))? {
            return Pin::new(&mut held.inner).poll_write_vectored(context, parts);
        }
        parts.iter().for_each(|part| held.kept.extend_from_slice(part));
        Poll::Ready(Ok(bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.held.lock().inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.held.lock();
        match held.gathering {
            true => Poll::Ready(Ok(())),
            false => held.poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut held = self.held.lock();
        ready!(held.poll_drain(context))?;
        Pin::new(&mut held.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Takes everything, and remembers each write.
    #[derive(Default)]
    struct Journal(Vec<Vec<u8>>);

    impl AsyncWrite for Journal {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.push(bytes.to_vec());
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// The lengths of what reaches the connection when these are written in one turn.
    async fn lengths(writes: &[usize]) -> Vec<usize> {
        let (mut io, turns) = gathered(Journal::default(), Silence::new());
        turns.gather();
        for length in writes {
            io.write_all(&vec![7; *length]).await.expect("written");
            io.flush().await.expect("flushed");
        }
        poll_fn(|context| turns.poll_send(context)).await.expect("sent");
        let held = turns.held.lock();
        held.inner.0.iter().map(Vec::len).collect()
    }

    #[tokio::test]
    async fn what_is_small_leaves_together_and_what_is_large_is_not_copied() {
        let max = GATHER_BYTES_MAX;
        assert_eq!(lengths(&[20, 600, 10]).await, [630]);
        assert_eq!(lengths(&[max - 1, 1]).await, [max]);
        assert_eq!(lengths(&[max, 1]).await, [max, 1]);
        assert_eq!(lengths(&[20, max + 1, 10]).await, [20, max + 1, 10]);
    }

    #[tokio::test]
    async fn outside_of_a_turn_nothing_is_kept() {
        let (mut io, turns) = gathered(Journal::default(), Silence::new());
        turns.gather();
        io.write_all(b"one").await.expect("written");
        poll_fn(|context| turns.poll_send(context)).await.expect("sent");
        io.write_all(b"two").await.expect("written");
        assert_eq!(turns.held.lock().inner.0, [b"one", b"two"]);
    }

    #[tokio::test]
    async fn what_was_kept_is_sent_before_the_end() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (mut io, turns) = gathered(ours, Silence::new());
        turns.gather();
        io.write_all(b"last words").await.expect("written");
        io.shutdown().await.expect("ended");
        let mut read = String::new();
        theirs.read_to_string(&mut read).await.expect("read");
        assert_eq!(read, "last words");
    }

    #[tokio::test]
    async fn a_peer_that_does_not_read_holds_up_what_is_written() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let (mut io, turns) = gathered(ours, Silence::new());
        turns.gather();
        let writing = async {
            for _ in 0..1024 {
                io.write_all(&[7; 64]).await.expect("written");
            }
            io.shutdown().await.expect("ended");
        };
        let reading = async {
            let mut read = Vec::new();
            theirs.read_to_end(&mut read).await.expect("read");
            read.len()
        };
        let ((), read) = tokio::join!(writing, reading);
        assert_eq!(read, 64 << 10);
        assert!(turns.held.lock().kept.capacity() <= 2 * GATHER_BYTES_MAX);
    }
}
