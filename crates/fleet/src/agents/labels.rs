//! The labels of a node: some from its agent, some from people.
use std::collections::HashMap;

/// Brings the labels of a node in line with what its agent says now, given what it said before.
/// What people have set or changed stays as they want it. Says whether anything changed.
pub fn take_over(
    labels: &mut HashMap<String, String>,
    before: &HashMap<String, String>,
    now: &HashMap<String, String>,
) -> bool {
    let old = labels.clone();
    labels.retain(|key, value| now.contains_key(key) || before.get(key) != Some(value));
    for (key, value) in now {
        let untouched = labels.get(key).is_none_or(|current| before.get(key) == Some(current));
        if untouched {
            labels.insert(key.clone(), value.clone());
        }
    }
    *labels != old
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> HashMap<String, String> {
        let pair = |word: &str| {
            let (key, value) = word.split_once('=').expect("a test writes k=v");
            (key.to_owned(), value.to_owned())
        };
        text.split_whitespace().map(pair).collect()
    }

    #[track_caller]
    fn check(there: &str, before: &str, now: &str, expect: &str) {
        let (mut found, before, now) = (labels(there), labels(before), labels(now));
        assert_eq!(take_over(&mut found, &before, &now), there != expect);
        assert_eq!(found, labels(expect));
        assert!(!take_over(&mut found, &before, &now), "once is enough");
    }

    #[test]
    fn the_agent_has_its_labels_and_people_have_theirs() {
        check("", "", "zone=a", "zone=a");
        check("zone=a", "zone=a", "zone=b", "zone=b");
        check("zone=a", "zone=a", "", "");
        check("own=x zone=a", "zone=a", "", "own=x");
        // People have said otherwise: theirs is the last word.
        check("zone=mine", "zone=a", "zone=b", "zone=mine");
        check("zone=mine", "zone=a", "", "zone=mine");
        check("zone=mine", "", "zone=a", "zone=mine");
    }
}
