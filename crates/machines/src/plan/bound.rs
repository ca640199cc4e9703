//! A number of machines, said as a count or as a percentage.
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    Count(u32),
    Percent(u32),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a number nor a percentage such as \"25%\"")]
pub struct BadBound(String);

impl Bound {
    pub fn rounded_up(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => part(total, percent, 99),
        }
    }

    pub fn rounded_down(self, total: u32) -> u32 {
        match self {
            Self::Count(count) => count,
            Self::Percent(percent) => part(total, percent, 0),
        }
    }
}

fn part(total: u32, percent: u32, rest: u64) -> u32 {
    let part = (u64::from(total) * u64::from(percent) + rest) / 100;
    u32::try_from(part).unwrap_or(u32::MAX)
}

impl FromStr for Bound {
    type Err = BadBound;

    fn from_str(text: &str) -> Result<Self, BadBound> {
        let bad = |_| BadBound(text.to_owned());
        match text.strip_suffix('%') {
            Some(percent) => percent.parse().map(Self::Percent).map_err(bad),
            None => text.parse().map(Self::Count).map_err(bad),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_as_asked() {
        for (text, total, up, down) in [
            ("25%", 10, 3, 2),
            ("0%", 10, 0, 0),
            ("100%", 7, 7, 7),
            ("3", 1, 3, 3),
            ("1%", 10, 1, 0),
        ] {
            let bound: Bound = text.parse().expect(text);
            assert_eq!((bound.rounded_up(total), bound.rounded_down(total)), (up, down), "{text}");
        }
        for bad in ["", "%", "-1", "a%", "1.5"] {
            assert!(bad.parse::<Bound>().is_err(), "{bad}");
        }
    }
}
