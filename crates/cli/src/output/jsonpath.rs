//! Paths into JSON, and templates made of them, as `kubectl` writes them.
//!
//! ```text
//!   {range .items[*]}{.metadata.name}{"\n"}{end}
//!   `-- Range ------' `-- Path -----' `Text' `-' ends the range
//! ```
//! A path is translated to RFC 9535 and left to a library; only the template around it is ours.
use anyhow::{Context as _, bail};
use serde_json::Value;
use serde_json_path::JsonPath;
use std::fmt;
use std::str::FromStr;

/// A path from the root of a value: `{.a.b}`, `.a.b`, `a.b` or `$.a.b`.
#[derive(Clone, Debug)]
pub struct Path {
    text: String,
    query: JsonPath,
}

impl FromStr for Path {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let trimmed = text.trim();
        let inner = match trimmed.strip_prefix('{') {
            Some(rest) => rest.strip_suffix('}').context("a path that opens { ends with }")?,
            None => trimmed,
        };
        let inner = inner.trim();
        check_depth(inner)?;
        let query = JsonPath::parse(&translate(inner))
            .with_context(|| format!("{inner:?} is no path such as .status.state"))?;
        Ok(Self { text: format!("{{{inner}}}"), query })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Path {
    /// Every value that the path leads to.
    pub fn find<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        self.query.query(value).all()
    }
}

/// Brackets inside of brackets, at most: each level takes a piece of the stack of whoever reads it.
const BRACKETS_MAX: usize = 32;

fn check_depth(path: &str) -> anyhow::Result<()> {
    let (mut depth, mut deepest) = (0_usize, 0);
    for letter in path.chars() {
        match letter {
            '[' | '(' | '!' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    if BRACKETS_MAX < deepest {
        bail!("a path with more than {BRACKETS_MAX} brackets inside of each other is a mistake");
    }
    Ok(())
}

/// To RFC 9535: the root is written out, and names that are no plain words stand in brackets.
fn translate(path: &str) -> String {
    let body = path.strip_prefix(['$', '@']).unwrap_or(path);
    let mut out = String::from("$");
    let mut letters = body.chars().peekable();
    let mut at_start = true;
    while let Some(&letter) = letters.peek() {
        match letter {
            '[' => out.push_str(&brackets(&mut letters)),
            '.' => {
                letters.next();
                match letters.peek() {
                    Some('.') => {
                        letters.next();
                        out.push_str("..");
                        if letters.peek() != Some(&'[') {
                            out.push_str(&step(&mut letters));
                        }
                    }
                    Some('[') | None => {}
                    Some(_) => push_step(&mut out, &step(&mut letters)),
                }
            }
            _ if at_start => push_step(&mut out, &step(&mut letters)),
            _ => {
                // The library says what is wrong here.
                letters.next();
                out.push(letter);
            }
        }
        at_start = false;
    }
    out
}

type Letters<'a> = std::iter::Peekable<std::str::Chars<'a>>;

fn push_step(out: &mut String, step: &str) {
    if !step.starts_with('[') {
        out.push('.');
    }
    out.push_str(step);
}

/// A name up to the next dot or bracket; a backslash takes the next letter as it is.
fn step(letters: &mut Letters<'_>) -> String {
    let mut name = String::new();
    while let Some(&letter) = letters.peek() {
        match letter {
            '.' | '[' => break,
            '\\' => {
                letters.next();
                name.extend(letters.next());
            }
            _ => {
                letters.next();
                name.push(letter);
            }
        }
    }
    let plain = name.chars().all(|c| c.is_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    // A name with a space in it is a slip; the library says so when it meets it bare.
    if name == "*" || (plain && !name.is_empty()) || name.contains(char::is_whitespace) {
        return name;
    }
    format!("[{}]", Value::String(name))
}

/// Everything up to the bracket that closes this one, quoted brackets left alone.
fn brackets(letters: &mut Letters<'_>) -> String {
    let (mut text, mut depth, mut quote) = (String::new(), 0_usize, None);
    for letter in letters.by_ref() {
        text.push(letter);
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('[', None) => depth += 1,
            (']', None) => depth -= 1,
            (_, _) => {}
        }
        if depth == 0 {
            break;
        }
    }
    text
}

/// Text with paths in it.
#[derive(Clone, Debug)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    Text(String),
    Path(Path),
    Range(Path, Vec<Part>),
}

impl FromStr for Template {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        if !text.contains('{') {
            return Ok(Self { parts: vec![Part::Path(text.parse()?)] });
        }
        let mut rest = text;
        let parts = parts(&mut rest, 0)?;
        Ok(Self { parts })
    }
}

/// Ranges inside of ranges; deeper ones are a mistake.
const DEPTH_MAX: usize = 16;

/// Parts up to the end of the text or, inside of a range, up to its `{end}`.
fn parts(rest: &mut &str, depth: usize) -> anyhow::Result<Vec<Part>> {
    if DEPTH_MAX < depth {
        bail!("ranges nest too deeply");
    }
    let mut found = Vec::new();
    loop {
        let Some((text, behind)) = rest.split_once('{') else {
            if 0 < depth {
                bail!("a {{range}} has no {{end}}");
            }
            push_text(&mut found, rest);
            return Ok(found);
        };
        push_text(&mut found, text);
        let end = closing(behind).context("a { has no }")?;
        let inner = behind[..end].trim();
        *rest = &behind[end + 1..];
        match inner.split_once(char::is_whitespace) {
            Some(("range", path)) => {
                let path = path.parse()?;
                found.push(Part::Range(path, parts(rest, depth + 1)?));
            }
            _ if inner == "end" && 0 < depth => return Ok(found),
            _ if inner == "end" => bail!("an {{end}} has no {{range}}"),
            _ => found.push(part(inner)?),
        }
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

/// Quoted text or a path.
fn part(inner: &str) -> anyhow::Result<Part> {
    if let Some(quoted) = inner.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\'')) {
        return Ok(Part::Text(quoted.to_owned()));
    }
    if inner.starts_with('"') {
        let text = serde_json::from_str(inner).with_context(|| format!("read the text {inner}"))?;
        return Ok(Part::Text(text));
    }
    Ok(Part::Path(inner.parse()?))
}

/// Where the brace closes, quoted braces left alone.
fn closing(text: &str) -> Option<usize> {
    let (mut quote, mut escaped) = (None, false);
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            _ if escaped => escaped = false,
            ('\\', Some(_)) => escaped = true,
            ('\'' | '"', None) => quote = Some(letter),
            (letter, Some(open)) if letter == open => quote = None,
            ('}', None) => return Some(at),
            (_, _) => {}
        }
    }
    None
}

impl Template {
    /// The text that a value makes of the template. What is absent is empty.
    pub fn render(&self, value: &Value) -> String {
        let mut out = String::new();
        render(&self.parts, value, &mut out);
        out
    }
}

fn render(parts: &[Part], value: &Value, out: &mut String) {
    for part in parts {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Path(path) => {
                let found: Vec<String> = path.find(value).into_iter().map(plain).collect();
                out.push_str(&found.join(" "));
            }
            Part::Range(path, inner) => {
                for item in path.find(value) {
                    render(inner, item, out);
                }
            }
        }
    }
}

/// A string as it is, everything else as JSON.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
