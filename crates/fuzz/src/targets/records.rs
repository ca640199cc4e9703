//! What is kept on disk: a file of another program, or one that is damaged, is refused.
use std::io::Write as _;
use std::sync::OnceLock;
use tokio::runtime::{Builder, Runtime};

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_current_thread().build().expect("a runtime"))
}

/// A backup is read to its end or refused, whatever lengths it claims.
pub fn backup(bytes: &[u8]) {
    let mut file = tempfile::NamedTempFile::new().expect("a file of our own");
    file.write_all(bytes).expect("written");
    let _ = runtime().block_on(orrery_store::inspect_backup(file.path()));
}

pub fn row(bytes: &[u8]) {
    orrery_store::embedded::fuzz_row(bytes);
}
