//! Links between our documents lead somewhere.

use std::path::Path;

use super::Finding;
use crate::workspace::SourceFile;

pub fn check(root: &Path, files: &[SourceFile]) -> Vec<Finding> {
    let documents = files.iter().filter(|file| file.has_extension(&["md"]));
    documents.flat_map(|file| in_document(root, file)).collect()
}

fn in_document(root: &Path, file: &SourceFile) -> Vec<Finding> {
    let folder = root.join(&file.path);
    let folder = folder.parent().unwrap_or(root);
    let dead = links(&file.text).into_iter().filter(|(_, target)| !folder.join(target).exists());
    dead.map(|(line, target)| {
        let advice = format!("{target} does not exist; links are relative to the document");
        Finding::new(&file.path, line, "dead-link", advice)
    })
    .collect()
}

/// The relative targets of `[text](target)` outside of code, without their fragments.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_fence = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            found.extend(targets(line).map(|target| (index + 1, target)));
        }
    }
    found
}

fn targets(line: &str) -> impl Iterator<Item = String> {
    // Every second part stands between backticks.
    let prose: String = line.split('`').step_by(2).collect();
    let after = prose.split("](").skip(1).map(str::to_owned).collect::<Vec<_>>();
    after.into_iter().filter_map(|rest| relative(rest.split([')', ' ']).next()?))
}

fn relative(target: &str) -> Option<String> {
    let path = target.split('#').next()?;
    let elsewhere = path.contains("://") || path.starts_with("mailto:") || path.starts_with('/');
    (!path.is_empty() && !elsewhere).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_links(text: &str, expect: &[(usize, &str)]) {
        let expect: Vec<_> = expect.iter().map(|(line, to)| (*line, (*to).to_owned())).collect();
        assert_eq!(links(text), expect, "{text}");
    }

    #[test]
    fn relative_links_are_found() {
        check_links("see [a](docs/a.md) and [b](b.md#part)", &[(1, "docs/a.md"), (1, "b.md")]);
        check_links("\n![picture](p.png \"title\")", &[(2, "p.png")]);
        check_links("[x](../LICENSE)", &[(1, "../LICENSE")]);
    }

    #[test]
    fn the_rest_is_not_ours_to_check() {
        check_links("[web](https://example.org/x) [mail](mailto:a@b) [here](#part)", &[]);
        check_links("```\n[a](b.md)\n```\n", &[]);
        check_links("write `[text](target)` for a link", &[]);
    }

    #[test]
    fn a_dead_link_is_a_finding() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("docs")).unwrap();
        std::fs::write(dir.path().join("docs/b.md"), "").unwrap();
        let text = "[b](b.md)\n[c](c.md)\n[up](../docs/b.md)".to_owned();
        let found = check(dir.path(), &[SourceFile { path: "docs/a.md".into(), text }]);
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [2]);
    }
}
