//! Licence expressions (SPDX): `MIT OR Apache-2.0`, `(A OR B) AND C`, `A WITH exception`.

/// Whether the expression can be met with allowed licences alone. An expression that we cannot read
/// is met by nothing. The older spelling `A/B` means `A OR B`.
pub fn is_met(expression: &str, allowed: &impl Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words, allowed);
    met.is_some_and(|met| met) && words.peek().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

/// `AND` binds closer than `OR`. `None` is a syntax error.
fn any(words: &mut Words<'_>, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
    let mut met = all(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed)?;
    }
    Some(met)
}

fn all(words: &mut Words<'_>, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed)?;
    }
    Some(met)
}

fn one(words: &mut Words<'_>, allowed: &impl Fn(&str) -> bool) -> Option<bool> {
    match words.next()? {
        "(" => {
            let met = any(words, allowed)?;
            words.next_if_eq(&")").map(|_| met)
        }
        ")" | "OR" | "AND" | "WITH" => None,
        licence if words.next_if_eq(&"WITH").is_some() => {
            let exception = words.next()?;
            Some(allowed(&format!("{licence} WITH {exception}")))
        }
        // `X+` is "X or later", and X is among those.
        licence => Some(allowed(licence.strip_suffix('+').unwrap_or(licence))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, expect: bool) {
        let allowed =
            |licence: &str| ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"].contains(&licence);
        assert_eq!(is_met(expression, &allowed), expect, "{expression}");
    }

    #[test]
    fn expressions() {
        check("MIT", true);
        check("MIT+", true);
        check("GPL-3.0", false);
        check("GPL-3.0+", false);
        check("GPL-3.0 OR MIT", true);
        check("MIT/GPL-3.0", true);
        check("MIT AND GPL-3.0", false);
        check("MIT AND ISC", true);
        check("MIT OR GPL-3.0 AND BAD", true);
        check("(MIT OR GPL-3.0) AND BAD", false);
        check("(MIT OR GPL-3.0) AND ISC", true);
        check("Apache-2.0 WITH LLVM-exception", true);
        check("Apache-2.0", false);
        check("Apache-2.0 WITH LLVM-exception OR BAD", true);
    }

    #[test]
    fn what_cannot_be_read_is_not_met() {
        for text in ["", "MIT MIT", "MIT OR", "OR MIT", "(MIT", "MIT)", "()", "MIT WITH", "WITH"] {
            check(text, false);
        }
    }
}
