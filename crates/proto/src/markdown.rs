//! Takes a contract out of the document that specifies it: the text of its `protobuf` blocks, in
//! order. The build script uses this file as well, so it needs nothing but the standard library.

/// Opens a block that belongs to the contract; other blocks (pictures, examples) do not.
const OPENING: &str = "```protobuf";
const CLOSING: &str = "```";

/// The contract in `document`, or the reason why there is none. Lines of prose become empty lines,
/// so a line number in a compiler's message is the line number in the document.
pub fn contract(document: &str) -> Result<String, String> {
    let mut text = String::with_capacity(document.len());
    let mut opened_at = None;
    let mut blocks = 0;
    for (index, line) in document.lines().enumerate() {
        match (opened_at, line.trim_end()) {
            (None, OPENING) => {
                opened_at = Some(index + 1);
                blocks += 1;
            }
            (Some(_), CLOSING) => opened_at = None,
            (Some(_), _) => text.push_str(line),
            (None, _) => {}
        }
        text.push('\n');
    }
    match (opened_at, blocks) {
        (Some(line), _) => Err(format!("the protobuf block that opens in line {line} never ends")),
        (None, 0) => Err("there is no protobuf block".to_owned()),
        (None, _) => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::contract;

    #[track_caller]
    fn check(document: &str, expect: Result<&str, &str>) {
        let found = contract(document);
        assert_eq!(found.as_deref().map_err(String::as_str), expect);
    }

    /// proves: VOL-01
    #[test]
    fn blocks_are_taken_in_order_and_prose_is_not() {
        check("a\n```protobuf\nb\n```\nc\n```protobuf\nd\n```\n", Ok("\n\nb\n\n\n\nd\n\n"));
        check("```\nx\n```\n```protobuf \ny\n```", Ok("\n\n\n\ny\n\n"));
        check("```proto\nx\n```\n", Err("there is no protobuf block"));
        check("\n```protobuf\nx\n", Err("the protobuf block that opens in line 2 never ends"));
    }
}
