//! Lets clients of a Unix socket name whatever they like as the host they call.
//!
//! ```text
//!  client ── :authority %2Frun%2Fcsi.sock ──> Local ── :authority localhost ──> HTTP/2 server
//! ```
//!
//! A socket has no host name, and gRPC never said what stands there instead: clients made of gRPC's C
//! core send the path with percent signs, those in Java and older ones in Go the bare path. The HTTP/2
//! library takes names of hosts only and ends every such call with PROTOCOL_ERROR, which no setting of
//! it changes (hyperium/h2#487). So the heads of requests are written anew before it sees them.
mod heads;

use bytes::BytesMut;
use heads::Heads;
use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is read at once: the longest frame that a client may send, and its header.
const READ_BYTES: usize = (16 << 10) + 9;

/// The server's end of a connection whose client may name any authority.
pub struct Local<S> {
    stream: S,
    heads: Heads,
    /// What came from the client and was not looked at yet.
    pending: BytesMut,
    /// What the server has not read yet: never more than one frame, or one head.
    ready: BytesMut,
}

impl<S> Local<S> {
    pub fn new(stream: S) -> Self {
        let (pending, ready) = (BytesMut::new(), BytesMut::new());
        Self { stream, heads: Heads::default(), pending, ready }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Local<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { stream, heads, pending, ready } = self.get_mut();
        while ready.is_empty() {
            if heads.step(pending, ready)? {
                continue;
            }
            let before = pending.len();
            pending.resize(before + READ_BYTES, 0);
            let mut more = ReadBuf::new(&mut pending[before..]);
            let read = Pin::new(&mut *stream).poll_read(context, &mut more);
            let length = more.filled().len();
            pending.truncate(before + length);
            ready!(read)?;
            if length == 0 {
                return Poll::Ready(Ok(()));
            }
        }
        let length = ready.len().min(buffer.remaining());
        buffer.put_slice(&ready.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Local<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write(context, data)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().stream).poll_write_vectored(context, data)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}
