//! Quantities, as the first version of a split writes weights: `1`, `"500m"`, `"2k"`, `1.5`.
//!
//! In thousandths, because `m` is the smallest part that a weight is ever written in; only what
//! weights are to each other counts, so the unit does not matter.

/// The largest that every later version can say.
pub const MILLI_MAX: u64 = u32::MAX as u64;

const SUFFIXES: [(&str, u64); 4] = [("m", 1), ("k", 1_000_000), ("M", 1_000_000_000), ("", 1_000)];

/// `None` where the text is no quantity, finer than a thousandth, or larger than can be said.
pub fn parse(text: &str) -> Option<u64> {
    let (digits, unit) = SUFFIXES
        .iter()
        .find_map(|(suffix, unit)| text.strip_suffix(suffix).map(|digits| (digits, *unit)))?;
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_empty = whole.is_empty() && fraction.is_empty();
    if is_empty || !is_number(whole) || !is_number(fraction) || 9 < fraction.len() {
        return None;
    }
    let number = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u64>().ok() };
    let scale = 10_u64.pow(u32::try_from(fraction.len()).ok()?);
    let part = number(fraction)?.checked_mul(unit)?;
    if !part.is_multiple_of(scale) {
        return None;
    }
    let total = number(whole)?.checked_mul(unit)?.checked_add(part / scale)?;
    (total <= MILLI_MAX).then_some(total)
}

/// In its shortest plain form.
pub fn format(milli: u64) -> String {
    match milli % 1000 {
        0 => (milli / 1000).to_string(),
        _ => format!("{milli}m"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, expect: Option<u64>) {
        assert_eq!(parse(text), expect, "{text}");
    }

    #[test]
    fn quantities() {
        check("1", Some(1000));
        check("0", Some(0));
        check("500m", Some(500));
        check("1000m", Some(1000));
        check("1.5", Some(1500));
        check("0.001", Some(1));
        check("0.0001", None);
        check("2k", Some(2_000_000));
        check("5M", None);
        check("", None);
        check("m", None);
        check(".", None);
        check("-1", None);
        check("1e3", None);
        check("50%", None);
        check("99999999999999999999", None);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read(milli in 0..=MILLI_MAX) {
            prop_assert_eq!(parse(&format(milli)), Some(milli));
        }

        #[test]
        fn no_text_is_too_much(text in "[0-9.mkM]{0,24}") {
            let _ = parse(&text);
        }
    }
}
