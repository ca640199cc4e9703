//! Where an object came from, as it is written into its annotation.
use serde::{Deserialize, Serialize};

/// The sync, and the place that it looks at.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Origin {
    /// Name of the sync, in the project of the object.
    pub sync: String,
    pub repository: String,
    pub branch: String,
}

/// Where one object came from, and what it was like when git and the system were last the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    #[serde(flatten)]
    pub origin: Origin,
    /// The file, from the root of the repository.
    pub file: String,
    /// Digest of what the file said.
    pub git: String,
    /// Digest of what the object was then.
    pub system: String,
}

impl Lineage {
    /// Reads it. What is no lineage of ours is none.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub fn write(&self) -> String {
        serde_json::to_string(self).expect("texts are always JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_can_be_read_and_nothing_else() {
        let lineage = Lineage { file: "a/b.yaml".into(), git: "1".into(), ..Lineage::default() };
        assert_eq!(Lineage::read(&lineage.write()), Some(lineage));
        for text in ["", "{}", "somebody's", "[]", r#"{"sync": "x"}"#] {
            assert_eq!(Lineage::read(text), None, "{text}");
        }
    }
}
