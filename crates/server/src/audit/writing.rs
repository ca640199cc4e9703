//! The one task that writes the audit log.
use super::Record;
use super::file::Rotating;
use prometheus_client::metrics::counter::Counter;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Records that are written at once.
const BATCH_MAX: usize = 512;
/// The pause before a write that failed is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// When the server stops, requests under way still end; after this long without one it is over.
const LAST_WORDS: Duration = Duration::from_millis(300);

#[derive(Debug)]
pub struct Writing {
    file: Option<Rotating>,
    waiting: mpsc::Receiver<Record>,
    written: Counter,
    lost: Counter,
    /// Lost ones that the log does not speak of yet.
    told: u64,
    failing: bool,
}

impl Writing {
    pub(super) fn new(
        file: Rotating,
        waiting: mpsc::Receiver<Record>,
        written: Counter,
        lost: Counter,
    ) -> Self {
        Self { file: Some(file), waiting, written, lost, told: 0, failing: false }
    }

    /// Writes until it is told to stop and nothing more comes.
    pub async fn run(mut self, stop: CancellationToken) -> Result<(), std::convert::Infallible> {
        let mut batch = Vec::with_capacity(BATCH_MAX);
        loop {
            let stopping = stop.is_cancelled();
            let received = self.waiting.recv_many(&mut batch, BATCH_MAX);
            let count = if stopping {
                tokio::time::timeout(LAST_WORDS, received).await.unwrap_or_default()
            } else {
                tokio::select! {
                    count = received => count,
                    () = stop.cancelled() => continue,
                }
            };
            if count == 0 {
                return Ok(());
            }
            self.write(&batch, &stop).await;
            batch.clear();
        }
    }

    /// Tries until the disk takes it; when the server stops, once.
    async fn write(&mut self, batch: &[Record], stop: &CancellationToken) {
        let lost = self.lost.get();
        let text = lines(batch, lost - self.told);
        loop {
            let Some(mut file) = self.file.take() else { return };
            let lines = text.clone();
            let writing = tokio::task::spawn_blocking(move || {
                let outcome = file.write(&lines);
                (file, outcome)
            });
            let Ok((file, outcome)) = writing.await else { return };
            let path = file.path().display().to_string();
            self.file = Some(file);
            match outcome {
                Ok(()) => {
                    self.written.inc_by(batch.len() as u64);
                    self.told = lost;
                    if std::mem::take(&mut self.failing) {
                        tracing::warn!(path, lost, "the audit log is written again");
                    }
                    return;
                }
                Err(error) if !std::mem::replace(&mut self.failing, true) => {
                    tracing::error!(path, %error, "cannot write the audit log; records wait, then they are lost");
                }
                Err(_) => {}
            }
            if stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
                return;
            }
        }
    }
}

fn lines(batch: &[Record], missing: u64) -> Vec<u8> {
    let mut text = Vec::new();
    if 0 < missing {
        text.extend_from_slice(format!("{{\"lost\":{missing}}}\n").as_bytes());
    }
    for record in batch {
        // Plain data: texts and numbers.
        if serde_json::to_writer(&mut text, record).is_ok() {
            text.push(b'\n');
        }
    }
    text
}
