//! Filling the cache from an engine.

use std::{panic, sync::Arc, task::Poll, thread};

use super::{
    StoreOptions, Terms,
    index::{Index, Place},
    state::State,
};
use crate::{
    engine::{Engine, ListRequest},
    entries::Entries,
    error::Error,
    model::{Entry, Revision},
};

/// Entries per page. Large enough that the round trips do not show, small enough that a page of
/// ordinary objects stays far below the message limits of gRPC.
const PAGE: usize = 500;

/// With fewer entries than this, a thread costs more than it helps.
const SIDE_BY_SIDE_MIN: usize = 10_000;

/// How often loading starts over because the history was compacted under it.
const ATTEMPTS_MAX: usize = 8;

/// The state a while ago. The feed replays the history since, so that after a restart watchers
/// can resume from before it, and continued lists go on.
pub(super) async fn load(engine: &dyn Engine, options: &StoreOptions) -> Result<State, Error> {
    let current = engine.current(&options.prefix).await?;
    let back = u64::try_from(options.history_revisions).unwrap_or(u64::MAX);
    let wanted = Revision(current.0.saturating_sub(back));
    let loaded = loaded_at(engine, options, Some(wanted)).await?;
    Ok(State::new(loaded, options))
}

/// Everything that an engine holds, at one revision.
pub(super) struct Loaded {
    pub entries: Entries,
    pub index: Option<Index>,
    pub revision: Revision,
}

/// All entries under a prefix at `at` or, where that is compacted, at the oldest revision left.
pub(super) async fn loaded_at(
    engine: &dyn Engine,
    options: &StoreOptions,
    at: Option<Revision>,
) -> Result<Loaded, Error> {
    let mut at = at;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match pages(engine, options, at).await {
            Err(Error::Compacted { oldest, .. }) if attempts < ATTEMPTS_MAX => at = Some(oldest),
            outcome => return outcome,
        }
    }
}

async fn pages(
    engine: &dyn Engine,
    options: &StoreOptions,
    at: Option<Revision>,
) -> Result<Loaded, Error> {
    let mut request =
        ListRequest { at, limit: PAGE, ..ListRequest::prefix(options.prefix.as_str()) };
    let mut found = Found { terms: options.terms.clone(), ..Found::default() };
    let mut page = engine.list(request.clone()).await?;
    while page.more {
        request.at = Some(page.revision);
        request.after = page.entries.last().map(|entry| Arc::clone(&entry.key));
        // Begun before this page is put away: engines read on threads of their own.
        let mut next = engine.list(request.clone());
        let begun = futures::poll!(&mut next);
        found.take(page.entries);
        page = match begun {
            Poll::Ready(page) => page?,
            Poll::Pending => next.await?,
        };
    }
    found.take(page.entries);
    Ok(found.loaded(page.revision))
}

/// What was found so far, in order.
#[derive(Default)]
struct Found {
    terms: Option<Arc<dyn Terms>>,
    entries: Vec<Arc<Entry>>,
    places: Vec<Place>,
}

impl Found {
    fn take(&mut self, entries: Vec<Entry>) {
        if let Some(terms) = &self.terms {
            self.places.extend(entries.iter().flat_map(|entry| Index::places(&**terms, entry)));
        }
        self.entries.extend(entries.into_iter().map(Arc::new));
    }

    /// Makes the two trees, side by side where they are large.
    fn loaded(self, revision: Revision) -> Loaded {
        let Self { terms, entries, places } = self;
        let many = SIDE_BY_SIDE_MIN <= entries.len();
        let index = move || terms.map(|terms| Index::of(terms, places));
        if !many {
            return Loaded { entries: entries.into_iter().collect(), index: index(), revision };
        }
        thread::scope(|scope| {
            let index = scope.spawn(index);
            let entries = entries.into_iter().collect();
            let index = index.join().unwrap_or_else(|reason| panic::resume_unwind(reason));
            Loaded { entries, index, revision }
        })
    }
}
