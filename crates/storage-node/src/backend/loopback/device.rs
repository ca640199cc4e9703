//! Loop devices as the kernel has them. Nothing is remembered: which file is attached where is read
//! from `/sys/block/loop*/loop/backing_file` every time, so it is right after a crash as well.
use super::ioctl;
use crate::{
    error::{Doing, Error, Result},
    host::mounts,
    volume::Mapping,
};
use rustix::{
    fs::{FileType, Mode},
    io::Errno,
};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, File, OpenOptions},
    io::ErrorKind,
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

const MAJOR: u32 = 7;
const CONTROL: &str = "/dev/loop-control";
/// Our devices have six-digit numbers that no seven-digit number of the kernel's range (below
/// 2^20 = 1,048,576) begins with. So the name of one is never the beginning of another's, and a reply
/// of `MapVolume` never matches a neighbour.
const NUMBERS: Range<u32> = 200_000..1_000_000;
/// Numbers tried before giving up; a number is taken only if two paths hash alike.
const ATTEMPTS: u32 = 64;
/// A detached device may be held for a moment by those who look at new devices (udev, blkid).
const DETACH_WAIT: Duration = Duration::from_secs(5);
const DETACH_POLL: Duration = Duration::from_millis(20);

/// A loop device with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    pub number: u32,
    /// It will detach itself when its last user closes it, and must not get new ones.
    pub detaching: bool,
}

impl Device {
    pub fn mapping(self) -> Mapping {
        let device = format!("/devices/virtual/block/loop{}", self.number);
        Mapping { device, scsi: String::new() }
    }

    fn sysfs(self, file: &str) -> PathBuf {
        format!("/sys/block/loop{}/{file}", self.number).into()
    }

    /// Opens the device, and makes its node where nothing else does (containers, a static `/dev`).
    pub fn open(self) -> Result<File> {
        let path = PathBuf::from(format!("/dev/loop{}", self.number));
        let open = || OpenOptions::new().read(true).write(true).open(&path);
        let opened = match open() {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let number = rustix::fs::makedev(MAJOR, self.number);
                let made = rustix::fs::mknodat(
                    rustix::fs::CWD,
                    &path,
                    FileType::BlockDevice,
                    Mode::from(0o660),
                    number,
                );
                match made {
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(error) => Err(error.into()),
                }
            }
            other => other,
        };
        opened.doing(|| format!("open {}", path.display()))
    }

    /// Where it is mounted.
    pub fn mount_points(self) -> Result<Vec<PathBuf>> {
        mounts::of_device(MAJOR, self.number)
    }

    /// Sectors written so far. Two equal readings around a copy mean that nothing changed meanwhile.
    pub fn sectors_written(self) -> Result<u64> {
        let path = self.sysfs("stat");
        let text = fs::read_to_string(&path).doing(|| format!("read {}", path.display()))?;
        let written = text.split_whitespace().nth(6).and_then(|field| field.parse().ok());
        written.ok_or_else(|| Error::Lost(format!("{} has an unknown format", path.display())))
    }
}

/// All devices whose files are accepted by `ours`.
pub fn attached(ours: impl Fn(&Path) -> bool) -> Result<Vec<(Device, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block").doing(|| "list /sys/block".to_owned())? {
        let name = entry.doing(|| "list /sys/block".to_owned())?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("loop")?.parse().ok());
        let Some(number) = number else { continue };
        let device = Device { number, detaching: false };
        // A device that disappears while we look has no file any more.
        let Ok(file) = fs::read_to_string(device.sysfs("loop/backing_file")) else { continue };
        let file = PathBuf::from(file.trim_end_matches('\n').trim_end_matches(" (deleted)"));
        if ours(&file) {
            let clear = fs::read_to_string(device.sysfs("loop/autoclear")).unwrap_or_default();
            found.push((Device { detaching: clear.trim() == "1", ..device }, file));
        }
    }
    Ok(found)
}

/// The device of one file.
pub fn of_file(path: &Path) -> Result<Option<Device>> {
    Ok(attached(|file| file == path)?.first().map(|(device, _)| *device))
}

/// Attaches a file to a device of its own. If that fails, there is no new device.
pub fn attach(path: &Path) -> Result<Device> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let file = file.doing(|| format!("open {}", path.display()))?;
    let control = control()?;
    for number in candidates(path) {
        match ioctl::add(&control, number) {
            // One that exists may be free: left over by somebody who detached it by hand.
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(exhausted(number, error)),
        }
        let device = Device { number, detaching: false };
        match ioctl::configure(device.open()?, &file) {
            Ok(()) => return Ok(device),
            Err(Errno::BUSY) => {}
            Err(error) => {
                // Best effort: an empty device is harmless, and the error matters more.
                let _ = ioctl::remove(&control, number);
                return Err(exhausted(number, error));
            }
        }
    }
    Err(Error::Exhausted(format!("no free loop device after {ATTEMPTS} attempts")))
}

fn control() -> Result<File> {
    let opened = OpenOptions::new().read(true).write(true).open(CONTROL);
    opened.map_err(|error| {
        Error::Unavailable(format!("{CONTROL}: {error}; the kernel's loop driver is needed"))
    })
}

fn exhausted(number: u32, error: Errno) -> Error {
    Error::Exhausted(format!("the kernel gives no loop device (tried loop{number}): {error}"))
}

/// The numbers to try for a file: the same ones every time, so that a volume usually gets its old
/// device again.
fn candidates(path: &Path) -> impl Iterator<Item = u32> {
    let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
    let seed = u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]);
    let count = NUMBERS.end - NUMBERS.start;
    (0..ATTEMPTS).map(move |step| NUMBERS.start + seed.wrapping_add(step * 7919) % count)
}

/// Detaches a device and removes it. Fails if somebody still has it open.
pub async fn detach(device: Device) -> Result<()> {
    if let Some(place) = device.mount_points()?.first() {
        let place = place.display();
        return Err(Error::InUse(format!("loop{} is mounted at {place}", device.number)));
    }
    match ioctl::clear(device.open()?) {
        Ok(()) | Err(Errno::NXIO) => {}
        Err(error) => return Err(Error::io(format!("detach loop{}", device.number), error.into())),
    }
    let gone = async {
        while device.sysfs("loop/backing_file").exists() {
            tokio::time::sleep(DETACH_POLL).await;
        }
    };
    if tokio::time::timeout(DETACH_WAIT, gone).await.is_err() {
        return Err(Error::InUse(format!(
            "loop{} is still open somewhere; it goes away when it is closed",
            device.number
        )));
    }
    if NUMBERS.contains(&device.number) {
        // Best effort: an empty device that somebody looks at right now is harmless.
        let _ = ioctl::remove(control()?, device.number);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{NUMBERS, candidates};
    use proptest::prelude::*;
    use std::path::Path;

    proptest! {
        /// proves: VOL-05
        #[test]
        fn no_name_of_a_device_is_the_beginning_of_another(text in "\\PC{0,30}", other in 0u32..1 << 20) {
            for number in candidates(Path::new(&text)) {
                prop_assert!(NUMBERS.contains(&number));
                let (ours, theirs) = (format!("loop{number}"), format!("loop{other}"));
                prop_assert!(ours == theirs || !theirs.contains(&ours));
            }
        }
    }
}
