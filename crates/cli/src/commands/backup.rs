//! `orrery backup` and `orrery restore`.
use crate::args::{BackupArguments, Global, RestoreArguments};
use crate::connection::Target;
use crate::output::print;
use crate::paths;
use anyhow::{Context as _, ensure};
use orrery_server::EmbeddedOptions;
use std::path::Path;
use tokio::io::AsyncWriteExt as _;

pub async fn save(global: &Global, arguments: BackupArguments) -> anyhow::Result<()> {
    let file = &arguments.file;
    let advice = "a backup is looked at before it gets its name, so it goes to a file: name one";
    ensure!(file.as_os_str() != "-", "{advice}");
    ensure!(!file.exists(), "{} is there already; choose another name", file.display());
    let server = Target::find(global, &arguments.connection)?.connect().await?;
    let mut parts = server.backup().await?;
    // It gets its name when it is whole and known to be good.
    let staged = file.with_extension("partial");
    let outcome = async {
        let mut writing = create(&staged).await?;
        while let Some(part) = parts.next().await? {
            writing.write_all(&part).await.context("write the backup")?;
        }
        writing.sync_all().await.context("write the backup")?;
        let summary = orrery_server::inspect_backup(&staged).await?;
        std::fs::rename(&staged, file).with_context(|| format!("name {}", file.display()))?;
        anyhow::Ok(summary)
    };
    match outcome.await {
        Ok(summary) => {
            let (entries, revision) = (summary.entries, summary.revision);
            print::line(&format!("{}: {entries} entries at revision {revision}", file.display()))
        }
        Err(error) => {
            // What is left of a failed backup is of no use to anybody.
            let _ = std::fs::remove_file(&staged);
            Err(error)
        }
    }
}

/// What becomes of what the backup does not know, for whoever restores one beside what runs.
const NEWER: &str = "\
What was made after the backup is not in it: workloads that it does not know are stopped when their agents connect, and
machines are deleted after --orphan-grace (an hour) unless they are frozen. See docs/operations.md, Backups.";

pub async fn restore(arguments: RestoreArguments) -> anyhow::Result<()> {
    let folder = paths::data(Some(arguments.data_dir))?;
    let store = folder.join("store");
    std::fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
    let options = EmbeddedOptions::default();
    let summary = orrery_server::restore(&arguments.file, &store, options).await?;
    print::line(&format!("{} entries restored to {}", summary.entries, folder.display()))?;
    let key = folder.join(super::operations::KEY_FILE);
    print::line(&format!("What is secret needs its key: copy the key file to {}", key.display()))?;
    print::line(NEWER)?;
    print::line(&format!("Start the server with: orrery server --data-dir {}", folder.display()))
}

/// Readable by its owner only: it holds everything.
async fn create(path: &Path) -> anyhow::Result<tokio::fs::File> {
    let mut options = tokio::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).await.with_context(|| format!("create {}", path.display()))
}
