//! Control groups: limits of a process and all that it starts, together.
//!
//! One group per instance, below `orrery` in each hierarchy that is needed. Systems differ: one
//! hierarchy with all controllers (version 2), one per controller (version 1), or both at once. What a
//! system does not have is named, and the program runs without it.
use crate::runtime::process::record::GroupLimits;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const ROOT: &str = "/sys/fs/cgroup";
const OURS: &str = "orrery";

/// The period over which processor time is shared out, in microseconds; the kernel's own default.
const PERIOD_US: u64 = 100_000;

/// Groups that a program has to join, and what could not be limited.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Prepared {
    pub join: Vec<PathBuf>,
    pub warning: Option<String>,
}

/// What a controller is called, and the files that set its limit in either version.
struct Setting {
    controller: &'static str,
    what: &'static str,
    unified: (&'static str, String),
    legacy: Vec<(&'static str, String)>,
}

/// Makes the groups of an instance.
pub(crate) fn prepare(id: &str, limits: GroupLimits) -> Prepared {
    prepare_below(Path::new(ROOT), id, limits)
}

/// Takes the groups of an instance away; nothing may be left in them.
pub(crate) fn remove(id: &str) -> io::Result<()> {
    remove_below(Path::new(ROOT), id)
}

fn settings(limits: GroupLimits) -> Vec<Setting> {
    let mut settings = Vec::new();
    if let Some(bytes) = limits.memory_bytes {
        settings.push(Setting {
            controller: "memory",
            what: "memory",
            unified: ("memory.max", bytes.to_string()),
            legacy: vec![("memory.limit_in_bytes", bytes.to_string())],
        });
    }
    if let Some(millis) = limits.cpu_millis {
        let quota = millis.saturating_mul(PERIOD_US) / 1000;
        settings.push(Setting {
            controller: "cpu",
            what: "processor",
            unified: ("cpu.max", format!("{quota} {PERIOD_US}")),
            legacy: vec![
                ("cpu.cfs_period_us", PERIOD_US.to_string()),
                ("cpu.cfs_quota_us", quota.to_string()),
            ],
        });
    }
    if let Some(processes) = limits.processes {
        settings.push(Setting {
            controller: "pids",
            what: "process",
            unified: ("pids.max", processes.to_string()),
            legacy: vec![("pids.max", processes.to_string())],
        });
    }
    settings
}

fn prepare_below(root: &Path, id: &str, limits: GroupLimits) -> Prepared {
    let mut prepared = Prepared::default();
    let mut missing = Vec::new();
    for setting in settings(limits) {
        match set(root, id, &setting) {
            Ok(group) if prepared.join.contains(&group) => {}
            Ok(group) => prepared.join.push(group),
            Err(why) => missing.push(format!("its {} limit is not enforced: {why}", setting.what)),
        }
    }
    prepared.warning = (!missing.is_empty()).then(|| missing.join("; "));
    prepared
}

/// The group in which the limit holds.
fn set(root: &Path, id: &str, setting: &Setting) -> Result<PathBuf, String> {
    let controller = setting.controller;
    if has_controller(root, controller) {
        return unified(root, id, setting).map_err(|error| format!("control group: {error}"));
    }
    let hierarchy = root.join(controller);
    if !hierarchy.join("cgroup.procs").exists() {
        return Err(format!("this system has no control groups for {controller}"));
    }
    let group = hierarchy.join(OURS).join(id);
    let made = make(&group).and_then(|()| {
        setting.legacy.iter().try_for_each(|(file, value)| fs::write(group.join(file), value))
    });
    made.map(|()| group).map_err(|error| format!("control group: {error}"))
}

fn has_controller(root: &Path, controller: &str) -> bool {
    let controllers = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
    controllers.split_ascii_whitespace().any(|there| there == controller)
}

fn unified(root: &Path, id: &str, setting: &Setting) -> io::Result<PathBuf> {
    let ours = root.join(OURS);
    let group = ours.join(id);
    make(&group)?;
    let enable = format!("+{}", setting.controller);
    for parent in [root, ours.as_path()] {
        fs::write(parent.join("cgroup.subtree_control"), &enable)?;
    }
    let (file, value) = &setting.unified;
    fs::write(group.join(file), value)?;
    Ok(group)
}

fn make(group: &Path) -> io::Result<()> {
    fs::create_dir_all(group)
}

/// Puts this process, and what it starts from now on, into the groups.
pub(crate) fn join(groups: &[PathBuf]) -> io::Result<()> {
    groups.iter().try_for_each(|group| fs::write(group.join("cgroup.procs"), "0"))
}

fn remove_below(root: &Path, id: &str) -> io::Result<()> {
    let hierarchies = ["", "memory", "cpu", "pids"].map(|name| root.join(name).join(OURS).join(id));
    for group in hierarchies {
        match fs::remove_dir(&group) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: GroupLimits =
        GroupLimits { cpu_millis: Some(500), memory_bytes: Some(1 << 20), processes: Some(7) };

    fn read(root: &Path, file: &str) -> String {
        fs::read_to_string(root.join(file)).unwrap_or_default()
    }

    #[test]
    fn one_hierarchy_with_all_controllers() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("cgroup.controllers"), "cpuset cpu memory pids\n").unwrap();
        let prepared = prepare_below(dir.path(), "i-1", ALL);
        assert_eq!(prepared, Prepared { join: vec![dir.path().join("orrery/i-1")], warning: None });
        assert_eq!(read(dir.path(), "orrery/i-1/memory.max"), "1048576");
        assert_eq!(read(dir.path(), "orrery/i-1/cpu.max"), "50000 100000");
        assert_eq!(read(dir.path(), "orrery/i-1/pids.max"), "7");
    }

    #[test]
    fn one_hierarchy_per_controller_and_some_are_missing() {
        let dir = tempfile::tempdir().unwrap();
        for controller in ["memory", "cpu"] {
            fs::create_dir(dir.path().join(controller)).unwrap();
            fs::write(dir.path().join(controller).join("cgroup.procs"), "").unwrap();
        }
        let prepared = prepare_below(dir.path(), "i-1", ALL);
        assert_eq!(prepared.join.len(), 2);
        assert_eq!(read(dir.path(), "memory/orrery/i-1/memory.limit_in_bytes"), "1048576");
        assert_eq!(read(dir.path(), "cpu/orrery/i-1/cpu.cfs_quota_us"), "50000");
        let warning =
            "its process limit is not enforced: this system has no control groups for pids";
        assert_eq!(prepared.warning.as_deref(), Some(warning));
    }

    #[test]
    fn who_asks_for_nothing_gets_nothing() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(prepare_below(dir.path(), "i-1", GroupLimits::default()), Prepared::default());
        remove_below(dir.path(), "i-1").unwrap();
    }
}
