//! Which crates have examples in their docs that cargo would run. Starting rustdoc for a crate
//! without any costs seconds and proves nothing.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::workspace::{self, SourceFile};

/// Package names, in order.
pub fn packages_with_doc_tests() -> Result<BTreeSet<String>> {
    let files = workspace::source_files(&workspace::root()?, &["rs"])?;
    let with_examples = files.iter().filter(|file| is_library(file) && has_doc_test(&file.text));
    Ok(with_examples.filter_map(|file| Some(format!("orrery-{}", file.crate_folder()?))).collect())
}

fn is_library(file: &SourceFile) -> bool {
    let mut parts = file.path.iter().filter_map(|part| part.to_str());
    parts.next() == Some("crates") && parts.nth(1) == Some("src")
}

fn has_doc_test(text: &str) -> bool {
    let mut open = false;
    for line in text.lines() {
        let line = line.trim_start();
        let doc = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(language) = doc.and_then(|doc| doc.trim().strip_prefix("```")) else { continue };
        if !open && is_run(language) {
            return true;
        }
        open = !open;
    }
    false
}

/// What rustdoc takes for Rust: no language at all, or nothing but its own words.
fn is_run(language: &str) -> bool {
    let own = ["", "rust", "no_run", "should_panic", "compile_fail", "edition2021", "edition2024"];
    language.split(',').all(|word| own.contains(&word.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: bool) {
        assert_eq!(has_doc_test(text), expect, "{text}");
    }

    #[test]
    fn fences_in_docs() {
        check("/// ```\n/// x();\n/// ```", true);
        check("    //! ```rust,no_run\n", true);
        check("/// ```text\n/// picture\n/// ```\nfn f() {}", false);
        check("/// ```text\n/// a\n/// ```\n/// ```\n/// x();\n/// ```", true);
        check("/// ```ignore\n/// ```", false);
        check("// ```\n", false);
    }
}
