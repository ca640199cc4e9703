//! The text that scrapers read which do not know OpenMetrics.
//!
//! The figures are the same. Names of families are not: there a counter and its one sample are called alike, here the
//! family goes without the ending; and there is no type for what only informs.

/// The type of [`text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What is said in OpenMetrics, in the older words.
pub fn text(open: &str) -> String {
    let mut text = String::with_capacity(open.len());
    let mut help = None;
    for line in open.lines() {
        if let Some(said) = line.strip_prefix("# HELP ") {
            help = said.split_once(' ');
        } else if let Some((name, kind)) =
            line.strip_prefix("# TYPE ").and_then(|one| one.split_once(' '))
        {
            let (ending, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                other => ("", other),
            };
            if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
                text.extend(["# HELP ", name, ending, " ", help, "\n"]);
            }
            text.extend(["# TYPE ", name, ending, " ", kind, "\n"]);
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            text.extend([line, "\n"]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn families_are_called_as_their_samples() {
        let open = "# HELP a_b Some.\n# TYPE a_b counter\n# UNIT a_b seconds\na_b_total{x=\"1\"} 2\n\
            # HELP c The version.\n# TYPE c info\nc_info{v=\"1\"} 1\n\
            # HELP d How long.\n# TYPE d histogram\nd_sum 1\nd_count 1\nd_bucket{le=\"+Inf\"} 1\n\
            # HELP e Now.\n# TYPE e gauge\ne 3\n# TYPE f unknown\nf 4\n# EOF\n";
        let classic = "# HELP a_b_total Some.\n# TYPE a_b_total counter\na_b_total{x=\"1\"} 2\n\
            # HELP c_info The version.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n\
            # HELP d How long.\n# TYPE d histogram\nd_sum 1\nd_count 1\nd_bucket{le=\"+Inf\"} 1\n\
            # HELP e Now.\n# TYPE e gauge\ne 3\n# TYPE f untyped\nf 4\n";
        assert_eq!(text(open), classic);
    }
}
