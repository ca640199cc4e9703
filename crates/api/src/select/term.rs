//! What objects can be found by, so that a selector need not look at each of them.
//!
//! A term stands for one label with its value, for one column of text with its value, or for a project that the
//! object is shared with. An object has a term for each; a selector that asks for equality names the terms of which an object must have one.
//! Terms may be too many, never too few: whoever finds an object by them still asks the selector.
use crate::{kind::Kind, object::wire};

/// Of a map's entry.
const KEY: u32 = 1;
const VALUE: u32 = 2;

/// The terms of an object, from the bytes of its kind's message.
pub fn terms(kind: &Kind, bytes: &[u8]) -> Vec<String> {
    let mut found = Vec::new();
    let labels = [kind.numbers.metadata, kind.numbers.labels];
    wire::each(bytes, &labels, &mut |entry| {
        let (mut key, mut value) = ("", "");
        wire::each(entry, &[KEY], &mut |text| key = wire::text(text));
        wire::each(entry, &[VALUE], &mut |text| value = wire::text(text));
        found.push(label_term(key, value));
    });
    for column in kind.columns() {
        let Some(way) = &column.way else { continue };
        wire::each(bytes, way, &mut |text| found.push(field_term(&column.path, wire::text(text))));
    }
    if kind.shareable() {
        let name = [kind.numbers.metadata, kind.numbers.name];
        let name = wire::all(bytes, &name).last().map_or("", |name| wire::text(name));
        crate::sharing::terms(kind, name, bytes, &mut found);
    }
    found
}

/// Whether two objects of a kind have the same [`terms`], from what these are made of.
pub fn same_terms(kind: &Kind, old: &[u8], new: &[u8]) -> bool {
    if kind.shareable() {
        return terms(kind, old) == terms(kind, new);
    }
    let same = |way: &[u32]| wire::all(old, way) == wire::all(new, way);
    let columns = kind.columns().iter().filter_map(|column| column.way.as_deref());
    same(&[kind.numbers.metadata, kind.numbers.labels]) && columns.into_iter().all(same)
}

/// Whether objects are found by the value of the field at this path.
pub(super) fn found_by_field(kind: &Kind, path: &str) -> bool {
    kind.columns().iter().any(|column| column.path == path && column.way.is_some())
}

pub(super) fn label_term(key: &str, value: &str) -> String {
    format!("label\0{key}\0{value}")
}

pub(super) fn field_term(path: &str, value: &str) -> String {
    format!("field\0{path}\0{value}")
}

#[cfg(test)]
mod tests {
    use orrery_proto::core::v1::{Project, ProjectStatus};
    use orrery_proto::meta::v1::ObjectMeta;
    use prost::Message as _;

    use super::*;
    use crate::Scheme;

    fn project(note: &str, label: Option<&str>, phase: &str) -> Vec<u8> {
        let labels = label.map(|label| ("l".to_owned(), label.to_owned())).into_iter().collect();
        let annotations = [("note".to_owned(), note.to_owned())].into();
        let metadata = ObjectMeta { labels, annotations, ..ObjectMeta::default() };
        let status = ProjectStatus { phase: phase.to_owned(), ..ProjectStatus::default() };
        Project { metadata: Some(metadata), status: Some(status), ..Project::default() }
            .encode_to_vec()
    }

    /// An index that is told too often that nothing has changed would lose objects.
    #[test]
    fn terms_are_the_same_only_if_what_they_are_made_of_is() {
        let scheme = Scheme::builtin().expect("our own kinds");
        let kind = scheme.by_full_name("orrery.core.v1.Project").expect("it is one of them");
        let labels = [None, Some(""), Some("a"), Some("b")];
        let made: Vec<_> = ["one", "two"]
            .into_iter()
            .flat_map(|note| labels.map(|label| (note, label)))
            .flat_map(|(note, label)| ["Active", ""].map(|phase| project(note, label, phase)))
            .collect();
        let mut same = 0;
        for (old, new) in made.iter().flat_map(|old| made.iter().map(move |new| (old, new))) {
            let expected = terms(kind, old) == terms(kind, new);
            assert_eq!(same_terms(kind, old, new), expected, "{old:?} and {new:?}");
            same += usize::from(expected);
        }
        assert_eq!(same, 2 * made.len(), "each is the same as itself with another note");
    }
}
