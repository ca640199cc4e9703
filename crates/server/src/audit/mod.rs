//! The audit log: who asked for what, when, from where, and what they were told.
//!
//! ```text
//!   Visit ends ── Record ──▶ buffer (bounded) ──▶ one task ── JSON lines ──▶ file, file.1, file.2 ...
//! ```
//! It holds what people and machines ask of the API, not the states that agents report, and never what
//! is in a resource.
//!
//! Requests do not wait for the disk, and are not refused because of it: a control plane that stops
//! because its log is full helps nobody. When the disk is slow or full, records wait in the buffer;
//! when that is full too, further ones are lost, counted (`orrery_audit_records_lost_total`), reported
//! in the server's log, and a line in the audit log says how many are missing as soon as one can be
//! written.
mod file;
mod record;
mod sparing;
mod writing;

pub use record::Record;
pub use sparing::Sparing;
pub use writing::Writing;

use crate::error::Error;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use std::path::PathBuf;
use tokio::sync::mpsc;

/// Records that wait for the disk: some seconds of a busy server, a few MiB.
const WAITING_MAX: usize = 10_000;

#[derive(Clone, Debug)]
pub struct AuditOptions {
    pub path: PathBuf,
    /// The file is set aside when it has this many bytes.
    pub max_bytes: u64,
    /// Files that are kept beside it.
    pub keep: usize,
}

/// Where records are left. Clones share it.
#[derive(Clone, Debug)]
pub struct Audit {
    records: Option<mpsc::Sender<Record>>,
    written: Counter,
    lost: Counter,
}

impl Audit {
    /// The log that was asked for, or none; and what writes it.
    pub fn open(
        options: Option<&AuditOptions>,
        registry: &mut Registry,
    ) -> Result<(Self, Option<Writing>), Error> {
        let (written, lost) = (Counter::default(), Counter::default());
        let registry = registry.sub_registry_with_prefix("orrery_audit");
        registry.register("records", "Records in the audit log", written.clone());
        let help = "Records that the audit log misses, because its disk was slow or full";
        registry.register("records_lost", help, lost.clone());
        let Some(options) = options else {
            return Ok((Self { records: None, written, lost }, None));
        };
        let path = &options.path;
        let file = file::Rotating::open(options)
            .map_err(|cause| Error::Audit { path: path.clone(), cause })?;
        let (records, waiting) = mpsc::channel(WAITING_MAX);
        let audit = Self { records: Some(records), written, lost };
        let writing = Writing::new(file, waiting, audit.written.clone(), audit.lost.clone());
        Ok((audit, Some(writing)))
    }

    pub fn is_on(&self) -> bool {
        self.records.is_some()
    }

    /// Leaves a record; it never waits.
    pub fn record(&self, record: Record) {
        if let Some(records) = &self.records
            && records.try_send(record).is_err()
        {
            self.lost.inc();
        }
    }
}
