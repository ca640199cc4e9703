//! Writes YAML that every reader understands in the same way.
use serde_json::Value;

/// A JSON value as YAML text in block style. Strings that some reader would take for a number or
/// a boolean (`no`, `012`, `1e3`) are quoted; texts of several lines are written as blocks.
pub fn value_to_yaml(value: &Value) -> String {
    // Long lines stay whole: folded text is hard to read and to change.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    serde_saphyr::to_string_with_options(value, options)
        .expect("a JSON value has only text keys, and a string takes all that is written")
}
