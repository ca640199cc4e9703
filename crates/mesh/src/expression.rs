//! Which regular expressions may be handed to proxies.
//!
//! Envoy reads them with RE2, and refuses all routes of all services along with one that it cannot read. The
//! expressions of Rust's `regex` are nearly the same language. So one is taken apart here, and refused unless both
//! read it, and read it alike.
//!
//! ```text
//!   text --> regex-syntax: a tree --> every part: does RE2 have it? --> how large is the program?
//! ```
mod complement;

pub use complement::all_but;

use regex_syntax::ast::{
    self, AssertionKind, Ast, ClassBracketed, ClassPerl, ClassSet, ClassSetItem, ClassUnicode,
    ClassUnicodeKind, Flag, Flags, FlagsItemKind, GroupKind, HexLiteralKind, Literal, LiteralKind,
    Repetition, RepetitionKind, RepetitionRange,
};

/// RE2 repeats nothing more often than this, and nested repetitions count by their product.
const REPEATS_MAX: u32 = 1000;
/// Steps of a program, by our estimate. RE2 gives up beyond some 80,000; its estimate and ours differ by less than
/// the half that is left.
const STEPS_MAX: u64 = 40_000;

/// Steps of an ASCII letter, or of a range of them.
const ASCII_STEPS: u64 = 1;
/// Steps of a letter beyond ASCII, with its other cases: up to four bytes each.
const LETTER_STEPS: u64 = 8;
/// Steps of a class that holds most of what there is, such as `.` or `[^/]`.
const WIDE_STEPS: u64 = 20;
/// Steps of a range beyond ASCII, whose ends may have up to four bytes.
const RANGE_STEPS: u64 = 30;
/// Steps of a class such as `\pL`, with hundreds of ranges.
const UNICODE_STEPS: u64 = 3000;

/// Categories that both know by these names, besides those of one letter.
pub const CATEGORIES: [&str; 28] = [
    "Cc", "Cf", "Co", "Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd",
    "Pe", "Pf", "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs",
];
/// Scripts that both know by these names.
pub const SCRIPTS: [&str; 16] = [
    "Arabic",
    "Armenian",
    "Bengali",
    "Cyrillic",
    "Devanagari",
    "Ethiopic",
    "Georgian",
    "Greek",
    "Han",
    "Hangul",
    "Hebrew",
    "Hiragana",
    "Katakana",
    "Latin",
    "Tamil",
    "Thai",
];

/// Why proxies could not read an expression, if so.
pub fn problem(text: &str) -> Option<String> {
    let tree = match ast::parse::Parser::new().parse(text) {
        Ok(tree) => tree,
        Err(error) => return Some(error.kind().to_string()),
    };
    match steps(&tree, REPEATS_MAX) {
        Ok(steps) if steps <= STEPS_MAX => None,
        Ok(_) => Some("it is too large".to_owned()),
        Err(why) => Some(why),
    }
}

/// Whether a header can have this name; those of HTTP/2 itself begin with a colon.
pub fn is_header(name: &str) -> bool {
    let is_part =
        |letter: u8| letter.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&letter);
    let name = name.strip_prefix(':').unwrap_or(name);
    !name.is_empty() && name.bytes().all(is_part)
}

/// Steps of the program for a part, which may be repeated as often as `repeats` says; or what RE2 lacks.
fn steps(part: &Ast, repeats: u32) -> Result<u64, String> {
    let all = |parts: &[Ast]| -> Result<u64, String> {
        parts.iter().try_fold(1, |sum: u64, part| Ok(sum.saturating_add(steps(part, repeats)?)))
    };
    match part {
        Ast::Empty(_) => Ok(0),
        Ast::Flags(set) => flags(&set.flags).map(|()| 0),
        Ast::Literal(letter) => literal(letter),
        Ast::Dot(_) => Ok(WIDE_STEPS),
        Ast::Assertion(assertion) => boundary(&assertion.kind),
        Ast::ClassUnicode(class) => unicode(class),
        Ast::ClassPerl(class) => Ok(perl(class)),
        Ast::ClassBracketed(class) => bracketed(class),
        Ast::Repetition(repetition) => repeated(repetition, repeats),
        Ast::Group(group) => {
            match &group.kind {
                GroupKind::CaptureIndex(_) => {}
                GroupKind::CaptureName { name, .. } => is_word(&name.name)?,
                GroupKind::NonCapturing(set) => flags(set)?,
            }
            Ok(steps(&group.ast, repeats)?.saturating_add(2))
        }
        Ast::Alternation(parts) => all(&parts.asts),
        Ast::Concat(parts) => all(&parts.asts),
    }
}

fn is_word(name: &str) -> Result<(), String> {
    let is_part = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'_';
    if name.bytes().all(is_part) {
        return Ok(());
    }
    Err(format!("the name of a group has letters, digits and _ only, not {name:?}"))
}

