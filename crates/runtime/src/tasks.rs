//! Named tasks with an owner.
//!
//! Every long-lived task of a process belongs to one [`Tasks`]: it has a name, it is told to stop
//! through one token, and its end is noticed. There is no naked `spawn`.
use futures::future::BoxFuture;
use std::future::Future;
use std::time::Duration;
use tokio::task::{Id, JoinSet};
use tokio_util::sync::CancellationToken;

/// What the end of a task means for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnEnd {
    /// The process cannot go on without it: its end, before a stop was asked for, stops everything.
    StopAll,
    /// Others do not need it; its failure is logged.
    Ignore,
}

/// Why the tasks ended.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("task {name} failed: {message}")]
    Failed { name: &'static str, message: String },
    #[error("task {name} ended before it was asked to")]
    EndedEarly { name: &'static str },
    #[error("tasks did not stop within {}s: {}", .within.as_secs(), .names.join(", "))]
    Stuck { within: Duration, names: Vec<&'static str> },
}

type Outcome = Result<(), String>;

/// The tasks of one process or of one test.
#[derive(Default)]
pub struct Tasks {
    stop: CancellationToken,
    running: JoinSet<Outcome>,
    names: std::collections::HashMap<Id, (&'static str, OnEnd)>,
    last: Vec<BoxFuture<'static, ()>>,
}

impl Tasks {
    pub fn new(stop: CancellationToken) -> Self {
        Self { stop, ..Self::default() }
    }

    /// The token that every task should heed.
    pub fn stop_token(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a task.
    pub fn spawn<E: std::fmt::Display>(
        &mut self,
        name: &'static str,
        on_end: OnEnd,
        task: impl Future<Output = Result<(), E>> + Send + 'static,
    ) {
        let handle = self.running.spawn(async move { task.await.map_err(|e| e.to_string()) });
        self.names.insert(handle.id(), (name, on_end));
    }

    /// Does this when every task has ended: closes what they all used.
    pub fn finally(&mut self, last: impl Future<Output = ()> + Send + 'static) {
        self.last.push(Box::pin(last));
    }

    /// Runs until the token is cancelled or a task that the process needs ends; then stops the
    /// rest and waits for it, at most `grace`.
    pub async fn run(mut self, grace: Duration) -> Result<(), TaskError> {
        let outcome = self.until_stop().await;
        self.stop.cancel();
        let drained = tokio::time::timeout(grace, self.drain()).await;
        for last in std::mem::take(&mut self.last) {
            last.await;
        }
        match (outcome, drained) {
            (Err(error), _) | (Ok(()), Ok(Err(error))) => Err(error),
            (Ok(()), Ok(Ok(()))) => Ok(()),
            (Ok(()), Err(_)) => Err(TaskError::Stuck {
                within: grace,
                names: self.names.values().map(|(name, _)| *name).collect(),
            }),
        }
    }

    async fn until_stop(&mut self) -> Result<(), TaskError> {
        let stop = self.stop.clone();
        loop {
            let ended = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                ended = self.running.join_next_with_id() => ended,
            };
            let Some(ended) = ended else {
                stop.cancelled().await;
                return Ok(());
            };
            let (name, on_end, result) = self.identify(ended);
            match (on_end, result) {
                (OnEnd::StopAll, Ok(())) if !stop.is_cancelled() => {
                    return Err(TaskError::EndedEarly { name });
                }
                (OnEnd::StopAll, Err(message)) => return Err(TaskError::Failed { name, message }),
                (OnEnd::Ignore, Err(message)) => {
                    tracing::error!(task = name, %message, "task failed");
                }
                (OnEnd::StopAll | OnEnd::Ignore, Ok(())) => {}
            }
        }
    }

    /// Waits for every task; the first failure is the result.
    async fn drain(&mut self) -> Result<(), TaskError> {
        let mut first = Ok(());
        while let Some(ended) = self.running.join_next_with_id().await {
            let (name, _, result) = self.identify(ended);
            if let (Ok(()), Err(message)) = (&first, result) {
                first = Err(TaskError::Failed { name, message });
            }
        }
        first
    }

    fn identify(
        &mut self,
        ended: Result<(Id, Outcome), tokio::task::JoinError>,
    ) -> (&'static str, OnEnd, Outcome) {
        let (id, outcome) = match ended {
            Ok((id, outcome)) => (id, outcome),
            Err(error) => (error.id(), Err(error.to_string())),
        };
        let (name, on_end) = self.names.remove(&id).unwrap_or(("unnamed", OnEnd::Ignore));
        (name, on_end, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    const GRACE: Duration = Duration::from_secs(5);

    async fn until(stop: CancellationToken) -> Result<(), Infallible> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn stops_all_when_told() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.spawn("a", OnEnd::StopAll, until(tasks.stop_token()));
        tasks.spawn("b", OnEnd::Ignore, until(tasks.stop_token()));
        stop.cancel();
        tasks.run(GRACE).await.expect("a clean stop");
    }

    #[tokio::test(start_paused = true)]
    async fn a_needed_task_that_ends_stops_the_rest_and_is_named() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("listener", OnEnd::StopAll, async { Err::<(), _>("address in use") });
        tasks.spawn("other", OnEnd::Ignore, until(tasks.stop_token()));
        let error = tasks.run(GRACE).await.expect_err("the failure is reported");
        assert_eq!(error.to_string(), "task listener failed: address in use");
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_a_failure() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("odd", OnEnd::StopAll, async {
            assert!(GRACE.is_zero(), "planted");
            Ok::<(), Infallible>(())
        });
        let error = tasks.run(GRACE).await.expect_err("the panic is reported");
        assert!(error.to_string().starts_with("task odd failed"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_stop_is_named() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.spawn("stubborn", OnEnd::Ignore, std::future::pending::<Result<(), Infallible>>());
        stop.cancel();
        let error = tasks.run(GRACE).await.expect_err("it never ends");
        assert_eq!(error.to_string(), "tasks did not stop within 5s: stubborn");
    }
}
