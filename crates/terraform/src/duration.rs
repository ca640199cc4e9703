//! Durations as people write them in Terraform: `30s`, `20m`, `1h30m`.
use std::time::Duration;

/// The longest that anybody waits.
pub const DURATION_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Reads a duration; `None` for what is none, and for what is longer than a week.
pub fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut total = Duration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let count: u32 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(unit.checked_mul(count)?)?;
    }
    (total <= DURATION_MAX).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<u64>) {
        assert_eq!(parse(text).map(|it| it.as_secs()), expect, "{text:?}");
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        check("30s", Some(30));
        check("1h30m", Some(5400));
        check("1500ms", Some(1));
        check("168h", Some(7 * 86_400));
        for wrong in ["", "5", "m", "5 m", "-5m", "5d", "169h", "99999999999h", "1.5h"] {
            check(wrong, None);
        }
    }
}
