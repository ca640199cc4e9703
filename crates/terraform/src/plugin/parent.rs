//! The host that started us, and whether it is still there.
use rustix::process::{PidfdFlags, getppid, pidfd_open};
use std::future::pending;
use tokio::net::unix::pipe::Receiver;

/// The process that started us, held by a file that tells of its end.
pub struct Parent(std::io::Result<Receiver>);

impl Parent {
    /// To be called before the host is told where we are: until then it waits for us, and is there.
    pub fn find() -> Self {
        let opened = match getppid() {
            Some(parent) => pidfd_open(parent, PidfdFlags::NONBLOCK).map_err(Into::into),
            None => Err(std::io::ErrorKind::NotFound.into()),
        };
        // It is no pipe, but it is watched like one: all that is asked of it is when it becomes readable.
        Self(opened.and_then(Receiver::from_owned_fd_unchecked))
    }

    /// Ends when the host does: one that was killed cannot ask us to end. Where the system cannot tell, it never does.
    pub async fn gone(self) {
        let ended = match &self.0 {
            Ok(file) => file.readable().await,
            Err(error) => Err(std::io::Error::from(error.kind())),
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "cannot see whether the host is still there");
            pending::<()>().await;
        }
    }
}
