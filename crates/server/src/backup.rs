//! A backup as a stream: written to a file of our own first, so that it is of one revision and whole.
use futures::stream::{self, BoxStream, StreamExt};
use orrery_hub::Error;
use orrery_store::Engine;
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

/// Small enough for one message, large enough that a backup is not made of messages.
const CHUNK_BYTES: usize = 256 << 10;

/// What is read from, and the folder that goes with it.
struct Reading {
    file: File,
    _folder: tempfile::TempDir,
}

/// The parts of a backup file, in order.
pub async fn chunks(
    engine: Arc<dyn Engine>,
) -> Result<BoxStream<'static, Result<Vec<u8>, Error>>, Error> {
    let unable = |error: std::io::Error| Error::Unavailable(format!("cannot back up: {error}"));
    let folder = tempfile::tempdir().map_err(unable)?;
    let path = folder.path().join("backup");
    orrery_store::backup(&*engine, &path)
        .await
        .map_err(|error| Error::Unavailable(format!("cannot back up: {error}")))?;
    let file = File::open(&path).await.map_err(unable)?;
    let reading = Reading { file, _folder: folder };
    Ok(stream::try_unfold(reading, move |mut reading| async move {
        let mut chunk = Vec::with_capacity(CHUNK_BYTES);
        let part = (&mut reading.file).take(CHUNK_BYTES as u64);
        tokio::pin!(part);
        let length = part.read_to_end(&mut chunk).await.map_err(unable)?;
        Ok((0 < length).then_some((chunk, reading)))
    })
    .boxed())
}
