//! Numbers: Terraform's have any size and precision, ours have 64 bits.
use serde_json::Number as Json;

/// A number in its simplest form: one without a fraction is an integer, whatever it came as.
#[derive(Clone, Debug, PartialEq)]
pub enum Number {
    Integer(i128),
    Float(f64),
    /// One that neither of the others can hold, as decimal text.
    Text(String),
}

/// The longest text of a number; the largest integers of ours have 20 digits.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Integers up to here are the same as integers and as floats.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Number {
    pub fn float(number: f64) -> Self {
        if number.fract() == 0.0 && number.abs() <= EXACT {
            return Self::Integer(number as i128);
        }
        Self::Float(number)
    }

    /// Reads decimal text; `None` where it is none.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(integer) = text.parse::<i128>() {
            return Some(Self::Integer(integer));
        }
        let plain =
            |byte: u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
        if TEXT_BYTES_MAX < text.len() || !text.bytes().all(plain) {
            return None;
        }
        let float = text.parse::<f64>().ok()?;
        let short = text.bytes().filter(u8::is_ascii_digit).count() <= 15;
        Some(if short && float.is_finite() {
            Self::float(float)
        } else {
            Self::Text(text.to_owned())
        })
    }

    pub fn from_json(number: &Json) -> Self {
        match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(integer), _, _) => Self::Integer(integer.into()),
            (None, Some(integer), _) => Self::Integer(integer.into()),
            (None, None, Some(float)) => Self::float(float),
            (None, None, None) => Self::Text(number.to_string()),
        }
    }

    /// As JSON; `None` where JSON of ours cannot hold it.
    pub fn to_json(&self) -> Option<Json> {
        match self {
            Self::Integer(integer) => match (i64::try_from(*integer), u64::try_from(*integer)) {
                (Ok(small), _) => Some(small.into()),
                (Err(_), Ok(large)) => Some(large.into()),
                (Err(_), Err(_)) => None,
            },
            Self::Float(float) => Json::from_f64(*float),
            Self::Text(text) => Json::from_f64(text.parse().ok()?),
        }
    }
}

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(f),
            Self::Float(float) => float.fmt(f),
            Self::Text(text) => f.write_str(text),
        }
    }
}
