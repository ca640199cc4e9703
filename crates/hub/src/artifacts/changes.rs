//! Whose files change.
use super::{Artifacts, keys};
use crate::error::Error;
use crate::refusal::from_store;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use orrery_store::{Batch, ListRequest};
use std::collections::BTreeSet;

/// For each commit the identities of the objects whose files it changed.
pub type Changes = BoxStream<'static, Result<BTreeSet<String>, Error>>;

impl Artifacts {
    /// Every change from now on. After an error some may have been missed: look at all, and begin anew.
    pub async fn changes(&self) -> Result<Changes, Error> {
        // Where files last changed may be forgotten by now; where the store stands is not.
        let any = ListRequest { limit: 1, ..ListRequest::prefix(keys::FILES) };
        let now = self.engine().list(any).await.map_err(from_store)?.revision;
        let watch = self.engine().watch(keys::FILES, now).await.map_err(from_store)?;
        let told = watch.map_ok(|batch| owners(&batch)).map_err(from_store);
        Ok(told.try_filter(|owners| std::future::ready(!owners.is_empty())).boxed())
    }
}

fn owners(batch: &Batch) -> BTreeSet<String> {
    let owner = |key: &str| Some(key.strip_prefix(keys::FILES)?.split_once('/')?.0.to_owned());
    batch.changes.iter().filter_map(|change| owner(change.key())).collect()
}
