//! Ids of volumes and snapshots, made from the names that callers choose.
//!
//! A name may be any text of 128 bytes; an id has to be a file name. A hash of the name makes the same
//! id for the same name, so creating twice is noticed without a table of names.
use crate::{
    error::{Error, Result},
    volume::VolumeName,
};
use sha2::{Digest, Sha256};

/// The longest name that the interface allows.
const NAME_LENGTH_MAX: usize = 128;
/// 128 bits of the hash, in hexadecimal digits.
const DIGITS: usize = 32;
const VOLUME: &str = "vol-";
const SNAPSHOT: &str = "snap-";

/// The id for a new volume.
pub fn for_volume(name: &str) -> Result<VolumeName> {
    make(VOLUME, name)
}

/// The id for a new snapshot.
pub fn for_snapshot(name: &str) -> Result<VolumeName> {
    make(SNAPSHOT, name)
}

/// Reads an id; nothing if no volume of ours could have it.
pub fn volume(id: &str) -> Option<VolumeName> {
    read(VOLUME, id)
}

pub fn snapshot(id: &str) -> Option<VolumeName> {
    read(SNAPSHOT, id)
}

fn make(prefix: &str, name: &str) -> Result<VolumeName> {
    let printable = |letter: char| !letter.is_control() || matches!(letter, '\t' | '\n' | '\r');
    if name.is_empty() || name.len() > NAME_LENGTH_MAX || !name.chars().all(printable) {
        return Err(Error::Invalid(format!(
            "a name has 1 to {NAME_LENGTH_MAX} bytes and no control characters"
        )));
    }
    let digest = Sha256::digest(name);
    let hex: String = digest[..DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect();
    VolumeName::parse(&format!("{prefix}{hex}"))
}

fn read(prefix: &str, id: &str) -> Option<VolumeName> {
    let digits = id.strip_prefix(prefix)?;
    let hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let valid = digits.len() == DIGITS && digits.bytes().all(hex);
    valid.then(|| VolumeName::parse(id).ok())?
}

#[cfg(test)]
mod tests {
    use super::{for_snapshot, for_volume, snapshot, volume};
    use proptest::prelude::*;

    #[test]
    fn names_have_limits() {
        for good in ["a", "a/b.c", "Größe", "a\tb", &"x".repeat(128)] {
            assert!(for_volume(good).is_ok(), "{good:?}");
        }
        for bad in ["", "a\0", "a\u{7f}", "a\u{85}", &"x".repeat(129)] {
            assert!(for_volume(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn ids_are_read_back_and_never_mixed_up(name in "\\PC{1,30}") {
            let id = for_volume(&name).unwrap();
            prop_assert_eq!(volume(id.as_str()), Some(id.clone()));
            prop_assert_eq!(snapshot(id.as_str()), None);
            prop_assert_eq!(&for_volume(&name).unwrap(), &id);
            prop_assert_ne!(for_snapshot(&name).unwrap(), id);
            prop_assert_eq!(volume(&name), None);
        }
    }
}
