//! What a program with volumes sees: the host's folders, and its volumes where it asked for them.
use crate::volumes::Bind;
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount_bind, mount_change, mount_remount,
    unmount,
};
use rustix::thread::UnshareFlags;
use std::path::Path;
use std::{fs, io};

/// Gives this process and its children a view of their own, with the volumes in it. What is mounted
/// and unmounted elsewhere on the host is still seen, so that nobody's volume is held by this view.
pub(super) fn enter(binds: &[Bind], own: &Path) -> Result<(), String> {
    if binds.is_empty() {
        return Ok(());
    }
    for bind in binds {
        if own.starts_with(&bind.target) {
            let target = bind.target.display();
            return Err(format!("a volume at {target} would hide the folder of the agent"));
        }
    }
    // Safe for mounts; the call is deprecated for what it does to file descriptors.
    #[allow(deprecated, reason = "the other form is unsafe because of flags that are not used")]
    let unshared = rustix::thread::unshare(UnshareFlags::NEWNS);
    unshared.map_err(|error| match error {
        Errno::PERM => "volumes need an agent that runs as root".to_owned(),
        error => format!("cannot make a view for its volumes: {error}"),
    })?;
    let follow = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", follow).map_err(|error| format!("cannot change the view: {error}"))?;
    // Outer folders first, so that an inner one is not hidden.
    let mut ordered: Vec<&Bind> = binds.iter().collect();
    ordered.sort_by_key(|bind| bind.target.components().count());
    for bind in ordered {
        show(bind).map_err(|error| {
            format!("cannot show a volume at {}: {error}", bind.target.display())
        })?;
    }
    Ok(())
}

fn show(bind: &Bind) -> io::Result<()> {
    fs::create_dir_all(&bind.target)?;
    mount_bind(&bind.source, &bind.target)?;
    if bind.read_only {
        let protected = mount_remount(&bind.target, MountFlags::BIND | MountFlags::RDONLY, "");
        if protected.is_err() {
            // Better nothing than a mount that may be written to.
            let _ = unmount(&bind.target, UnmountFlags::DETACH);
        }
        protected?;
    }
    Ok(())
}
