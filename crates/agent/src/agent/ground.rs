//! The folders of an agent, which it takes for itself before it does anything.
use crate::assignments::Assignments;
use crate::config::AgentConfig;
use crate::runtime::process::unrecorded::Home;
use crate::{Error, disk, lock};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// What an agent stands on. Nobody else uses it while it is kept.
pub(super) struct Ground {
    /// An absolute path.
    pub data_dir: PathBuf,
    pub assignments: Assignments,
    _locks: (File, Option<File>),
}

impl Ground {
    pub(super) fn take(config: &AgentConfig) -> Result<Self, Error> {
        let given = &config.data_dir;
        disk::make_folder(given).map_err(trouble(given))?;
        let data_dir = given.canonicalize().map_err(trouble(given))?;
        let locks =
            (lock::lock_data_dir(&data_dir)?, lock::lock_beside(&config.run_dir, &data_dir)?);
        let assignments = Assignments::open(&data_dir).map_err(trouble(&data_dir))?;
        Ok(Self { data_dir, assignments, _locks: locks })
    }

    /// Whose runs are looked for beyond the records.
    pub(super) fn home(&self, config: &AgentConfig) -> Home {
        Home {
            data_dir: self.data_dir.clone(),
            instances: self.assignments.instances().to_owned(),
            node: config.name.clone(),
            supervisor: config.supervisor.clone(),
        }
    }
}

/// What it means when something in a folder does not work.
pub(super) fn trouble(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::DataDir { path, source }
}