fn flags(set: &Flags) -> Result<(), String> {
    set.items.iter().try_for_each(|item| match item.kind {
        FlagsItemKind::Negation
        | FlagsItemKind::Flag(
            Flag::CaseInsensitive | Flag::MultiLine | Flag::DotMatchesNewLine | Flag::SwapGreed,
        ) => Ok(()),
        FlagsItemKind::Flag(Flag::Unicode | Flag::CRLF | Flag::IgnoreWhitespace) => {
            Err("the flags are i, m, s and U".to_owned())
        }
    })
}

fn literal(letter: &Literal) -> Result<u64, String> {
    let named = match &letter.kind {
        LiteralKind::HexFixed(kind) | LiteralKind::HexBrace(kind) => *kind == HexLiteralKind::X,
        LiteralKind::Superfluous => letter.c != '_',
        LiteralKind::Verbatim
        | LiteralKind::Meta
        | LiteralKind::Octal
        | LiteralKind::Special(_) => true,
    };
    match (named, letter.c.is_ascii()) {
        (true, true) => Ok(ASCII_STEPS),
        (true, false) => Ok(LETTER_STEPS),
        (false, _) => Err(r"a letter is escaped as \x41 or \x{41}, and _ not at all".to_owned()),
    }
}

fn boundary(kind: &AssertionKind) -> Result<u64, String> {
    match kind {
        AssertionKind::StartLine
        | AssertionKind::EndLine
        | AssertionKind::StartText
        | AssertionKind::EndText
        | AssertionKind::WordBoundary
        | AssertionKind::NotWordBoundary => Ok(ASCII_STEPS),
        AssertionKind::WordBoundaryStart
        | AssertionKind::WordBoundaryEnd
        | AssertionKind::WordBoundaryStartAngle
        | AssertionKind::WordBoundaryEndAngle
        | AssertionKind::WordBoundaryStartHalf
        | AssertionKind::WordBoundaryEndHalf => {
            Err(r"the boundaries of words are \b and \B".to_owned())
        }
    }
}

fn unicode(class: &ClassUnicode) -> Result<u64, String> {
    let known = match &class.kind {
        ClassUnicodeKind::OneLetter(letter) => "CLMNPSZ".contains(*letter),
        ClassUnicodeKind::Named(name) => {
            "CLMNPSZ".split("").chain(CATEGORIES).chain(SCRIPTS).any(|one| one == name)
        }
        ClassUnicodeKind::NamedValue { .. } => false,
    };
    if known {
        return Ok(UNICODE_STEPS);
    }
    Err(r"a class of Unicode is named by its category or script, as \pL, \p{Lu} or \p{Greek}"
        .to_owned())
}

fn perl(class: &ClassPerl) -> u64 {
    if class.negated { WIDE_STEPS } else { 4 * ASCII_STEPS }
}

fn bracketed(class: &ClassBracketed) -> Result<u64, String> {
    let wide = if class.negated { WIDE_STEPS } else { 0 };
    match &class.kind {
        ClassSet::Item(one) => Ok(item(one)?.saturating_add(wide)),
        ClassSet::BinaryOp(_) => Err(no_sets()),
    }
}

fn item(one: &ClassSetItem) -> Result<u64, String> {
    match one {
        ClassSetItem::Empty(_) => Ok(0),
        ClassSetItem::Literal(letter) => literal(letter),
        ClassSetItem::Range(range) => {
            literal(&range.start)?;
            let is_ascii = literal(&range.end)? == ASCII_STEPS;
            Ok(if is_ascii { ASCII_STEPS } else { RANGE_STEPS })
        }
        ClassSetItem::Ascii(class) => Ok(if class.negated { WIDE_STEPS } else { 4 * ASCII_STEPS }),
        ClassSetItem::Unicode(class) => unicode(class),
        ClassSetItem::Perl(class) => Ok(perl(class)),
        ClassSetItem::Bracketed(_) => Err(no_sets()),
        ClassSetItem::Union(union) => {
            union.items.iter().try_fold(0, |sum: u64, one| Ok(sum.saturating_add(item(one)?)))
        }
    }
}

fn no_sets() -> String {
    r"a class holds letters, ranges and classes such as \d; within it, write [ as \[ and && as &\&"
        .to_owned()
}

fn repeated(repetition: &Repetition, repeats: u32) -> Result<u64, String> {
    if matches!(*repetition.ast, Ast::Repetition(_)) {
        return Err("a repetition is repeated only as a group, as in (?:a*)*".to_owned());
    }
    let times = match &repetition.op.kind {
        RepetitionKind::ZeroOrOne | RepetitionKind::ZeroOrMore | RepetitionKind::OneOrMore => 1,
        RepetitionKind::Range(
            RepetitionRange::Exactly(times) | RepetitionRange::AtLeast(times),
        ) => *times,
        RepetitionKind::Range(RepetitionRange::Bounded(_, most)) => *most,
    };
    let left = repeats.checked_div(times).unwrap_or(repeats);
    if left == 0 {
        return Err(format!(
            "nothing is repeated more than {REPEATS_MAX} times, nor are repetitions of repetitions"
        ));
    }
    let once = steps(&repetition.ast, left)?.saturating_add(1);
    Ok(once.saturating_mul(u64::from(times).saturating_add(1)))
}

#[cfg(test)]
mod tests;
