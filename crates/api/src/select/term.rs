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
