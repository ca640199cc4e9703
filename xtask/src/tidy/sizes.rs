//! Files that fit into a head.

use super::Finding;
use crate::workspace::SourceFile;

/// A file of this length is read in one sitting; past it, it holds two things.
const FILE_LINES_MAX: usize = 600;

pub fn check(file: &SourceFile) -> Vec<Finding> {
    let lines = file.text.lines().count();
    if !file.has_extension(&["rs", "proto", "py", "js", "ts", "sh"]) || lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    let advice = format!("{lines} lines, at most {FILE_LINES_MAX}: split it by what its parts own");
    vec![Finding::new(&file.path, 1, "file-size", advice)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_lines(path: &str, lines: usize, expect: usize) {
        let file = SourceFile { path: path.into(), text: "//\n".repeat(lines) };
        assert_eq!(check(&file).len(), expect, "{path} with {lines} lines");
    }

    #[test]
    fn long_files() {
        check_lines("a.rs", 600, 0);
        check_lines("a.rs", 601, 1);
        check_lines("a.proto", 601, 1);
        check_lines("CHANGELOG.md", 5000, 0);
    }
}
