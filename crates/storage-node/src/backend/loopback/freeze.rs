//! Copies of a device that is in use, at one point in time.
//!
//! A mounted file system is frozen while it is copied: it flushes what it has and waits. A device that
//! is used as such cannot be stopped, so its writes are counted, and a copy during which there were
//! any is thrown away and made again.
use super::{device::Device, ioctl};
use crate::error::{Doing, Error, Result};
use rustix::io::Errno;
use std::{fs::File, path::PathBuf};

/// How often a copy of a device that is written to is tried before its user is asked to pause.
const ATTEMPTS: usize = 3;

/// Runs `copy` while the content of `device` does not change; `undo` removes a copy that is no good.
pub fn while_still(
    device: Device,
    copy: impl Fn() -> Result<()>,
    undo: impl Fn() -> Result<()>,
) -> Result<()> {
    if let Some(place) = device.mount_points()?.into_iter().next() {
        let _frozen = Frozen::new(place)?;
        return copy();
    }
    for _ in 0..ATTEMPTS {
        let flushed = device.open()?.sync_all();
        flushed.doing(|| format!("flush loop{}", device.number))?;
        let before = device.sectors_written()?;
        copy()?;
        if device.sectors_written()? == before {
            return Ok(());
        }
        undo()?;
    }
    Err(Error::Pending(format!(
        "loop{} was written to during {ATTEMPTS} copies of it: pause its writers and try again",
        device.number
    )))
}

/// Ends a freeze that a crash left behind.
pub fn thaw(device: Device) -> Result<()> {
    for place in device.mount_points()? {
        let opened = File::open(&place).doing(|| format!("open {}", place.display()))?;
        match ioctl::thaw(&opened) {
            Ok(()) => tracing::warn!(place = %place.display(), "a frozen file system goes on"),
            // It was not frozen.
            Err(Errno::INVAL) => {}
            Err(error) => return Err(Error::io(format!("thaw {}", place.display()), error.into())),
        }
    }
    Ok(())
}

struct Frozen {
    place: PathBuf,
    opened: File,
}

impl Frozen {
    fn new(place: PathBuf) -> Result<Self> {
        let opened = File::open(&place).doing(|| format!("open {}", place.display()))?;
        ioctl::freeze(&opened).doing(|| format!("freeze {}", place.display()))?;
        Ok(Self { place, opened })
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        if let Err(error) = ioctl::thaw(&self.opened) {
            tracing::error!(place = %self.place.display(), %error, "a file system stays frozen");
        }
    }
}
