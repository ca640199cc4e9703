//! The reference: one page per kind and one for the commands, made from the definitions.
mod commands;
mod kinds;

use crate::scheme;
use orrery_api::Kind;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All pages, by file name.
pub fn pages() -> anyhow::Result<BTreeMap<String, String>> {
    let scheme = scheme::local(None)?;
    let served: Vec<&Arc<Kind>> = scheme.kinds().collect();
    let mut pages = BTreeMap::new();
    for kind in &served {
        pages.insert(file_name(kind), kinds::page(kind));
    }
    pages.insert("cli.md".to_owned(), commands::page());
    pages.insert("README.md".to_owned(), index(&served));
    Ok(pages)
}

/// `apps.v1.workload.md`.
fn file_name(kind: &Kind) -> String {
    let group = kind.group().split('.').next().unwrap_or_default();
    format!("{group}.{}.{}.md", kind.version(), kind.singular())
}

fn index(kinds: &[&Arc<Kind>]) -> String {
    let mut out = String::from(
        "# Reference\n\nMade from the definitions by `cargo run -p orrery-cli -- reference docs/reference`; \
         a test fails when it is stale.\n\n- [The command line](cli.md)\n\n\
         | kind | API version | short names | what it is |\n|---|---|---|---|\n",
    );
    for kind in kinds {
        let doc = kind.schema().root().doc.lines().next().unwrap_or_default().to_owned();
        out += &format!(
            "| [{}]({}) | `{}` | {} | {} |\n",
            kind.kind(),
            file_name(kind),
            kind.api_version(),
            kind.short_names().join(", "),
            cell(&doc)
        );
    }
    out
}

/// Text that stays in its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;")
}
