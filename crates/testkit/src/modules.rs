//! Modules of a Linux kernel, in an order in which they can be loaded.
//!
//! Which module needs which changes with every kernel, and stands in the modules themselves.
use std::fs;
use std::path::{Path, PathBuf};

/// Where a module says which others it needs.
const DEPENDS: &[u8] = b"\0depends=";

/// The files of these modules and of all that they need, each after those that it needs itself.
///
/// # Panics
///
/// When a module is not below the folder.
pub fn in_order(folder: &Path, wanted: &[&str]) -> Vec<PathBuf> {
    let (mut all, mut order) = (Vec::new(), Vec::new());
    find(folder, &mut all);
    wanted.iter().for_each(|name| add(name, &all, &mut order));
    order
}

/// The name of a module, as others name it.
pub fn name(module: &Path) -> String {
    let name = module.file_stem().unwrap_or_default();
    name.to_string_lossy().replace('-', "_")
}

fn find(folder: &Path, all: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in entries.map(|entry| entry.expect("a folder can be read").path()) {
        if path.is_dir() {
            find(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "ko") {
            all.push(path);
        }
    }
}

fn add(wanted: &str, all: &[PathBuf], order: &mut Vec<PathBuf>) {
    if order.iter().any(|module| name(module) == wanted) {
        return;
    }
    let module = all.iter().find(|module| name(module) == wanted);
    let module = module.unwrap_or_else(|| panic!("the kernel has no module {wanted}"));
    let bytes = fs::read(module).expect("a module can be read");
    needs(&bytes).iter().for_each(|needed| add(needed, all, order));
    order.push(module.clone());
}

fn needs(module: &[u8]) -> Vec<String> {
    let at = module.windows(DEPENDS.len()).position(|bytes| bytes == DEPENDS);
    let said = at.map_or(&[][..], |at| &module[at + DEPENDS.len()..]);
    let said = said.split(|byte| *byte == 0).next().unwrap_or_default();
    let names = said.split(|byte| *byte == b',').filter(|name| !name.is_empty());
    names.map(|name| String::from_utf8_lossy(name).replace('-', "_")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_after_what_they_need() {
        let folder = tempfile::tempdir().expect("a folder");
        let below = folder.path().join("drivers/net");
        fs::create_dir_all(&below).expect("made");
        for (file, needs) in [("card", "bus,ring"), ("bus", "ring"), ("ring", ""), ("a-b", "bus")] {
            let bytes = format!("ELF\0license=GPL\0depends={needs}\0name=x\0");
            fs::write(below.join(format!("{file}.ko")), bytes).expect("written");
        }
        let names = |wanted: &[&str]| -> Vec<String> {
            in_order(folder.path(), wanted).iter().map(|module| name(module)).collect()
        };
        assert_eq!(names(&["card"]), ["ring", "bus", "card"]);
        assert_eq!(names(&["bus", "a_b", "card"]), ["ring", "bus", "a_b", "card"]);
    }
}
