//! Waiting for a condition, with an upper bound.
use std::time::Duration;

/// Far beyond what anything here takes, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(20);

/// Asks until the answer is there.
pub async fn until_some<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(INTERVAL).await;
        }
    };
    match tokio::time::timeout(PATIENCE, asking).await {
        Ok(answer) => answer,
        Err(_) => panic!("it did not come about: {what}"),
    }
}

pub async fn until(what: &str, mut ask: impl AsyncFnMut() -> bool) {
    until_some(what, async || ask().await.then_some(())).await;
}
