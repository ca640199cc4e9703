//! A connection that ends when its identity is disabled.
use orrery_access::Access;
use orrery_pki::Identity;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads like what is in it, until it is cut.
pub struct Cut<S> {
    inner: S,
    refused: Pin<Box<dyn Future<Output = ()> + Send>>,
    is_cut: bool,
}

impl<S> Cut<S> {
    pub fn new(inner: S, access: Access, identity: Identity) -> Self {
        let refused = Box::pin(async move { access.until_refused(&identity).await });
        Self { inner, refused, is_cut: false }
    }

    fn check(&mut self, context: &mut Context<'_>) -> Result<()> {
        if self.is_cut || self.refused.as_mut().poll(context).is_ready() {
            self.is_cut = true;
            return Err(Error::new(ErrorKind::ConnectionAborted, "the identity is revoked"));
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Cut<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Cut<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
