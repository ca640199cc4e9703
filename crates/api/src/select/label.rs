//! Label selectors in the grammar of Kubernetes:
//!
//! ```text
//!   app=web, tier==front, env!=test, zone in (a, b), zone notin (c), gpu, !legacy, cores>8, age<30
//! ```
use std::{collections::BTreeSet, fmt};

use super::{SelectorError, term::label_term};
use crate::{
    object::Object,
    validate::{is_label_value, is_qualified_name},
};

/// Requirements on labels that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelSelector {
    requirements: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    Exists,
    Absent,
    In(BTreeSet<String>),
    /// Also holds where the label is absent, as `!=` and `notin` do in Kubernetes.
    NotIn(BTreeSet<String>),
    /// A whole number above this one; what is no number is not.
    Above(i64),
    Below(i64),
}

impl LabelSelector {
    /// Reads a selector; an empty one selects everything.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        let requirements = Parser { rest: text }
            .selector()
            .map_err(|problem| SelectorError::Label { selector: text.to_owned(), problem })?;
        Ok(Self { requirements })
    }

    /// Whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Whether the labels of an object fulfil all requirements.
    pub fn matches(&self, object: &Object) -> bool {
        self.matches_labels(|key| object.label(key))
    }

    /// For each requirement that [`crate::terms`] can answer, the terms of which an object that
    /// fulfils it has one.
    pub fn terms(&self) -> Vec<Vec<String>> {
        let terms = |requirement: &Requirement| match &requirement.test {
            Test::In(values) => {
                let term = |value: &String| label_term(&requirement.key, value);
                Some(values.iter().map(term).collect())
            }
            Test::Exists | Test::Absent | Test::NotIn(_) | Test::Above(_) | Test::Below(_) => None,
        };
        self.requirements.iter().filter_map(terms).collect()
    }

    /// Whether the labels that `label` finds by their key fulfil all requirements.
    pub fn matches_labels<'a>(&self, label: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.requirements.iter().all(|requirement| requirement.test.holds(label(&requirement.key)))
    }
}

impl Test {
    fn holds(&self, value: Option<&str>) -> bool {
        match (self, value) {
            (Self::Exists, value) => value.is_some(),
            (Self::Absent, value) => value.is_none(),
            (Self::In(values), Some(value)) => values.contains(value),
            (Self::In(_), None) => false,
            (Self::NotIn(values), Some(value)) => !values.contains(value),
            (Self::NotIn(_), None) => true,
            (Self::Above(bound), value) => number(value).is_some_and(|value| *bound < value),
            (Self::Below(bound), value) => number(value).is_some_and(|value| value < *bound),
        }
    }
}

