//! Ctrl-C and its relatives.
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Waits for the signals that ask a process to stop.
pub struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    /// From here on they do not end the process by themselves.
    pub fn listen() -> std::io::Result<Self> {
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { interrupt, terminate })
    }

    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Tells when the terminal's window has another size.
pub struct WindowChanges {
    changed: Signal,
}

impl WindowChanges {
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { changed: signal(SignalKind::window_change())? })
    }

    pub async fn next(&mut self) {
        if self.changed.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}
