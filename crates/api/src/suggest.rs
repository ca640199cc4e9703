//! "Did you mean": the nearest word to the one that was not understood.

/// A clause such as `, did you mean "replicas"?`, or nothing when no candidate is near.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    match nearest(word, candidates) {
        Some(found) => format!(", did you mean {found:?}?"),
        None => String::new(),
    }
}

/// The candidate that `word` is most likely a misspelling of.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = simplify(word);
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(&plain, &simplify(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= tolerance(&plain, candidate))
        .min_by(|a, b| a.cmp(b))
        .map(|(_, candidate)| candidate)
}

/// Words are compared without case and separators, so `max_len` finds `maxLen`.
fn simplify(word: &str) -> String {
    // A name longer than this is not a misspelling of ours, and the distance is quadratic.
    const COMPARED_CHARS_MAX: usize = 64;
    word.chars()
        .take(COMPARED_CHARS_MAX)
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}

/// One edit in three letters still reads as the same word.
fn tolerance(word: &str, candidate: &str) -> usize {
    word.chars().count().max(candidate.chars().count()) / 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_misspelled_words_only() {
        let known = ["replicas", "restartPolicy", "command"];
        let cases = [
            ("replicaz", Some("replicas")),
            ("restart_policy", Some("restartPolicy")),
            ("Command", Some("command")),
            ("zebra", None),
            ("", None),
        ];
        for (word, expect) in cases {
            assert_eq!(nearest(word, known.into_iter()), expect, "{word}");
        }
    }
}
