//! From arguments to what operators decide about a server.
use crate::args::{LimitArguments, OperationsArguments};
use anyhow::{Context as _, bail};
use orrery_server::{
    AuditOptions, GitOptions, KeySource, Keyring, Limits, Operations, OrphanTiming, StoreOptions,
};
use std::path::Path;
use std::time::Duration;

/// The keys themselves, instead of a file of them.
const KEY_VARIABLE: &str = "ORRERY_ENCRYPTION_KEY";
/// Beside the store, and not in it: a copy of the store alone tells nothing secret.
pub const KEY_FILE: &str = "encryption.key";

pub fn read(
    arguments: OperationsArguments,
    store: &StoreOptions,
    data: &Path,
) -> anyhow::Result<Operations> {
    let audit = arguments.audit_log.map(|path| AuditOptions {
        path,
        max_bytes: arguments.audit_max_size << 20,
        keep: arguments.audit_keep.into(),
    });
    let key = key(arguments.encryption_key_file.as_deref(), store, data)?;
    let orphans = OrphanTiming::after(Duration::from_secs(arguments.orphan_grace));
    let git = GitOptions { folder: Some(data.join("git")), allow_local: arguments.git_allow_local };
    Ok(Operations {
        key,
        audit,
        limits: limits(&arguments.limits),
        orphans,
        git,
        threads: <_>::default(),
        upstreams: arguments.upstreams.options(),
    })
}

fn limits(arguments: &LimitArguments) -> Limits {
    Limits {
        connections: arguments.limit_connections as usize,
        connections_per_peer: arguments.limit_connections_per_peer as usize,
        requests: arguments.limit_requests as usize,
        requests_per_peer: arguments.limit_requests_per_peer as usize,
        watches_per_peer: arguments.limit_watches_per_peer as usize,
        rate_per_peer: arguments.limit_rate,
    }
}

fn key(file: Option<&Path>, store: &StoreOptions, data: &Path) -> anyhow::Result<KeySource> {
    let given = std::env::var(KEY_VARIABLE).ok().filter(|text| !text.is_empty());
    match (file, given, store) {
        (Some(_), Some(_), _) => {
            bail!("give either --encryption-key-file or {KEY_VARIABLE}, not both")
        }
        (Some(path), None, _) => Ok(KeySource::File { path: path.to_owned(), make: true }),
        (None, Some(text), _) => {
            let ring: Keyring =
                text.parse().with_context(|| format!("read the keys in {KEY_VARIABLE}"))?;
            Ok(KeySource::Given(ring))
        }
        // A key of its own would be of no use: servers on one etcd share it.
        (None, None, StoreOptions::Etcd(_)) => {
            tracing::warn!(
                "without --encryption-key-file this server keeps nothing secret; servers on one etcd share the file"
            );
            Ok(KeySource::None)
        }
        (None, None, StoreOptions::Embedded(_) | StoreOptions::Memory) => {
            Ok(KeySource::File { path: data.join(KEY_FILE), make: true })
        }
    }
}
