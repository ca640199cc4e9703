//! The parameters that a caller may give a volume.
use crate::{
    error::{Error, Result},
    volume::Media,
};
use std::collections::HashMap;

/// Kubernetes adds keys of its own, which say for whom a volume is; they change nothing.
const IGNORED_PREFIX: &str = "csi.storage.k8s.io/";
const MEDIA: &str = "media";
const READ_AHEAD: &str = "readAheadKb";
/// More than any device gains from.
const READ_AHEAD_KB_MAX: u32 = 16 << 10;

/// What stays as it is for the life of the volume.
pub fn media(parameters: &HashMap<String, String>) -> Result<Media> {
    let mut media = Media::File;
    for (key, value) in parameters.iter().filter(|(key, _)| !key.starts_with(IGNORED_PREFIX)) {
        media = match (key.as_str(), value.as_str()) {
            (MEDIA, "file") => Media::File,
            (MEDIA, "memory") => Media::Memory,
            (MEDIA, _) => return Err(wrong(key, value, "file or memory")),
            _ => return Err(unknown(key, MEDIA)),
        };
    }
    Ok(media)
}

/// What may be changed later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mutable {
    /// How far the kernel reads ahead on the device, in KiB.
    pub read_ahead_kb: Option<u32>,
}

pub fn mutable(parameters: &HashMap<String, String>) -> Result<Mutable> {
    let mut found = Mutable::default();
    for (key, value) in parameters.iter().filter(|(key, _)| !key.starts_with(IGNORED_PREFIX)) {
        if key != READ_AHEAD {
            return Err(unknown(key, READ_AHEAD));
        }
        let number = value.parse().ok().filter(|number| *number <= READ_AHEAD_KB_MAX);
        found.read_ahead_kb = Some(number.ok_or_else(|| wrong(key, value, "0 to 16384"))?);
    }
    Ok(found)
}

/// Snapshots have no parameters of ours.
pub fn of_snapshot(parameters: &HashMap<String, String>) -> Result<()> {
    match parameters.keys().find(|key| !key.starts_with(IGNORED_PREFIX)) {
        Some(key) => Err(Error::Invalid(format!("unknown parameter {key:?}: snapshots have none"))),
        None => Ok(()),
    }
}

fn unknown(key: &str, known: &str) -> Error {
    Error::Invalid(format!("unknown parameter {key:?}: there is {known:?}"))
}

fn wrong(key: &str, value: &str, expected: &str) -> Error {
    Error::Invalid(format!("the parameter {key:?} is {value:?}: use {expected}"))
}

#[cfg(test)]
mod tests {
    use super::{Mutable, media, mutable, of_snapshot};
    use crate::volume::Media;
    use std::collections::HashMap;

    fn map(pairs: &[(&str, &str)]) -> HashMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn parameters_are_known_or_refused() {
        assert_eq!(media(&map(&[])).unwrap(), Media::File);
        assert_eq!(media(&map(&[("media", "memory")])).unwrap(), Media::Memory);
        assert_eq!(media(&map(&[("csi.storage.k8s.io/pvc/name", "x")])).unwrap(), Media::File);
        assert!(media(&map(&[("media", "tape")])).is_err());
        assert!(media(&map(&[("medium", "file")])).is_err());
        assert_eq!(mutable(&map(&[])).unwrap(), Mutable::default());
        let set = Mutable { read_ahead_kb: Some(512) };
        assert_eq!(mutable(&map(&[("readAheadKb", "512")])).unwrap(), set);
        assert!(mutable(&map(&[("readAheadKb", "-1")])).is_err());
        assert!(mutable(&map(&[("readAheadKb", "99999")])).is_err());
        assert!(mutable(&map(&[("other", "1")])).is_err());
        assert!(of_snapshot(&map(&[])).is_ok() && of_snapshot(&map(&[("a", "b")])).is_err());
    }
}
