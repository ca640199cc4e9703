//! Few large writes instead of many: what is sent in a row goes out together.
//!
//! HTTP/2 cuts large messages into frames, of 16 KiB if the peer does not allow more, and the library
//! writes and flushes each of them by itself. Every such write is a call of the kernel here and a
//! wake-up there. So large writes are gathered, and a flush is put off until it is asked for again
//! with nothing new to send: the library does that at the end of each of its turns. Small writes, as
//! calls without large messages have them, go straight through.
use bytes::{Buf, BytesMut};
use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is gathered at most; it is given back once it is sent.
const GATHERED_BYTES_MAX: usize = 128 << 10;
/// A write of less than this is not worth a copy.
const LARGE_BYTES: usize = 8 << 10;

/// A stream whose large writes are gathered.
pub struct Gather<S> {
    inner: S,
    waiting: BytesMut,
    /// A flush was asked for since the last write, and put off.
    put_off: bool,
}

impl<S> Gather<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, waiting: BytesMut::new(), put_off: false }
    }
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.waiting.is_empty() {
            let sent = ready!(Pin::new(&mut self.inner).poll_write(context, &self.waiting))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.waiting.advance(sent);
        }
        // Memory of a connection that has nothing to send is for others.
        self.waiting = BytesMut::new();
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let length: usize = slices.iter().map(|slice| slice.len()).sum();
        this.put_off = false;
        if GATHERED_BYTES_MAX < this.waiting.len() + length {
            ready!(this.poll_send(context))?;
        }
        let large = (LARGE_BYTES..=GATHERED_BYTES_MAX).contains(&length);
        if this.waiting.is_empty() && !large {
            return Pin::new(&mut this.inner).poll_write_vectored(context, slices);
        }
        if this.waiting.is_empty() {
            this.waiting.reserve(GATHERED_BYTES_MAX);
        }
        slices.iter().for_each(|slice| this.waiting.extend_from_slice(slice));
        Poll::Ready(Ok(length))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.waiting.is_empty() && !this.put_off {
            this.put_off = true;
            // If nobody asks again in this turn, there is another one.
            context.waker().wake_by_ref();
            return Poll::Ready(Ok(()));
        }
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_send(context))?;
        Pin::new(&mut this.inner).poll_shutdown(context)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(context, into)
    }
}

#[cfg(test)]
mod tests {
    use super::{GATHERED_BYTES_MAX, Gather, LARGE_BYTES};
    use futures::task::noop_waker;
    use proptest::prelude::*;
    use std::{
        io::{self, IoSlice},
        pin::Pin,
        task::{Context, Poll},
    };
    use tokio::io::AsyncWrite;

    /// Notes every write; takes as much as it is told to, and then nothing until it is told again.
    #[derive(Default)]
    struct Log {
        writes: Vec<Vec<u8>>,
        flushes: usize,
        room: usize,
    }

    impl AsyncWrite for Log {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.room);
            if taken == 0 && !bytes.is_empty() {
                return Poll::Pending;
            }
            self.room -= taken;
            self.writes.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }
        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            self.flushes += 1;
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn flush(gather: &mut Gather<Log>) -> Poll<io::Result<()>> {
        Pin::new(gather).poll_flush(&mut Context::from_waker(&noop_waker()))
    }

    fn write(gather: &mut Gather<Log>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let slices = [IoSlice::new(first), IoSlice::new(second)];
        let waker = noop_waker();
        Pin::new(gather).poll_write_vectored(&mut Context::from_waker(&waker), &slices)
    }

    fn gather() -> Gather<Log> {
        Gather::new(Log { room: usize::MAX, ..Log::default() })
    }

    #[test]
    fn frames_in_a_row_go_out_together() {
        let mut gather = gather();
        for _ in 0..4 {
            assert!(write(&mut gather, &[7; LARGE_BYTES]).is_ready());
            assert!(flush(&mut gather).is_ready());
        }
        assert_eq!(gather.inner.writes.len(), 0);
        assert!(flush(&mut gather).is_ready());
        let lengths: Vec<usize> = gather.inner.writes.iter().map(Vec::len).collect();
        assert_eq!((lengths, gather.inner.flushes), (vec![4 * LARGE_BYTES], 1));
        assert_eq!(gather.waiting.capacity(), 0, "nothing is kept");
    }

    #[test]
    fn what_is_small_is_not_held_up() {
        let mut gather = gather();
        assert!(write(&mut gather, &[1; 100]).is_ready());
        assert_eq!(gather.inner.writes.len(), 1);
        assert!(flush(&mut gather).is_ready());
        assert_eq!(gather.inner.flushes, 1);
    }

    proptest! {
        /// However it is written and however slowly it is taken: the same bytes in the same order, and
        /// never more of them waiting than the limit.
        #[test]
        fn nothing_is_lost_or_out_of_order(
            sizes in proptest::collection::vec((1..40_000_usize, any::<bool>()), 1..40),
            rooms in proptest::collection::vec(1..60_000_usize, 1..10),
        ) {
            let mut gather = Gather::new(Log::default());
            let mut rooms = rooms.into_iter().cycle();
            let mut expect = Vec::new();
            for (index, (size, flushed)) in sizes.into_iter().enumerate() {
                let bytes = vec![u8::try_from(index).unwrap(); size];
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    match write(&mut gather, rest) {
                        Poll::Ready(done) => rest = &rest[done.unwrap()..],
                        Poll::Pending => gather.inner.room += rooms.next().unwrap(),
                    }
                    prop_assert!(gather.waiting.len() <= GATHERED_BYTES_MAX);
                }
                expect.extend(bytes);
                while flushed && flush(&mut gather).is_pending() {
                    gather.inner.room += rooms.next().unwrap();
                }
            }
            // Asked twice in a row, a flush is one.
            for _ in 0..2 {
                while flush(&mut gather).is_pending() {
                    gather.inner.room += rooms.next().unwrap();
                }
            }
            prop_assert_eq!(gather.inner.writes.concat(), expect);
        }
    }
}
