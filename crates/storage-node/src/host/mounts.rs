//! The kernel's table of mounts.
use crate::error::{Doing, Result};
use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt,
    path::{Path, PathBuf},
};

/// One line of `/proc/self/mountinfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    pub major: u32,
    pub minor: u32,
    /// The part of the file system that is mounted: `/` or what was bound.
    pub root: PathBuf,
    pub place: PathBuf,
    /// Whether this mount is read-only, be it for itself or because its file system is.
    pub read_only: bool,
    pub filesystem: String,
}

/// All mounts that this process sees, in the order in which they were made.
pub fn all() -> Result<Vec<Mount>> {
    let text = fs::read("/proc/self/mountinfo").doing(|| "read the mounts".to_owned())?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse).collect())
}

/// What is mounted at exactly this place; the topmost if there are several.
pub fn at(place: &Path) -> Result<Option<Mount>> {
    let place = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
    Ok(all()?.into_iter().rfind(|mount| mount.place == place))
}

/// Where the file system on a device is mounted.
pub fn of_device(major: u32, minor: u32) -> Result<Vec<PathBuf>> {
    let ours = |mount: &Mount| (mount.major, mount.minor) == (major, minor);
    Ok(all()?.into_iter().filter(ours).map(|mount| mount.place).collect())
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let device = std::str::from_utf8(fields.nth(2)?).ok()?;
    let (major, minor) = device.split_once(':')?;
    let (root, place, options) = (fields.next()?, fields.next()?, fields.next()?);
    let mut fields = fields.skip_while(|field| *field != b"-").skip(1);
    let filesystem = String::from_utf8_lossy(fields.next()?).into_owned();
    let of_filesystem = fields.nth(1).unwrap_or_default();
    let read_only = |options: &[u8]| options.split(|byte| *byte == b',').any(|word| word == b"ro");
    Some(Mount {
        major: major.parse().ok()?,
        minor: minor.parse().ok()?,
        root: path(root),
        place: path(place),
        read_only: read_only(options) || read_only(of_filesystem),
        filesystem,
    })
}

/// Undoes the kernel's escapes: three octal digits for spaces, tabs, newlines and backslashes.
fn path(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, after)) = rest.split_first() {
        let octal = std::str::from_utf8(after.get(..3).unwrap_or_default()).ok();
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) if *byte == b'\\' => {
                bytes.push(value);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::{Mount, parse};

    #[test]
    fn lines_are_understood() {
        let line = br"36 35 7:200001 / /mnt/a\040b\134c rw,noatime master:1 - ext4 /dev/loop200001 ro,errors=continue";
        let expect = Mount {
            major: 7,
            minor: 200_001,
            root: "/".into(),
            place: r"/mnt/a b\c".into(),
            read_only: true,
            filesystem: "ext4".into(),
        };
        assert_eq!(parse(line), Some(expect));
        let line = b"40 35 0:5 /loop7 /target rw - devtmpfs udev rw,size=1k";
        let found = parse(line).unwrap();
        assert_eq!((found.root.to_str(), found.read_only), (Some("/loop7"), false));
        assert_eq!(parse(b""), None);
        assert_eq!(parse(b"1 2 x:y / / rw - a b c"), None);
    }
}
