//! What the driver writes down with a volume.
use crate::volume::{Labels, Volume};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// The name that the caller chose; having it makes a volume or snapshot one of this driver's.
const NAME: &str = "csi.name";
const PARAMETERS: &str = "csi.parameters";
const MUTABLE: &str = "csi.mutable-parameters";
const PUBLISHED: &str = "csi.published";
/// A file system is being made, or was when the driver died; nothing has been stored on it.
const FORMATTING: &str = "csi.formatting";
/// The device was handed out as such, so it may hold data that looks like nothing.
const RAW: &str = "csi.raw";

/// To which node, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    pub node: String,
    pub read_only: bool,
    pub mode: i32,
    pub block: bool,
}

type Parameters = HashMap<String, String>;

pub fn new(name: &str, parameters: &Parameters, mutable: &Parameters) -> Labels {
    let mut labels = Labels::from([(NAME.to_owned(), name.to_owned())]);
    put(&mut labels, PARAMETERS, Some(&sorted(parameters)));
    put(&mut labels, MUTABLE, Some(&sorted(mutable)));
    labels
}

/// Of a copy: what is known about the content of the source is true of the copy too.
pub fn inherit(labels: &mut Labels, source: &Labels) {
    for key in [RAW, FORMATTING] {
        if let Some(value) = source.get(key) {
            labels.insert(key.to_owned(), value.clone());
        }
    }
}

/// For a snapshot: its name, and what is known about its content.
pub fn of_snapshot(name: &str, source: &Labels) -> Labels {
    let mut labels = Labels::from([(NAME.to_owned(), name.to_owned())]);
    inherit(&mut labels, source);
    labels
}

pub fn has_name(labels: &Labels) -> bool {
    labels.contains_key(NAME)
}

pub fn is_ours(volume: &Volume) -> bool {
    has_name(&volume.labels)
}

pub fn parameters(labels: &Labels) -> Parameters {
    get(labels, PARAMETERS).unwrap_or_default()
}

pub fn mutable(labels: &Labels) -> Parameters {
    get(labels, MUTABLE).unwrap_or_default()
}

/// Changes the keys that are given and leaves the others.
pub fn merge_mutable(labels: &mut Labels, changed: &Parameters) {
    let mut all = mutable(labels);
    all.extend(changed.clone());
    put(labels, MUTABLE, Some(&sorted(&all)));
}

pub fn published(labels: &Labels) -> Option<Published> {
    get(labels, PUBLISHED)
}

pub fn set_published(labels: &mut Labels, published: Option<&Published>) {
    put(labels, PUBLISHED, published);
}

pub fn formatting(labels: &Labels) -> bool {
    labels.contains_key(FORMATTING)
}

pub fn set_formatting(labels: &mut Labels, kind: Option<&str>) {
    match kind {
        Some(kind) => _ = labels.insert(FORMATTING.to_owned(), kind.to_owned()),
        None => _ = labels.remove(FORMATTING),
    }
}

pub fn raw(labels: &Labels) -> bool {
    labels.contains_key(RAW)
}

pub fn set_raw(labels: &mut Labels) {
    labels.insert(RAW.to_owned(), "true".to_owned());
}

fn sorted(parameters: &Parameters) -> BTreeMap<&String, &String> {
    parameters.iter().collect()
}

fn get<T: for<'de> Deserialize<'de>>(labels: &Labels, key: &str) -> Option<T> {
    serde_json::from_str(labels.get(key)?).ok()
}

/// Writes a label, or removes it. Values are plain data and always encode.
fn put<T: Serialize>(labels: &mut Labels, key: &str, value: Option<&T>) {
    match value.and_then(|value| serde_json::to_string(value).ok()) {
        Some(text) => _ = labels.insert(key.to_owned(), text),
        None => _ = labels.remove(key),
    }
}
