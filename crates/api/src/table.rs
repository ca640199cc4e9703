//! Tables: what a line about an object says.
use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::{
    json,
    kind::{Column, ColumnType},
    lookup,
    object::Object,
    record::Value,
};

/// One cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// The value is absent.
    Empty,
    Text(String),
    Integer(i64),
    Boolean(bool),
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => Ok(()),
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Boolean(value) => write!(f, "{value}"),
        }
    }
}

impl From<Cell> for serde_json::Value {
    fn from(cell: Cell) -> Self {
        match cell {
            Cell::Empty => Self::String(String::new()),
            Cell::Text(text) => Self::String(text),
            Cell::Integer(number) => Self::from(number),
            Cell::Boolean(value) => Self::Bool(value),
        }
    }
}

/// The cells of an object, one for each column of its kind; name and age are not among them.
pub fn table_cells(object: &Object, now: Timestamp) -> Vec<Cell> {
    object.kind().columns().iter().map(|column| cell(object, column, now)).collect()
}

fn cell(object: &Object, column: &Column, now: Timestamp) -> Cell {
    match lookup::follow(object.record(), &column.steps) {
        Some(value) => match column.r#type {
            ColumnType::Date => date(value, now),
            ColumnType::String | ColumnType::Integer | ColumnType::Boolean => scalar(value),
        },
        None => absent(object, column),
    }
}

/// A number whose definition writes out its zero shows 0 once its message is there.
fn absent(object: &Object, column: &Column) -> Cell {
    let Some((last, way)) = column.steps.split_last() else { return Cell::Empty };
    let parent_is_there = way.is_empty() || lookup::follow(object.record(), way).is_some();
    match column.r#type {
        ColumnType::Integer if last.zero_when_absent && parent_is_there => Cell::Integer(0),
        ColumnType::Boolean if last.zero_when_absent && parent_is_there => Cell::Boolean(false),
        ColumnType::Integer | ColumnType::Boolean | ColumnType::String | ColumnType::Date => {
            Cell::Empty
        }
    }
}

fn date(value: &Value, now: Timestamp) -> Cell {
    let time = json::timestamp_of(value);
    time.map_or(Cell::Empty, |time| Cell::Text(since(time, now)))
}

fn scalar(value: &Value) -> Cell {
    match value {
        Value::Bool(value) => Cell::Boolean(*value),
        Value::I32(value) => Cell::Integer((*value).into()),
        Value::I64(value) => Cell::Integer(*value),
        Value::U32(value) => Cell::Integer((*value).into()),
        Value::U64(value) => {
            i64::try_from(*value).map_or_else(|_| Cell::Text(value.to_string()), Cell::Integer)
        }
        Value::F32(_) | Value::F64(_) | Value::String(_) | Value::Bytes(_) | Value::List(_) => {
            Cell::Text(text(value))
        }
        // Columns do not lead to these.
        Value::Record(_) | Value::Map(_) | Value::Time { .. } | Value::Open(_) => Cell::Empty,
    }
}

fn text(value: &Value) -> String {
    if let Some(text) = value.as_str() {
        return text.to_owned();
    }
    match value.as_list() {
        Some(items) => items.iter().map(text).collect::<Vec<_>>().join(","),
        None => json::scalar_text(value),
    }
}

/// How long ago the object was created, or `<unknown>`.
pub fn age(object: &Object, now: Timestamp) -> String {
    object.creation_timestamp().map_or_else(|| "<unknown>".to_owned(), |time| since(time, now))
}

fn since(time: Timestamp, now: Timestamp) -> String {
    human_duration(now.duration_since(time))
}

/// A span of time as `kubectl` prints it: two units while they matter, then one.
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    // A little clock skew is not worth a remark.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two((minutes, "m"), (seconds % 60, "s"))
    } else if minutes < 180 {
        format!("{minutes}m")
    } else if hours < 8 {
        two((hours, "h"), (minutes % 60, "m"))
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two((days, "d"), (hours % 24, "h"))
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        two((years, "y"), (days % 365, "d"))
    } else {
        format!("{years}y")
    }
}

fn two(large: (i64, &str), small: (i64, &str)) -> String {
    if small.0 == 0 {
        return format!("{}{}", large.0, large.1);
    }
    format!("{}{}{}{}", large.0, large.1, small.0, small.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_kubectl() {
        let (minute, hour, day) = (60, 3600, 86_400);
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (5, "5s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (3 * minute + 20, "3m20s"),
            (10 * minute + 5, "10m"),
            (2 * hour, "120m"),
            (3 * hour, "3h"),
            (3 * hour + 5 * minute, "3h5m"),
            (8 * hour + minute, "8h"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (4 * day + 3 * hour, "4d3h"),
            (8 * day + hour, "8d"),
            (700 * day, "700d"),
            (800 * day, "2y70d"),
            (10 * 365 * day, "10y"),
        ];
        for (seconds, expect) in cases {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expect, "{seconds}");
        }
    }
}
