//! What a supervisor carries in its environment: whose run it looks after.
//!
//! Records can be lost, and what runs stays. The environment of a process is shown by the kernel to the
//! user that it belongs to for as long as it lives; so an agent finds there what it needs to write the
//! record anew. Programs do not inherit it: a supervisor starts them with an environment of their own.
use super::record::{Launch, Stop};
use crate::model::{History, SpecHash};
use crate::procfs;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The variable that holds the mark.
pub(super) const VARIABLE: &str = "ORRERY_SUPERVISED";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Mark {
    pub node: String,
    pub instance: String,
    pub run: String,
    pub hash: SpecHash,
    pub history: History,
    pub stop: Stop,
    /// Where the volumes are that it uses; who uses which is a note in the data folder too.
    pub volumes: Vec<PathBuf>,
}

impl Mark {
    pub(super) fn of(launch: &Launch, node: &str, instance: &str) -> Self {
        Self {
            node: node.to_owned(),
            instance: instance.to_owned(),
            run: launch.run.clone(),
            hash: launch.hash.clone(),
            history: launch.history,
            stop: launch.stop,
            volumes: launch.volumes.iter().map(|bind| bind.source.clone()).collect(),
        }
    }

    /// The value of the variable.
    pub(super) fn text(&self) -> String {
        // Words and numbers: there is nothing in it that could not be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// What a process carries. Supervisors of earlier versions carry nothing.
    pub(super) fn read(pid: i32) -> Option<Self> {
        serde_json::from_str(procfs::environment(pid).get(VARIABLE)?).ok()
    }
}
