//! Waiting until an object is as it should be, with a deadline.
use super::server::{Name, Server, ServerError, read};
use orrery_client::judge::Verdict;
use orrery_proto::hub::v1::watch_response::Type as Change;
use serde_json::Value as Json;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

/// Between two tries to reach a server that went away.
const PAUSE: Duration = Duration::from_millis(500);

/// How a wait ended, and the object as it was then.
pub struct Waited {
    pub object: Option<Json>,
    pub end: Result<(), WaitError>,
}

#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    #[error("after {}: {why}", print(*.after))]
    TimedOut { after: Duration, why: String },
    #[error("{0}")]
    Hopeless(String),
    #[error("it was interrupted: {0}")]
    Interrupted(String),
    #[error(transparent)]
    Server(#[from] ServerError),
}

/// Waits until `judge` is content with the object, which may be absent. A server that goes away is waited for too.
pub async fn wait(
    server: &Server,
    name: &Name,
    judge: impl Fn(Option<&Json>) -> Verdict,
    limit: Duration,
    stop: &CancellationToken,
) -> Waited {
    let deadline = Instant::now() + limit;
    let mut following = Following { object: None, why: "nothing is known of it yet".to_owned() };
    let looking = async {
        loop {
            match following.follow(server, name, &judge).await {
                Err(WaitError::Server(error)) if error.is_away() => {
                    following.why = error.to_string();
                    sleep(PAUSE).await;
                }
                // The server ended it; the next one is had a little later.
                Ok(false) => sleep(PAUSE).await,
                Ok(true) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    };
    let end = tokio::select! {
        ended = timeout_at(deadline, looking) => ended.ok(),
        () = stop.cancelled() => Some(Err(WaitError::Interrupted(String::new()))),
    };
    let Following { object, why } = following;
    let end = match end {
        Some(Err(WaitError::Interrupted(_))) => Err(WaitError::Interrupted(why)),
        Some(end) => end,
        None => Err(WaitError::TimedOut { after: limit, why }),
    };
    Waited { object, end }
}

struct Following {
    /// As it was last seen.
    object: Option<Json>,
    /// Why it is still waited for.
    why: String,
}

impl Following {
    /// Follows one watch to its end. True when the judge is content.
    async fn follow(
        &mut self,
        server: &Server,
        name: &Name,
        judge: &impl Fn(Option<&Json>) -> Verdict,
    ) -> Result<bool, WaitError> {
        let mut changes = server.watch(name).await?;
        let mut seen = false;
        while let Some(change) = changes.next().await.map_err(ServerError::from)? {
            match change.r#type() {
                Change::Added | Change::Modified => {
                    self.object = Some(read(change.resource.as_ref())?);
                    seen = true;
                }
                Change::Deleted => self.object = None,
                // It ends what was there at the start: without the object, there is none.
                Change::Bookmark if !seen => self.object = None,
                Change::Bookmark | Change::Unspecified => continue,
            }
            match judge(self.object.as_ref()) {
                Verdict::Done(_) => return Ok(true),
                Verdict::Hopeless(why) => return Err(WaitError::Hopeless(why)),
                Verdict::Open(why) => self.why = why,
            }
        }
        Ok(false)
    }
}

/// `20m` rather than `1200s`.
fn print(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds, seconds % 3600, seconds % 60) {
        (0, _, _) => format!("{}ms", duration.as_millis()),
        (_, 0, _) => format!("{}h", seconds / 3600),
        (_, _, 0) => format!("{}m", seconds / 60),
        (_, _, _) => format!("{seconds}s"),
    }
}
