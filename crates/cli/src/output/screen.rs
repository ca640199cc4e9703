//! Lines that change in place on a terminal.
//!
//! ```text
//!   lines before ──┐
//!                  ├─> changes(): move, rewrite what differs, return ──> one write, or none
//!   lines now ─────┘
//! ```
//! Nothing flickers, because nothing is cleared that is not at once written over, and everything
//! goes out in one write. When no line differs, nothing is written.
use std::fmt::Write as _;
use std::io::{self, Write};

/// Width and height that are assumed where the terminal does not tell.
const SIZE_DEFAULT: Size = Size { columns: 80, rows: 24 };

/// How much fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

/// The size of the terminal at standard output.
pub fn size() -> Size {
    let Ok(found) = rustix::termios::tcgetwinsize(io::stdout()) else { return SIZE_DEFAULT };
    match (found.ws_col, found.ws_row) {
        (0, _) | (_, 0) => SIZE_DEFAULT,
        (columns, rows) => Size { columns: columns.into(), rows: rows.into() },
    }
}

/// The part of a terminal that belongs to us: from where we began to the cursor below the last line.
#[derive(Default)]
pub struct Screen {
    lines: Vec<String>,
    size: Option<Size>,
}

impl Screen {
    /// Shows these lines in place of the ones before.
    pub fn show(&mut self, lines: Vec<String>) -> io::Result<()> {
        let size = size();
        let fitted = fit(lines, size);
        // A window of another size has moved what we wrote; it is written anew.
        let resized = self.size.is_some_and(|before| before != size);
        let text = match resized {
            true => start_over(&self.lines, &fitted),
            false => changes(&self.lines, &fitted),
        };
        if !text.is_empty() {
            let mut stdout = io::stdout().lock();
            stdout.write_all(text.as_bytes())?;
            stdout.flush()?;
        }
        self.lines = fitted;
        self.size = Some(size);
        Ok(())
    }
}

/// Cuts what does not fit, and says so.
fn fit(mut lines: Vec<String>, size: Size) -> Vec<String> {
    // The cursor stands below the last line.
    let room = size.rows.saturating_sub(1).max(2);
    if room < lines.len() {
        let hidden = lines.len() - (room - 1);
        lines.truncate(room - 1);
        lines.push(format!("... {hidden} more; make the window taller to see them"));
    }
    lines.into_iter().map(|line| cut(&line, size.columns)).collect()
}

/// At most so many visible letters; colours do not count, and end with the line.
fn cut(line: &str, columns: usize) -> String {
    let (mut out, mut visible, mut in_escape, mut coloured) = (String::new(), 0, false, false);
    for letter in line.chars() {
        if in_escape {
            in_escape = letter != 'm';
        } else if letter == '\u{1b}' {
            (in_escape, coloured) = (true, true);
        } else if visible == columns {
            if coloured {
                out.push_str("\u{1b}[0m");
            }
            return out;
        } else {
            visible += 1;
        }
        out.push(letter);
    }
    out
}

/// What to write so that `before` becomes `now`. The cursor stands below the last line before and
/// after.
fn changes(before: &[String], now: &[String]) -> String {
    let mut out = String::new();
    // The line that the cursor is on, counted from our first.
    let mut at = before.len();
    for (line, text) in now.iter().enumerate() {
        if before.get(line) == Some(text) {
            continue;
        }
        go(&mut out, &mut at, line);
        // The rest of the old line goes after the new one is there, never before.
        let _ = write!(out, "{text}\u{1b}[K\r\n");
        at += 1;
    }
    if now.len() < before.len() {
        go(&mut out, &mut at, now.len());
        out.push_str("\u{1b}[J");
    }
    if at != now.len() {
        go(&mut out, &mut at, now.len());
    }
    out
}

fn go(out: &mut String, at: &mut usize, line: usize) {
    // Writing to a string cannot fail.
    let _ = match line.cmp(at) {
        std::cmp::Ordering::Less => write!(out, "\u{1b}[{}A", *at - line),
        std::cmp::Ordering::Greater => write!(out, "\u{1b}[{}B", line - *at),
        std::cmp::Ordering::Equal => Ok(()),
    };
    *at = line;
}

fn start_over(before: &[String], now: &[String]) -> String {
    let mut out = String::new();
    let mut at = before.len();
    go(&mut out, &mut at, 0);
    out.push_str("\r\u{1b}[J");
    out.push_str(&changes(&[], now));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    /// A terminal that knows the few commands that we send.
    fn play(before: &[String], text: &str) -> Vec<String> {
        let mut screen: Vec<String> = before.to_vec();
        let mut row = before.len();
        let mut rest = text;
        while !rest.is_empty() {
            if let Some(tail) = rest.strip_prefix("\u{1b}[") {
                let end = tail.find(char::is_alphabetic).unwrap();
                let count = tail[..end].parse().unwrap_or(1_usize);
                match &tail[end..=end] {
                    "A" => row -= count,
                    "B" => row += count,
                    "J" => screen.truncate(row),
                    "K" => {}
                    other => panic!("unknown command {other}"),
                }
                rest = &tail[end + 1..];
            } else if let Some(tail) = rest.strip_prefix("\r\n") {
                row += 1;
                rest = tail;
            } else if let Some(tail) = rest.strip_prefix('\r') {
                rest = tail;
            } else {
                let end = rest.find(['\u{1b}', '\r']).unwrap();
                screen.resize(screen.len().max(row + 1), String::new());
                screen[row] = rest[..end].to_owned();
                rest = &rest[end..];
            }
        }
        assert_eq!(row, screen.len(), "the cursor stands below the last line");
        screen
    }

    #[track_caller]
    fn check(before: &str, now: &str, rewritten: usize) {
        let (before, now) = (lines(before), lines(now));
        let text = changes(&before, &now);
        assert_eq!(play(&before, &text), now);
        assert_eq!(text.matches("\r\n").count(), rewritten, "{text:?}");
        assert_eq!(play(&before, &start_over(&before, &now)), now);
    }

    #[test]
    fn only_lines_that_differ_are_written() {
        check("", "a b c", 3);
        check("a b c", "a b c", 0);
        check("a b c", "a x c", 1);
        check("a b c", "x b y", 2);
        check("a b c", "a b c d", 1);
        check("a b c", "a c", 1);
        check("a b c", "", 0);
        assert_eq!(
            changes(&lines("a b"), &lines("a b")),
            "",
            "nothing changes, nothing is written"
        );
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        let size = Size { columns: 3, rows: 4 };
        assert_eq!(fit(lines("abcd b"), size), ["abc", "b"]);
        assert_eq!(
            fit(lines("1 2 3 4 5"), Size { columns: 80, ..size })[2],
            "... 3 more; make the window taller to see them"
        );
        assert_eq!(cut("\u{1b}[32mabcd\u{1b}[0m", 2), "\u{1b}[32mab\u{1b}[0m");
        assert_eq!(cut("\u{1b}[32mab\u{1b}[0m", 2), "\u{1b}[32mab\u{1b}[0m");
    }
}
