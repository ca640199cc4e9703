//! Values of options that are more than a word.
use crate::output::jsonpath::{Path, Template};
use anyhow::bail;
use jiff::Timestamp;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// Where to listen. `localhost` is this machine alone, whatever it resolves to.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local.as_deref().unwrap_or(text).parse().map_err(|_| {
        "write an address and a port: 127.0.0.1:7443 or [::1]:7443 for this machine alone, 0.0.0.0:7443 for \
         all networks"
            .to_owned()
    })
}

/// How to print resources.
#[derive(Clone, Debug, Default)]
pub enum Format {
    #[default]
    Table,
    Wide,
    Yaml,
    Json,
    Name,
    JsonPath(Template),
}

impl FromStr for Format {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text.split_once('=') {
            None => match text {
                "table" => Ok(Self::Table),
                "wide" => Ok(Self::Wide),
                "yaml" => Ok(Self::Yaml),
                "json" => Ok(Self::Json),
                "name" => Ok(Self::Name),
                _ => bail!("write table, wide, yaml, json, name or jsonpath=TEMPLATE"),
            },
            Some(("jsonpath", template)) => Ok(Self::JsonPath(template.parse()?)),
            Some((other, _)) => bail!("{other:?} takes no template; only jsonpath does"),
        }
    }
}

/// What to wait for.
#[derive(Clone, Debug)]
pub enum Aim {
    /// The condition of this type has this status.
    Condition {
        r#type: String,
        status: String,
    },
    Delete,
    Create,
    /// The value at a path is this text; any value when there is none.
    JsonPath {
        path: Path,
        value: Option<String>,
    },
}

impl FromStr for Aim {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        match text.split_once('=') {
            None if text == "delete" => Ok(Self::Delete),
            None if text == "create" => Ok(Self::Create),
            Some(("condition", rest)) if !rest.is_empty() => {
                let (r#type, status) = rest.split_once('=').unwrap_or((rest, "True"));
                Ok(Self::Condition { r#type: r#type.to_owned(), status: status.to_owned() })
            }
            Some(("jsonpath", rest)) => aim_at_path(rest),
            _ => bail!(
                "write condition=TYPE, condition=TYPE=STATUS, delete, create, or jsonpath=PATH=VALUE"
            ),
        }
    }
}

/// The value stands behind the braces; a path without braces ends at its last `=`.
fn aim_at_path(text: &str) -> anyhow::Result<Aim> {
    let (path, value) = match (text.rfind('}'), text.rsplit_once('=')) {
        (Some(end), _) => (&text[..=end], text[end + 1..].strip_prefix('=')),
        (None, Some((path, value))) => (path, Some(value)),
        (None, None) => (text, None),
    };
    Ok(Aim::JsonPath { path: path.parse()?, value: value.map(str::to_owned) })
}

impl std::fmt::Display for Aim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Condition { r#type, status } if status == "True" => write!(f, "{type}"),
            Self::Condition { r#type, status } => write!(f, "{type} to be {status}"),
            Self::Delete => f.write_str("deletion"),
            Self::Create => f.write_str("creation"),
            Self::JsonPath { path, value: Some(value) } => write!(f, "{path} to be {value}"),
            Self::JsonPath { path, value: None } => write!(f, "{path}"),
        }
    }
}

/// A span of time as people write it: `90s`, `5m`, `1h30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    if let Some(days) = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok()) {
        return Ok(Duration::from_secs(u64::from(days) * 86_400));
    }
    let plain =
        if text.bytes().all(|b| b.is_ascii_digit()) { format!("{text}s") } else { text.into() };
    let parsed: jiff::SignedDuration =
        plain.parse().map_err(|_| "write it as 90s, 5m, 1h30m or 7d".to_owned())?;
    Duration::try_from(parsed).map_err(|_| "it must not be negative".to_owned())
}

/// The same, of something that would be over at once without any.
pub fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it must be longer than nothing".to_owned()),
        some => Ok(some),
    }
}

/// A moment as RFC 3339 writes it.
pub fn moment(text: &str) -> Result<Timestamp, String> {
    text.parse()
        .map_err(|_| "write it as 2026-11-19T12:00:00Z or with its offset: +01:00".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_aim(text: &str, expect: &str) {
        let said = text.parse::<Aim>().map_or_else(|_| "error".to_owned(), |aim| aim.to_string());
        assert_eq!(said, expect, "{text}");
    }

    #[test]
    fn where_to_listen() {
        assert_eq!(listen("localhost:7443").unwrap(), "127.0.0.1:7443".parse().unwrap());
        assert_eq!(listen("[::1]:0").unwrap(), "[::1]:0".parse().unwrap());
        for bad in [":7443", "7443", "localhost", "example.com:7443", ""] {
            assert!(listen(bad).unwrap_err().contains("0.0.0.0:7443"), "{bad}");
        }
    }

    #[test]
    fn what_can_be_waited_for() {
        check_aim("condition=Ready", "Ready");
        check_aim("condition=Ready=False", "Ready to be False");
        check_aim("delete", "deletion");
        check_aim("create", "creation");
        check_aim("jsonpath={.status.state}=Running", "{.status.state} to be Running");
        check_aim("jsonpath={.status.state}", "{.status.state}");
        check_aim("jsonpath=.status.state=Running", "{.status.state} to be Running");
        check_aim("condition", "error");
        check_aim("condition=", "error");
        check_aim("jsonpath={.a", "error");
        check_aim("ready", "error");
    }

    #[test]
    fn moments() {
        assert_eq!(
            moment("1970-01-01T01:00:00.5+01:00"),
            Ok(Timestamp::new(0, 500_000_000).unwrap())
        );
        for wrong in
            ["", "now", "12:00", "2026-11-19", "2026-11-19T12:00:00", "2026-13-01T00:00:00Z"]
        {
            assert!(moment(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn spans_of_time() {
        let cases = [
            ("90s", Some(90)),
            ("5m", Some(300)),
            ("1h30m", Some(5400)),
            ("7", Some(7)),
            ("0", Some(0)),
            ("-1s", None),
            ("soon", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(duration(text).ok().map(|d| d.as_secs()), seconds, "{text}");
            let some = seconds.filter(|seconds| 0 < *seconds);
            assert_eq!(some_time(text).ok().map(|d| d.as_secs()), some, "{text}");
        }
    }
}
