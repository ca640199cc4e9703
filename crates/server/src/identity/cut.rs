//! A connection that ends when its identity is disabled, or its certificate has ended.
use orrery_access::{Access, Over};
use orrery_pki::Identity;
use std::io::{Error, ErrorKind, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads like what is in it, until it is cut.
pub struct Cut<S> {
    inner: S,
    refused: Pin<Box<dyn Future<Output = Over> + Send>>,
    cut: Option<Over>,
    /// Whose it is, for the log.
    name: String,
}

impl<S> Cut<S> {
    pub fn new(inner: S, access: Access, identity: Identity) -> Self {
        let name = identity.spiffe.as_ref().map(ToString::to_string).unwrap_or_default();
        let refused = Box::pin(async move { access.until_refused(&identity).await });
        Self { inner, refused, cut: None, name }
    }

    fn check(&mut self, context: &mut Context<'_>) -> Result<()> {
        let aborted = |why: Over| Err(Error::new(ErrorKind::ConnectionAborted, why.as_str()));
        if let Some(why) = self.cut {
            return aborted(why);
        }
        match self.refused.as_mut().poll(context) {
            Poll::Pending => Ok(()),
            Poll::Ready(why) => {
                tracing::warn!(name = self.name, reason = why.as_str(), "closing its connection");
                self.cut = Some(why);
                aborted(why)
            }
        }
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
