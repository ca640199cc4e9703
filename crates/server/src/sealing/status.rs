//! What is sealed with which key.
use super::Rotation;
use super::places::Agreement;
use super::rotate::store;
use orrery_hub::Error;
use orrery_seal::{KeyId, sealed_by};
use orrery_store::ListRequest;
use std::collections::BTreeMap;

/// Objects read at once.
const PAGE: usize = 500;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The key that seals; absent without one.
    pub key: Option<KeyId>,
    /// How many objects each key has sealed; with every key that this server holds.
    pub keys: BTreeMap<KeyId, u64>,
    /// Objects that should be sealed and are not, from before there was a key.
    pub plain: u64,
    /// The keys that each server holds.
    pub servers: BTreeMap<String, Vec<KeyId>>,
}

impl Rotation {
    pub async fn status(&self) -> Result<Status, Error> {
        let ring = self.sealer().ring();
        let mut status = Status { key: ring.as_ref().map(|ring| ring.current()), ..<_>::default() };
        status.keys.extend(ring.iter().flat_map(|ring| ring.ids()).map(|id| (id, 0)));
        let agreement = Agreement::read(self.engine()).await.map_err(store)?;
        let servers = agreement.servers.into_iter().map(|(server, (ids, _))| (server, ids));
        status.servers = servers.collect();
        for prefix in self.sealer().prefixes() {
            self.count(prefix, &mut status).await?;
        }
        Ok(status)
    }

    async fn count(&self, prefix: &str, status: &mut Status) -> Result<(), Error> {
        let mut request = ListRequest { limit: PAGE, ..ListRequest::prefix(prefix) };
        loop {
            let page = self.engine().list(request.clone()).await.map_err(store)?;
            for entry in &page.entries {
                match sealed_by(&entry.value) {
                    Ok(key) => *status.keys.entry(key).or_default() += 1,
                    Err(_) => status.plain += 1,
                }
            }
            request.after = page.entries.last().map(|entry| entry.key.clone());
            if !page.more {
                return Ok(());
            }
        }
    }
}
