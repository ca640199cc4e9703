//! Filling the cache from an engine.

use std::sync::Arc;

use super::{StoreOptions, state::State};
use crate::{
    engine::{Engine, ListRequest},
    entries::Entries,
    error::Error,
    model::Revision,
};

/// Entries per page. Large enough that the round trips do not show, small enough that a page of
/// ordinary objects stays far below the message limits of gRPC.
const PAGE: usize = 500;

/// How often loading starts over because the history was compacted under it.
const ATTEMPTS_MAX: usize = 8;

/// The state a while ago. The feed replays the history since, so that after a restart watchers
/// can resume from before it, and continued lists go on.
pub(super) async fn load(engine: &dyn Engine, options: &StoreOptions) -> Result<State, Error> {
    let current = engine.current(&options.prefix).await?;
    let back = u64::try_from(options.history_revisions).unwrap_or(u64::MAX);
    let wanted = Revision(current.0.saturating_sub(back));
    let (entries, revision) = entries_at(engine, &options.prefix, Some(wanted)).await?;
    Ok(State::new(entries, revision, options))
}

/// All entries under a prefix at `at` or, where that is compacted, at the oldest revision left.
pub(super) async fn entries_at(
    engine: &dyn Engine,
    prefix: &str,
    at: Option<Revision>,
) -> Result<(Entries, Revision), Error> {
    let mut at = at;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match pages(engine, prefix, at).await {
            Err(Error::Compacted { oldest, .. }) if attempts < ATTEMPTS_MAX => at = Some(oldest),
            outcome => return outcome,
        }
    }
}

async fn pages(
    engine: &dyn Engine,
    prefix: &str,
    at: Option<Revision>,
) -> Result<(Entries, Revision), Error> {
    let mut request = ListRequest { at, limit: PAGE, ..ListRequest::prefix(prefix) };
    let mut entries = Vec::new();
    loop {
        let page = engine.list(request.clone()).await?;
        request.at = Some(page.revision);
        request.after = page.entries.last().map(|entry| Arc::clone(&entry.key));
        entries.extend(page.entries.into_iter().map(Arc::new));
        if !page.more {
            return Ok((entries.into_iter().collect(), page.revision));
        }
    }
}
