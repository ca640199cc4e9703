//! Where a piece of code stands: which crate, and whether it is part of a test.

use crate::workspace::SourceFile;

/// Folders whose code runs in tests only: suites that a crate offers to tests of other crates
/// (`conformance`) and the whole `testkit` are among them.
const TEST_FOLDERS: [&str; 4] = ["tests", "benches", "conformance", "testkit"];

pub struct Context {
    pub in_test: bool,
    is_build_script: bool,
    crate_folder: String,
}

impl Context {
    pub fn of(file: &SourceFile) -> Self {
        let parts: Vec<&str> = file.path.iter().filter_map(|part| part.to_str()).collect();
        let test_folder = parts.iter().any(|part| TEST_FOLDERS.contains(part));
        let name = parts.last().copied().unwrap_or_default();
        Self {
            in_test: test_folder || name == "tests.rs",
            is_build_script: name == "build.rs",
            crate_folder: file.crate_folder().unwrap_or_default().to_owned(),
        }
    }

    /// Command lines print, build scripts talk to cargo by printing, and tests may say what they do.
    pub fn may_print(&self) -> bool {
        self.in_test
            || self.is_build_script
            || matches!(&*self.crate_folder, "bench" | "cli" | "xtask")
    }

    pub fn may_exit(&self) -> bool {
        self.crate_folder == "cli"
    }
}

/// `#[test]`, `#[tokio::test]` and the like, and `#[cfg(test)]`, also inside of `all(...)`.
pub fn marks_test(attribute: &syn::Attribute) -> bool {
    let path = attribute.path();
    if path.segments.last().is_some_and(|part| part.ident == "test") {
        return true;
    }
    let syn::Meta::List(list) = &attribute.meta else { return false };
    path.is_ident("cfg") && cfg_needs_test(list.tokens.clone())
}

/// Whether the condition can only hold in tests: `test` alone or as one part of `all`.
fn cfg_needs_test(tokens: proc_macro2::TokenStream) -> bool {
    let Ok(condition) = syn::parse2::<syn::Meta>(tokens) else { return false };
    match &condition {
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::List(list) if list.path.is_ident("all") => {
            let parts = list.parse_args_with(
                syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated,
            );
            parts.is_ok_and(|parts| parts.iter().any(|part| part.path().is_ident("test")))
        }
        syn::Meta::List(_) | syn::Meta::NameValue(_) => false,
    }
}
