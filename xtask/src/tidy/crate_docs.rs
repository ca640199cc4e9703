//! Each crate says at its top what it owns and what is not in it.

use super::Finding;
use crate::workspace::SourceFile;

pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let tops = files.iter().filter(|file| {
        file.crate_folder().is_some_and(|folder| {
            file.path == std::path::Path::new("crates").join(folder).join("src/lib.rs")
        })
    });
    tops.filter_map(|file| {
        let advice = problem(&file.text)?;
        Some(Finding::new(&file.path, 1, "crate-docs", advice))
    })
    .collect()
}

fn problem(text: &str) -> Option<&'static str> {
    let docs: String = text.lines().map_while(|line| line.strip_prefix("//!")).collect();
    let docs = docs.to_lowercase();
    if docs.is_empty() {
        Some("begin with module docs (//!) that say what the crate is for")
    } else if !docs.contains("owns") && !docs.contains("owned") {
        Some("say in the module docs what the crate owns (\"Owns: ...\")")
    } else if !docs.contains("not in it") {
        Some("say in the module docs what is not in the crate (\"Not in it: ...\")")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_docs(text: &str, expect: Option<&str>) {
        let found = problem(text);
        assert_eq!(found.is_some(), expect.is_some(), "{text:?}: {found:?}");
        assert!(found.unwrap_or_default().contains(expect.unwrap_or_default()), "{found:?}");
    }

    #[test]
    fn what_a_crate_says_of_itself() {
        check_docs("//! A.\n//!\n//! Owns: x. Not in it: y.\nmod a;", None);
        check_docs("//! Owns: x.\n//! **Not in it**: y.", None);
        check_docs("//! Owned here: x.\n//! Not in it: y.", None);
        check_docs("mod a;", Some("begin with module docs"));
        check_docs("\n//! Owns, not in it", Some("begin with module docs"));
        check_docs("//! A.", Some("owns"));
        check_docs("//! Owns a.\n\n//! Not in it: b.", Some("is not in the crate"));
    }

    #[test]
    fn only_the_top_of_a_crate_is_asked() {
        let file = |path: &str| SourceFile { path: path.into(), text: "mod a;".into() };
        let files =
            [file("crates/a/src/lib.rs"), file("crates/a/src/b/lib.rs"), file("xtask/src/lib.rs")];
        assert_eq!(check(&files).len(), 1);
    }
}
