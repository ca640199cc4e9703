//! What a controller knows of volumes: names, sizes, where the bytes are, how they were mapped.
use crate::error::{Error, Result};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Devices are addressed in sectors of this size.
pub const SECTOR_BYTES: u64 = 512;
const NAME_LENGTH_MAX: usize = 63;

/// The name of a volume or snapshot, known to be safe as a file name and as a part of device names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct VolumeName(String);

impl VolumeName {
    pub fn parse(text: &str) -> Result<Self> {
        let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let first = text.bytes().next();
        let valid = text.len() <= NAME_LENGTH_MAX
            && first.is_some_and(|byte| byte.is_ascii_alphanumeric())
            && text.bytes().all(inner);
        if valid {
            return Ok(Self(text.to_owned()));
        }
        Err(Error::Invalid(format!(
            "invalid name {text:?}: use 1 to 63 letters, digits, '-' or '_', and start with a letter \
             or digit"
        )))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for VolumeName {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<VolumeName> for String {
    fn from(name: VolumeName) -> Self {
        name.0
    }
}

impl fmt::Display for VolumeName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// A size that a device can have: more than nothing, and whole sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Size(u64);

impl Size {
    pub fn from_bytes(bytes: i64) -> Result<Self> {
        let whole = u64::try_from(bytes).ok();
        whole
            .ok_or_else(|| Error::Invalid(format!("a size cannot be negative: {bytes}")))?
            .try_into()
    }

    pub fn bytes(self) -> u64 {
        self.0
    }

    /// As protobuf has it. Sizes are made from an `i64`, so they fit.
    pub fn to_i64(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl TryFrom<u64> for Size {
    type Error = Error;
    fn try_from(bytes: u64) -> Result<Self> {
        if bytes == 0 {
            return Err(Error::Invalid("a size of 0 bytes is no device".to_owned()));
        }
        if !bytes.is_multiple_of(SECTOR_BYTES) || bytes > i64::MAX as u64 {
            return Err(Error::Invalid(format!("a size has to be a multiple of 512: {bytes}")));
        }
        Ok(Self(bytes))
    }
}

impl From<Size> for u64 {
    fn from(size: Size) -> Self {
        size.0
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} bytes", self.0)
    }
}

/// Where the bytes of a volume live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Media {
    /// On disk: survives a restart of the machine.
    File,
    /// In memory: survives a restart of the controller, not of the machine.
    Memory,
}

/// Where the content of a volume came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Snapshot(VolumeName),
    Volume(VolumeName),
}

pub type Labels = BTreeMap<String, String>;

/// A volume as the controller shows it.
#[derive(Clone, Debug, PartialEq)]
pub struct Volume {
    pub name: VolumeName,
    pub size: Size,
    pub media: Media,
    pub labels: Labels,
    pub created: Timestamp,
    pub source: Option<Source>,
    pub mapping: Option<Mapping>,
    /// Why it cannot be used as it is, if so.
    pub fault: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub name: VolumeName,
    pub volume: VolumeName,
    pub size: Size,
    pub created: Timestamp,
    pub labels: Labels,
}

/// How to find a mapped device (see `oim.v0.MapVolumeReply`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    pub device: String,
    pub scsi: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    pub total_bytes: u64,
    pub available_bytes: u64,
}

/// A value that is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret(String);

impl Secret {
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that has to hand it to a backend.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("<secret>")
    }
}

/// An image in a Ceph cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CephImage {
    pub user: String,
    pub secret: Secret,
    pub monitors: String,
    pub pool: String,
    pub image: String,
}

/// What a caller of `MapVolume` wants mapped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Params {
    /// A volume that was provisioned here under the same name.
    Provisioned,
    Ceph(CephImage),
}

#[cfg(test)]
mod tests {
    use super::{Secret, Size, VolumeName};

    /// proves: VOL-05
    #[test]
    fn names_are_safe_as_file_names() {
        for good in ["a", "0", "vol-1", "A_b", &"x".repeat(63)] {
            assert!(VolumeName::parse(good).is_ok(), "{good:?}");
        }
        for bad in
            ["", "-a", "_a", ".", "..", "a.b", "a/b", "../x", "a b", "é", "a\0", &"x".repeat(64)]
        {
            assert!(VolumeName::parse(bad).is_err(), "{bad:?}");
        }
    }

    /// proves: VOL-06
    #[test]
    fn sizes_are_whole_sectors() {
        for (bytes, valid) in
            [(512, true), (1 << 40, true), (0, false), (-512, false), (511, false), (513, false)]
        {
            assert_eq!(Size::from_bytes(bytes).is_ok(), valid, "{bytes}");
        }
    }

    /// proves: VOL-07
    #[test]
    fn secrets_do_not_show() {
        assert_eq!(format!("{:?}", Secret::new("hunter2")), "<secret>");
    }
}
