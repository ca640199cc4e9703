//! The committed reference is what the definitions say.
use crate::harness::{Home, repository};
use std::collections::BTreeMap;
use std::path::Path;

fn pages(folder: &Path) -> BTreeMap<String, String> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, std::fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn the_reference_is_fresh() {
    let home = Home::new();
    let folder = home.path("reference");
    home.orrery(&["reference", folder.to_str().unwrap()]).good();
    let (fresh, committed) = (pages(&folder), pages(&repository().join("docs/reference")));
    let refresh = "refresh it: cargo run -p orrery-cli -- reference docs/reference";
    let names = |pages: &BTreeMap<String, String>| pages.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&fresh), names(&committed), "{refresh}");
    for (name, text) in &fresh {
        assert!(committed[name] == *text, "docs/reference/{name} is stale; {refresh}");
    }
    assert!(fresh["cli.md"].contains("## orrery apply"), "the commands are there");
    assert!(fresh["apps.v1.workload.md"].contains("| `restartPolicy` | string |"));
}

#[test]
fn manual_pages_are_written() {
    let home = Home::new();
    let folder = home.path("man/man1");
    home.orrery(&["man", folder.to_str().unwrap()]).good();
    let pages = pages(&folder);
    assert!(pages["orrery-apply.1"].contains(".SH NAME"), "{:?}", pages.keys());
    assert!(pages.contains_key("orrery.1"));
}