fn number(value: Option<&str>) -> Option<i64> {
    value?.parse().ok()
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if 0 < index {
                f.write_str(",")?;
            }
            let list = |values: &BTreeSet<String>| match Vec::from_iter(values.clone()).join(",") {
                // Nothing between the brackets is no value; the empty one stands before a comma.
                nothing if nothing.is_empty() => ",".to_owned(),
                list => list,
            };
            match test {
                Test::Exists => write!(f, "{key}")?,
                Test::Absent => write!(f, "!{key}")?,
                Test::In(values) => write!(f, "{key} in ({})", list(values))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", list(values))?,
                Test::Above(bound) => write!(f, "{key}>{bound}")?,
                Test::Below(bound) => write!(f, "{key}<{bound}")?,
            }
        }
        Ok(())
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn selector(mut self) -> Result<Vec<Requirement>, String> {
        let mut requirements = Vec::new();
        self.skip_space();
        if self.rest.is_empty() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            self.skip_space();
            if self.rest.is_empty() {
                return Ok(requirements);
            }
            if !self.take(",") {
                return Err(format!("expected ',' before {:?}", self.rest));
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, String> {
        self.skip_space();
        if self.take("!") {
            return Ok(Requirement { key: self.key()?, test: Test::Absent });
        }
        let key = self.key()?;
        self.skip_space();
        let test = if self.take("!=") {
            Test::NotIn(BTreeSet::from([self.value()?]))
        } else if self.take("==") || self.take("=") {
            Test::In(BTreeSet::from([self.value()?]))
        } else if self.take(">") {
            Test::Above(self.number()?)
        } else if self.take("<") {
            Test::Below(self.number()?)
        } else {
            self.set_test()?
        };
        Ok(Requirement { key, test })
    }

    fn set_test(&mut self) -> Result<Test, String> {
        if self.rest.is_empty() || self.rest.starts_with(',') {
            return Ok(Test::Exists);
        }
        match self.word() {
            "in" => Ok(Test::In(self.values()?)),
            "notin" => Ok(Test::NotIn(self.values()?)),
            other => {
                let found = if other.is_empty() { self.rest } else { other };
                Err(format!("expected =, ==, !=, in, notin, > or <, found {found:?}"))
            }
        }
    }

    fn values(&mut self) -> Result<BTreeSet<String>, String> {
        self.skip_space();
        if !self.take("(") {
            return Err(format!("expected '(' before {:?}", self.rest));
        }
        self.skip_space();
        if self.take(")") {
            return Err("expected a value between '(' and ')'".to_owned());
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            self.skip_space();
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return Err("expected ',' or ')' after a value".to_owned());
            }
        }
    }

    fn key(&mut self) -> Result<String, String> {
        self.skip_space();
        let key = self.word();
        if !is_qualified_name(key) {
            return Err(format!("{key:?} is not a label key such as app or example.com/app"));
        }
        Ok(key.to_owned())
    }

    fn value(&mut self) -> Result<String, String> {
        self.skip_space();
        let value = self.word();
        if !is_label_value(value) {
            return Err(format!(
                "{value:?} is not a label value: use letters, digits, '-', '_', '.'"
            ));
        }
        Ok(value.to_owned())
    }

    fn number(&mut self) -> Result<i64, String> {
        let value = self.value()?;
        value.parse().map_err(|_| format!("{value:?} is not a whole number, as > and < compare"))
    }

    fn word(&mut self) -> &'a str {
        let ends =
            |c: char| c.is_whitespace() || matches!(c, ',' | '=' | '!' | '(' | ')' | '>' | '<');
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        word
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(selector: &str, labels: &[(&str, &str)], expect: bool) {
        let parsed = LabelSelector::parse(selector).expect("valid selector");
        let find = |key: &str| labels.iter().find(|(k, _)| *k == key).map(|(_, value)| *value);
        assert_eq!(parsed.matches_labels(find), expect, "{selector}");
        let again = LabelSelector::parse(&parsed.to_string()).expect("its own text");
        assert_eq!(again, parsed, "printing and reading gives the same selector");
    }

    #[test]
    fn requirements_match_as_in_kubernetes() {
        let web = [("app", "web"), ("example.com/tier", "front")];
        check("", &web, true);
        check("app=web", &web, true);
        check("app == web", &web, true);
        check("app!=web", &web, false);
        check("env!=test", &web, true);
        check("env=", &web, false);
        check("app in (db, web)", &web, true);
        check("app in (db,)", &web, false);
        check("app notin (,)", &web, true);
        check("env!=", &web, true);
        check("app notin (web)", &web, false);
        check("zone notin (a)", &web, true);
        check("app", &web, true);
        check("!app", &web, false);
        check("!zone , app", &web, true);
        check("example.com/tier=front,app=web", &web, true);
        check("example.com/tier=front,app=db", &web, false);
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        let node = [("cores", "16"), ("zone", "a")];
        check("cores>8", &node, true);
        check("cores > 16", &node, false);
        check("cores<100,cores>9", &node, true);
        check("cores<9", &node, false);
        check("zone>1", &node, false);
        check("zone<1", &node, false);
        check("age<30", &node, false);
    }

    #[test]
    fn mistakes_are_named() {
        let cases = [
            ("a=b c", "expected ',' before \"c\""),
            ("a in b", "expected '(' before \"b\""),
            ("a in ()", "expected a value between '(' and ')'"),
            ("a notin ( )", "expected a value between '(' and ')'"),
            ("a in (b", "expected ',' or ')' after a value"),
            ("a like b", "expected =, ==, !=, in, notin, > or <, found \"like\""),
            ("a>b", "\"b\" is not a whole number, as > and < compare"),
            ("=b", "\"\" is not a label key such as app or example.com/app"),
            ("a=b,", "\"\" is not a label key such as app or example.com/app"),
            ("a(b)", "expected =, ==, !=, in, notin, > or <, found \"(b)\""),
        ];
        for (selector, problem) in cases {
            let error = LabelSelector::parse(selector).expect_err("a mistake");
            assert_eq!(error.to_string(), format!("label selector {selector:?}: {problem}"));
        }
    }
}
