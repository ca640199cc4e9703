//! Sizes as people write them.

/// The endings, from small to large; each is 1024 times the one before.
const ENDINGS: [&str; 4] = ["Ki", "Mi", "Gi", "Ti"];

/// Reads `512`, `64Mi`, `10Gi`; nothing if it is none of these or does not fit.
pub fn parse(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ending = text.get(digits.len()..)?;
    let power = match ending {
        "" => 0,
        _ => ENDINGS.iter().position(|known| *known == ending)? + 1,
    };
    let number: i64 = digits.parse().ok()?;
    let unit = 1024_i64.checked_pow(u32::try_from(power).ok()?)?;
    number.checked_mul(unit)
}

/// Writes bytes with one digit after the point, in the largest unit that leaves something before it.
pub fn show(bytes: i64) -> String {
    let (mut tenths, mut ending) = (i128::from(bytes) * 10, "");
    for next in ENDINGS {
        if tenths < 10_240 {
            break;
        }
        (tenths, ending) = (tenths / 1024, next);
    }
    match tenths % 10 {
        0 => format!("{}{ending}", tenths / 10),
        rest => format!("{}.{rest}{ending}", tenths / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, show};

    #[test]
    fn sizes_are_read() {
        for (text, expect) in [
            ("512", Some(512)),
            ("1Ki", Some(1024)),
            ("64Mi", Some(64 << 20)),
            ("10Gi", Some(10 << 30)),
            ("2Ti", Some(2 << 40)),
            ("0", Some(0)),
            ("", None),
            ("Gi", None),
            ("1G", None),
            ("1.5Gi", None),
            ("-1", None),
            ("+1", None),
            ("9999999999999999Ti", None),
        ] {
            assert_eq!(parse(text), expect, "{text:?}");
        }
    }

    #[test]
    fn sizes_are_shown() {
        for (bytes, expect) in [
            (0, "0"),
            (1023, "1023"),
            (1024, "1Ki"),
            (1536, "1.5Ki"),
            (64 << 20, "64Mi"),
            ((931 << 30) + (1 << 29), "931.5Gi"),
            (3 << 50, "3072Ti"),
        ] {
            assert_eq!(show(bytes), expect);
        }
    }
}
