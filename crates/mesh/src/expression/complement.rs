//! Expressions for every text but some: neither RE2 nor those who ask it have a word for "not".
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// What the texts are made of; others are none that could be meant.
const LETTERS: RangeInclusive<u8> = b'!'..=b'~';
const ANYTHING: &str = "[!-~]*";
/// RE2 gives up beyond some 80,000 steps; three letters that are written here become two of them at most. That is
/// enough for some hundred names.
const LENGTH_MAX: usize = 60_000;

/// For every text of printable ASCII without spaces, but the empty one and these. `None` if that would be too large
/// for proxies.
///
/// It goes down the tree of the texts, letter by letter: whoever leaves it anywhere, or stops where none of them
/// ends, is another.
pub fn all_but(texts: &BTreeSet<&str>) -> Option<String> {
    let texts = texts.iter().map(|text| text.as_bytes());
    let meant = texts.filter(|text| text.iter().all(|letter| LETTERS.contains(letter)));
    let mut tree = vec![b"".as_slice()];
    tree.extend(meant.filter(|text| !text.is_empty()));
    let mut written = String::new();
    write(&tree, &mut written);
    Some(written).filter(|written| written.len() <= LENGTH_MAX)
}

/// What may follow where these are what is left of the texts, in order.
fn write(left: &[&[u8]], to: &mut String) {
    let (ends, on) = match left {
        [[], on @ ..] => (true, on),
        on => (false, on),
    };
    let branches = on.chunk_by(|one, other| one[0] == other[0]);
    let heads: Vec<u8> = branches.clone().map(|branch| branch[0][0]).collect();
    to.push_str(if ends { "(?:" } else { "(?:|" });
    to.push_str(&other_than(&heads));
    to.push_str(ANYTHING);
    for branch in branches {
        to.push('|');
        to.push_str(&escaped(branch[0][0]));
        let tails: Vec<&[u8]> = branch.iter().map(|text| &text[1..]).collect();
        write(&tails, to);
    }
    to.push(')');
}

/// Any letter but these, which are in order. Not with `^`: that would let in what is none of ours, in many more steps.
fn other_than(heads: &[u8]) -> String {
    let mut from = *LETTERS.start();
    let mut class = String::from("[");
    for end in heads.iter().copied().chain([LETTERS.end() + 1]) {
        if from < end {
            class.push_str(&format!("{}-{}", escaped(from), escaped(end - 1)));
        }
        from = end + 1;
    }
    class.push(']');
    class
}

fn escaped(letter: u8) -> String {
    match letter {
        b'!' | b'~' => char::from(letter).to_string(),
        letter if letter.is_ascii_alphanumeric() => char::from(letter).to_string(),
        letter => format!("\\x{letter:02x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::problem;
    use proptest::prelude::*;
    use regex::{Regex, RegexBuilder};

    fn whole(expression: &str) -> Regex {
        let built = RegexBuilder::new(&format!("^(?:{expression})$")).nest_limit(10_000).build();
        built.expect("an expression")
    }

    #[track_caller]
    fn check(texts: &[&str], others: &[&str]) {
        let expression = all_but(&texts.iter().copied().collect()).expect("not too large");
        assert_eq!(problem(&expression), None, "{expression}");
        let expression = whole(&expression);
        for text in texts.iter().chain(&["", "a b", "\u{e4}"]) {
            assert!(!expression.is_match(text), "{text:?} is met by {expression}");
        }
        for text in others {
            assert!(expression.is_match(text), "{text:?} is not met by {expression}");
        }
    }

    #[test]
    fn every_other_text_is_met_and_none_of_these() {
        check(&[], &["a", "web.shop", "!~"]);
        check(&["web"], &["w", "we", "wex", "webs", "veb", "x", "WEB"]);
        check(&["web", "web.shop"], &["web.", "web.shops", "web.sho", "web-shop", "bank.shop"]);
        check(&["a-b", "a]b", r"a\b", "a^b", "[", "~", "!"], &["a", "ab", "a~b", "]", "\\", "-"]);
        check(&["", "\u{e4}", "a b"], &["a", "b"]);
    }

    #[test]
    fn what_is_too_large_for_proxies_is_none() {
        // A service and its project, each as long as can be.
        let long = "x".repeat(127);
        let expression = whole(&all_but(&[long.as_str()].into()).expect("one is none too many"));
        assert!(!expression.is_match(&long) && expression.is_match(&long[1..]));
        let written = |count: usize| {
            let names: Vec<String> =
                (0..count).map(|number| format!("proxy/service-{number}.shop")).collect();
            all_but(&names.iter().map(String::as_str).collect())
        };
        let most = (0..3000).take_while(|count| written(*count).is_some()).last();
        let largest = written(most.expect("none is not too many")).expect("not too large");
        assert!(Some(150) < most, "{most:?}");
        assert_eq!(problem(&largest), None, "proxies read whatever is written");
        assert_eq!(written(3000), None);
    }

    proptest! {
        #[test]
        fn it_is_the_complement(
            texts in proptest::collection::btree_set("[ab.]{0,4}", 0..6),
            asked in proptest::collection::vec("[abc.]{0,5}", 0..20),
        ) {
            let expression = all_but(&texts.iter().map(String::as_str).collect()).unwrap();
            let expression = whole(&expression);
            for text in asked.iter().chain(&texts) {
                let expect = !text.is_empty() && !texts.contains(text);
                prop_assert_eq!(expression.is_match(text), expect, "{:?}", text);
            }
        }
    }
}
