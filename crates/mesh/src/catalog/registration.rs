//! The stay of a connected proxy among the self-announced endpoints.
use std::fmt;

/// Ends the stay when dropped, so that it cannot outlive the stream it belongs to.
pub struct Registration {
    leave: Option<Box<dyn FnOnce() + Send + Sync>>,
}

impl Registration {
    pub fn new(leave: impl FnOnce() + Send + Sync + 'static) -> Self {
        Self { leave: Some(Box::new(leave)) }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(leave) = self.leave.take() {
            leave();
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Registration")
    }
}
