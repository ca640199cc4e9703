use super::{STEPS_MAX, is_header, problem};
use proptest::prelude::*;

#[track_caller]
fn check(text: &str) {
    assert_eq!(problem(text), None, "{text:?}");
    assert!(regex::Regex::new(text).is_ok(), "{text:?}");
}

#[track_caller]
fn check_refused(text: &str, why: &str) {
    let problem = problem(text).unwrap_or_else(|| panic!("{text:?} was taken"));
    assert!(problem.contains(why), "{text:?}: {problem}");
}

/// proves: MSH-07
#[test]
fn what_both_read_is_taken() {
    for text in ["", "/api/v[0-9]+", "/a|/b", "(|a)*", "(?i)x", "(?i-s:.)", "(?P<n>x)", "(?<n>x)"] {
        check(text);
    }
    for text in
        [r"\d+\W", r"[[:alpha:]]", r"[^/]{1,1000}", r"\pL", r"\p{Lu}", r"\p{Greek}", r"\x{61}"]
    {
        check(text);
    }
    for text in
        [r"\bx\B", r"\Aa\z", "é", "[à-ü]", r"\-\/\&", "a{1000}", "(a{10}){100}", "a??", "(?:a*)*"]
    {
        check(text);
    }
}

/// proves: MSH-07
#[test]
fn what_only_one_of_them_reads_is_refused() {
    for text in ["(?x) a b", "(?-u)x", "(?R)x", "(?x: a)"] {
        check_refused(text, "flags");
    }
    for text in [r"\u{61}", r"\u0061", r"\U00000061", r"\_"] {
        check_refused(text, "escaped");
    }
    for text in ["[a--b]", "[a&&b]", "[a~~b]", "[[ab]c]"] {
        check_refused(text, "class");
    }
    for text in [r"\b{start}x", r"\<x", r"x\>"] {
        check_refused(text, "boundaries");
    }
    for text in ["a**", "a+*", "a{2}{3}"] {
        check_refused(text, "group");
    }
    for text in ["a{1001}", "a{1001,}", "a{1,1001}", "(a{100}){100}", "((a{10}){10}){11}"] {
        check_refused(text, "repeated more than 1000");
    }
    for text in [r"\p{Alphabetic}", r"\p{greek}", r"\p{sc=Greek}", r"[\p{Letter}]"] {
        check_refused(text, "category or script");
    }
    check_refused("(?P<a.b>x)", "name of a group");
    check_refused(r"\pL{1000}", "too large");
    check_refused("(", "unclosed group");
    check_refused("(?=x)", "look-around");
}

#[test]
fn a_header_has_a_name_that_it_can_have() {
    for name in ["x", "X-Up", ":path", ":authority", "a.b_c"] {
        assert!(is_header(name), "{name:?}");
    }
    for name in ["", ":", "x y", "a\nb", "a\0", "é", "a:b"] {
        assert!(!is_header(name), "{name:?}");
    }
}

fn part() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[a-c/.^$]",
        r"\\[dDwWsSbB.]",
        r"\[\^?[a-c]-[d-f]\]",
        r"\\pL",
        "[à-ü]",
        r"\\x\{[1-7][0-9a-f]\}"
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("{one}{other}")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("{one}|{other}")),
            (inner.clone(), "[*+?]|\\{[1-9][0-9]?\\}")
                .prop_map(|(one, op)| format!("(?:{one}){op}")),
            inner.prop_map(|one| format!("(?i:{one})")),
        ]
    })
}

proptest! {
    /// What is taken is a regular expression, and what is refused here is only too large.
    #[test]
    fn the_common_language_is_taken(text in part()) {
        match problem(&text) {
            None => prop_assert!(regex_syntax::parse(&text).is_ok(), "{text}"),
            Some(why) => prop_assert!(
                why.contains("too large") || why.contains("more than 1000"),
                "{text}: {why}"
            ),
        }
    }

    /// Anything at all is judged, and the judgement of a repetition is not lost on the way.
    #[test]
    fn anything_is_judged(text in r"[(){}\[\]|*+?\\a-c0-9^$.,&-]{0,24}") {
        let _ = problem(&text);
        let many = format!("(?:{}){{1000}}", "a".repeat(usize::try_from(STEPS_MAX / 1000).unwrap()));
        prop_assert!(problem(&many).is_some());
    }
}
