//! Lists of a project's own objects together with those that are shared with it, by name.
use super::Sight;
use crate::cursor::Cursor;
use crate::error::Error;
use crate::options::{ListOptions, Page};
use crate::paging::{self, Beginning};
use crate::store_accessor::{encode_at, fits};
use orrery_api::Encoded;
use orrery_store::{Entry, Snapshot, Store};
use std::sync::Arc;

/// One part of the list; `None` where nothing is shared with the project, together with the state that this is true
/// of.
pub(crate) async fn list(
    sight: &Sight,
    store: &Store,
    options: &ListOptions,
) -> Result<Listed, Error> {
    let Beginning { snapshot, after } =
        paging::begin(&sight.keys, store, options, &sight.reader).await?;
    if !sight.is_shared_with(&snapshot) {
        return Ok(Listed::OnlyOwn(snapshot));
    }
    let mut page = Page {
        items: Vec::new(),
        revision: snapshot.revision(),
        continue_from: None,
        remaining: None,
    };
    let mut last = None;
    for (name, entry) in merged(sight, &snapshot, &after) {
        let found = shown(sight, &entry)?;
        if !fits(&found, &options.labels, &options.fields)? {
            continue;
        }
        if 0 < options.limit && page.items.len() == options.limit {
            let after = last.map(|last: String| paging::only(&sight.keys, &sight.reader, &last));
            let revision = Some(page.revision);
            page.continue_from =
                after.map(|after| Cursor { revision, after, remaining: None }.encode());
            store.keep(&snapshot);
            break;
        }
        page.items.push(found);
        last = Some(name);
    }
    Ok(Listed::Together(page))
}

/// What a list of a project is made of.
pub(crate) enum Listed {
    /// Nothing is shared with the project in this state.
    OnlyOwn(Snapshot),
    Together(Page<Encoded>),
}

/// The entries that the project reads after a name, in the order of their names.
fn merged(sight: &Sight, snapshot: &Snapshot, after: &str) -> Vec<(String, Arc<Entry>)> {
    let own = sight.keys.project(&sight.reader);
    // No key is empty, so everything comes after the empty one.
    let from = match after {
        "" => String::new(),
        name => sight.keys.object(&sight.reader, name),
    };
    let mut all = sight.of_others(snapshot);
    let hidden = |name: &str| snapshot.get(&sight.keys.object(&sight.reader, name)).is_some();
    all.retain(|name, _| after < *name && !hidden(name));
    for entry in snapshot.range_after(&own, &from) {
        all.insert(entry.key.strip_prefix(&own).unwrap_or_default(), entry);
    }
    all.into_iter().map(|(name, entry)| (name.to_owned(), Arc::clone(entry))).collect()
}

fn shown(sight: &Sight, entry: &Entry) -> Result<Encoded, Error> {
    match sight.claim(entry).own {
        true => encode_at(&sight.kind, entry, entry.modified),
        false => sight.view(entry, entry.modified),
    }
}
