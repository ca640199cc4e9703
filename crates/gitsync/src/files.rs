//! Which files change in git so that it says what the system says: pure.
use crate::content;
use crate::edit;
use crate::git::address;
use crate::plan::{Key, Step, Steps};
use crate::source::{Document, Problem, Source, joined};
use bytes::Bytes;
use orrery_api::Kind;
use serde_json::Value;
use std::collections::BTreeMap;

/// Files by their path from the root; `None` for those that go.
pub type Changes = BTreeMap<String, Option<Bytes>>;

/// An object that is to be written, and the files beside it.
#[derive(Clone, Debug)]
pub struct Wanted<'a> {
    pub kind: &'a Kind,
    pub value: &'a Value,
    pub files: BTreeMap<String, Bytes>,
}

/// What is to be done in git.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    pub changes: Changes,
    /// Where each object that is written is afterwards.
    pub places: BTreeMap<Key, String>,
    /// Objects that are removed from git.
    pub removed: Vec<Key>,
    pub problems: Vec<Problem>,
}

/// What the steps of a plan that write mean for the files.
pub fn edits(
    source: &Source,
    folder: &str,
    steps: &Steps,
    wanted: &BTreeMap<Key, Wanted<'_>>,
) -> Edits {
    let mut edits = Edits::default();
    // From the end of each file to its beginning, so that lines stay where they are.
    let mut within: Vec<(&Key, &Document)> = Vec::new();
    for (key, step) in steps {
        match (step, source.documents.get(key), wanted.get(key)) {
            (Step::Write(Some(_)) | Step::Remove(_), Some(document), _) => {
                within.push((key, document));
            }
            (Step::Write(None), _, Some(wanted)) => edits.create(source, folder, key, wanted),
            (_, _, _) => {}
        }
    }
    within.sort_by_key(|(_, document)| std::cmp::Reverse(document.at.line));
    for (key, document) in within {
        match wanted.get(key) {
            Some(wanted) if matches!(steps.get(key), Some(Step::Write(_))) => {
                edits.replace(source, key, document, wanted);
            }
            Some(_) | None if matches!(steps.get(key), Some(Step::Remove(_))) => {
                edits.remove(source, key, document);
            }
            Some(_) | None => {}
        }
    }
    edits
}

impl Edits {
    fn text(&self, source: &Source, file: &str) -> String {
        let known =
            self.changes.get(file).cloned().unwrap_or_else(|| source.texts.get(file).cloned());
        known.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    fn set(&mut self, file: &str, text: String) {
        self.changes.insert(file.to_owned(), Some(text.into()));
    }

    fn create(&mut self, source: &Source, folder: &str, key: &Key, wanted: &Wanted<'_>) {
        let file = joined(folder, &format!("{}/{}.yaml", wanted.kind.plural(), key.name));
        if source.listed.contains(&file) || self.changes.contains_key(&file) {
            let resource = format!("{} {}", wanted.kind.kind(), key.name);
            let message = "is not written: there is a file of this name, which says something else";
            self.problems.push(Problem { file, resource, message: message.to_owned() });
            return;
        }
        self.set(&file, content::yaml(wanted.value));
        self.beside(&file, wanted);
        self.places.insert(key.clone(), file);
    }

    fn replace(&mut self, source: &Source, key: &Key, document: &Document, wanted: &Wanted<'_>) {
        let file = &document.file;
        if !document.alone {
            let resource = format!("{} {}", wanted.kind.kind(), key.name);
            let message = "is not written: it is an item of a list; make it a document of its own";
            let (file, message) = (file.clone(), message.to_owned());
            self.problems.push(Problem { file, resource, message });
            return;
        }
        let text = match file.ends_with(".json") {
            true => content::json(wanted.value),
            false => {
                let before = self.text(source, file);
                edit::replace(&before, document.at, &content::yaml(wanted.value))
            }
        };
        self.set(file, text);
        self.beside(file, wanted);
        self.places.insert(key.clone(), file.clone());
    }

    fn remove(&mut self, source: &Source, key: &Key, document: &Document) {
        let file = &document.file;
        if !document.alone {
            let resource = format!("{} {}", document.object.kind().kind(), key.name);
            let message = "is not removed: it is an item of a list; make it a document of its own";
            let (file, message) = (file.clone(), message.to_owned());
            self.problems.push(Problem { file, resource, message });
            return;
        }
        let left = match file.ends_with(".json") {
            true => None,
            false => edit::remove(&self.text(source, file), document.at),
        };
        self.changes.insert(file.clone(), left.map(Bytes::from));
        for beside in document.files.values() {
            let others = source.documents.iter().filter(|(other, _)| *other != key);
            let mut others = others.flat_map(|(_, other)| other.files.values());
            if others.all(|other| other.file != beside.file) {
                self.changes.insert(beside.file.clone(), None);
            }
        }
        self.removed.push(key.clone());
    }

    fn beside(&mut self, file: &str, wanted: &Wanted<'_>) {
        let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (path, content) in &wanted.files {
            // A path that leads out was never taken for one of a file.
            if address::folder(path).is_ok() {
                self.changes.insert(joined(folder, path), Some(content.clone()));
            }
        }
    }
}

/// What a commit says: one line for all, then one for each.
pub fn message(sync: &str, kinds: &BTreeMap<Key, String>, edits: &Edits) -> String {
    let title = |key: &Key| format!("{} {}", kinds.get(key).map_or("", String::as_str), key.name);
    let written = edits.places.keys().map(|key| format!("- write {}", title(key)));
    let removed = edits.removed.iter().map(|key| format!("- remove {}", title(key)));
    let lines: Vec<String> = written.chain(removed).collect();
    let first = match lines.as_slice() {
        [only] => only.trim_start_matches("- ").to_owned(),
        lines => format!("write {} changes", lines.len()),
    };
    let first = first[..1].to_uppercase() + &first[1..];
    format!(
        "{first}\n\nThey were made in the system; the sync {sync} wrote them.\n\n{}\n",
        lines.join("\n")
    )
}
