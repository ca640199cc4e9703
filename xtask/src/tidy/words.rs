//! Notes to oneself that were left behind.

use super::Finding;
use crate::workspace::SourceFile;

/// Put together from halves, so that this file passes its own rule.
const WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

pub fn check(file: &SourceFile) -> Vec<Finding> {
    if file.has_extension(&["md"]) {
        return Vec::new();
    }
    let lines = file.text.lines().enumerate();
    let found = lines.filter_map(|(index, line)| Some((index + 1, leftover(line)?)));
    found
        .map(|(line, word)| {
            let advice = format!("do what {word} says, or file an issue and take the note out");
            Finding::new(&file.path, line, "leftover", advice)
        })
        .collect()
}

fn leftover(line: &str) -> Option<&'static str> {
    let mut parts = line.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    parts.find_map(|part| WORDS.into_iter().find(|word| *word == part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_line(line: &str, expect: bool) {
        assert_eq!(leftover(line).is_some(), expect, "{line}");
    }

    #[test]
    fn whole_words_only() {
        for word in WORDS {
            check_line(&format!("// {word}: later"), true);
            check_line(&format!("x(); /* {word}(ann) */"), true);
            check_line(&format!("let {word}_LIST = 1;"), false);
            check_line(&format!("{word}X"), false);
        }
        check_line("todos", false);
    }

    #[test]
    fn prose_may_speak_of_them() {
        let text = format!("no {}", WORDS[0]);
        let finds = |path: &str| check(&SourceFile { path: path.into(), text: text.clone() }).len();
        assert_eq!((finds("a.rs"), finds("a.proto"), finds("a.md")), (1, 1, 0));
    }
}
