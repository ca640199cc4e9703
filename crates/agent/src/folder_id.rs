//! Which agent this is, beside its name: the one of this data folder.
//!
//! Two agents of the same name are told apart by it where no certificates do that. It is made at random
//! when a folder is first used, and stays with the folder.
use crate::disk::{self, Survive};
use crate::error::Error;
use std::path::Path;

/// Long enough for what we write, short enough for a hello.
const ID_MAX_BYTES: usize = 64;

/// The id of a data folder, which is made when it is absent.
pub fn agent_id(data_dir: &Path) -> Result<String, Error> {
    let path = data_dir.join("agent.id");
    let trouble = |source| Error::DataDir { path: path.clone(), source };
    disk::make_folder(data_dir).map_err(trouble)?;
    let found = disk::read(&path).map_err(trouble)?;
    let found = found.and_then(|bytes| String::from_utf8(bytes).ok());
    let found = found.map(|text| text.trim().to_owned());
    if let Some(id) = found.filter(|id| !id.is_empty() && id.len() <= ID_MAX_BYTES) {
        return Ok(id);
    }
    let id = uuid::Uuid::new_v4().to_string();
    disk::write(&path, id.as_bytes(), Survive::PowerCut).map_err(trouble)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_stays_with_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        let first = agent_id(&one).unwrap();
        assert_eq!(agent_id(&one).unwrap(), first);
        assert_ne!(agent_id(&two).unwrap(), first);
        std::fs::write(one.join("agent.id"), "").unwrap();
        let second = agent_id(&one).unwrap();
        assert!(!second.is_empty() && second != first, "one that was lost is made anew");
    }
}
