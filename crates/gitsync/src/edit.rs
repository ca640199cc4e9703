//! Changes in files of several documents: only the document that is meant is touched.
use orrery_api::Position;

/// A document within a file, from its first line to the one after its last; from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// The line of the marker before it, if there is one.
    marker: Option<usize>,
    begin: usize,
    end: usize,
}

/// Puts other text in the place of the document around a line. Comments before it stay.
pub fn replace(text: &str, at: Position, next: &str) -> String {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some(span) = span_at(&lines, at) else { return append(text, next) };
    let kept = span.begin + lines[span.begin..span.end].iter().take_while(|l| is_note(l)).count();
    let mut out: String = lines[..kept].concat();
    end_line(&mut out);
    out.push_str(next);
    if span.end < lines.len() {
        end_line(&mut out);
    }
    out.push_str(&lines[span.end..].concat());
    out
}

/// Takes the document around a line away; `None` if nothing is left.
pub fn remove(text: &str, at: Position) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let span = span_at(&lines, at)?;
    let begin = span.marker.unwrap_or(span.begin);
    let (before, mut after) = (&lines[..begin], &lines[span.end..]);
    let says = |lines: &[&str]| lines.iter().any(|line| !is_note(line) && !is_marker(line));
    if !says(before) && !says(after) {
        return None;
    }
    // The first document needs no marker before it.
    if !says(before) && after.first().is_some_and(|line| line.trim_end() == "---") {
        after = &after[1..];
    }
    Some(before.concat() + &after.concat())
}

/// Adds a document at the end.
pub fn append(text: &str, next: &str) -> String {
    if text.trim().is_empty() {
        return next.to_owned();
    }
    let mut out = text.to_owned();
    end_line(&mut out);
    out.push_str("---\n");
    out.push_str(next);
    out
}

fn span_at(lines: &[&str], at: Position) -> Option<Span> {
    spans(lines).into_iter().find(|span| (span.begin..span.end).contains(&(at.line.max(1) - 1)))
}

/// Lines that begin with a marker part documents wherever they stand.
fn spans(lines: &[&str]) -> Vec<Span> {
    let mut spans = Vec::new();
    let (mut marker, mut begin) = (None, 0);
    for (number, line) in lines.iter().enumerate() {
        if is_marker(line) {
            spans.push(Span { marker, begin, end: number });
            // What stands on the line of the marker belongs to the document.
            let content = !line.trim_end().trim_start_matches("---").trim().is_empty();
            (marker, begin) = (Some(number), if content { number } else { number + 1 });
        }
    }
    spans.push(Span { marker, begin, end: lines.len() });
    spans
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Nothing but a comment.
fn is_note(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

fn end_line(text: &mut String) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(line: usize) -> Position {
        Position { line, column: 1 }
    }

    const TWO: &str = "# first\na: 1 # one\n---\n# second\n\nb: 2\nc: 3\n";

    #[test]
    fn other_documents_stay_as_they_are() {
        assert_eq!(replace(TWO, at(2), "x: 9\n"), "# first\nx: 9\n---\n# second\n\nb: 2\nc: 3\n");
        assert_eq!(replace(TWO, at(6), "x: 9\n"), "# first\na: 1 # one\n---\n# second\n\nx: 9\n");
        assert_eq!(replace("a: 1", at(1), "x: 9\n"), "x: 9\n");
    }

    #[test]
    fn a_document_goes_with_its_marker_and_the_last_takes_the_file_along() {
        assert_eq!(remove(TWO, at(6)).as_deref(), Some("# first\na: 1 # one\n"));
        assert_eq!(remove(TWO, at(2)).as_deref(), Some("# second\n\nb: 2\nc: 3\n"));
        assert_eq!(remove("# only\na: 1\n", at(2)), None);
        assert_eq!(remove("---\na: 1\n---\n", at(2)), None);
        let three = "a: 1\n---\nb: 2\n---\nc: 3\n";
        assert_eq!(remove(three, at(3)).as_deref(), Some("a: 1\n---\nc: 3\n"));
    }

    #[test]
    fn a_document_is_added_after_a_marker() {
        assert_eq!(append("a: 1", "b: 2\n"), "a: 1\n---\nb: 2\n");
        assert_eq!(append("", "b: 2\n"), "b: 2\n");
    }
}
