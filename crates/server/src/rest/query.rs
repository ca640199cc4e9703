//! The query of a request, with every parameter of the dialect read once.
use super::failure::{Cause, Failure};
use axum::http::Method;
use orrery_hub::Revision;
use std::time::Duration;

/// Longest name of a manager, as in the reference.
pub const MANAGER_MAX: usize = 128;
/// How the dialect calls the options of a deletion.
pub const DELETE_OPTIONS: &str = "DeleteOptions";

/// What a query asks for. Parameters that the dialect does not have are ignored, as they are there:
/// clients add `timeout` and `pretty` as they like.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    pub labels: String,
    pub fields: String,
    pub limit: usize,
    pub continue_from: Option<String>,
    pub version: Version,
    pub version_match: Option<VersionMatch>,
    pub watch: bool,
    pub bookmarks: bool,
    pub initial_events: Option<bool>,
    pub timeout: Option<Duration>,
    /// What cannot be read of how long the client waits for its answer.
    pub odd_timeout: Option<String>,
    pub dry_run: bool,
    pub manager: Option<String>,
    pub force: Option<bool>,
    pub validation: Validation,
    pub include: Include,
    /// Whether where objects came from is part of them.
    pub lineage: bool,
    pub propagation: Option<String>,
    /// What `propagation` was before it had a name.
    pub orphan: Option<bool>,
}

/// Which state of the store is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The latest.
    #[default]
    Unset,
    /// `0`: any will do.
    Any,
    At(Revision),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    NotOlderThan,
    Exact,
}

/// What happens to fields that a kind does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Validation {
    Strict,
    /// They are dropped, and headers say so.
    #[default]
    Warn,
    Ignore,
}

/// What the rows of a table carry beside their cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Include {
    None,
    #[default]
    Metadata,
    Object,
}

impl Query {
    /// Reads the raw query of a method, which may be odd: empty, or beginning with `&`.
    pub fn parse(method: &Method, raw: &str) -> Result<Self, Failure> {
        let mut query = Self::default();
        let options = options_of(method);
        for (key, value) in form_urlencoded::parse(raw.as_bytes()) {
            query.take(options, &key, &value)?;
        }
        query.check()?;
        Ok(query)
    }

    fn take(&mut self, options: &str, key: &str, value: &str) -> Result<(), Failure> {
        match key {
            "labelSelector" => value.clone_into(&mut self.labels),
            "fieldSelector" => value.clone_into(&mut self.fields),
            "limit" => self.limit = number(key, value)?,
            "continue" => self.continue_from = text(value),
            "resourceVersion" => self.version = version(value)?,
            "resourceVersionMatch" => self.version_match = version_match(value)?,
            "watch" => self.watch = flag(key, value)?,
            "allowWatchBookmarks" => self.bookmarks = flag(key, value)?,
            "sendInitialEvents" => self.initial_events = Some(flag(key, value)?),
            "timeoutSeconds" => {
                let seconds: u64 = number(key, value)?;
                self.timeout = (0 < seconds).then_some(Duration::from_secs(seconds));
            }
            // Requests are short here, so it changes nothing; but who asks for something unreadable is told.
            "timeout" => self.odd_timeout = (!is_duration(value)).then(|| value.to_owned()),
            "dryRun" => self.dry_run |= dry_run(options, value)?,
            "fieldManager" => self.manager = manager(options, value)?,
            "force" => self.force = Some(flag(key, value)?),
            "fieldValidation" => self.validation = validation(options, value)?,
            "includeLineage" => self.lineage = truth(key, value)?,
            "includeObject" => self.include = include(value)?,
            "propagationPolicy" => self.propagation = Some(value.to_owned()),
            "orphanDependents" => self.orphan = Some(flag(key, value)?),
            // It has no meaning for kinds that are not processes, and must still be a number.
            "gracePeriodSeconds" if options == DELETE_OPTIONS => {
                number::<i64>(key, value)?;
            }
            _ => {}
        }
        Ok(())
    }

    /// What does not go together.
    fn check(&self) -> Result<(), Failure> {
        let forbid = |field: &str, why: &str| {
            let cause = Cause::new("FieldValueForbidden", field, format!("Forbidden: {why}"));
            Err(Failure::invalid_options("ListOptions", cause))
        };
        if let Some(odd) = self.odd_timeout.as_ref().filter(|_| !self.watch) {
            let message = format!("invalid timeout specified in the request URL: {odd:?}");
            return Err(Failure::bad_request(message));
        }
        if self.initial_events.is_some() && !self.watch {
            return forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if self.initial_events.is_some() && self.version_match != Some(VersionMatch::NotOlderThan) {
            return forbid(
                "resourceVersionMatch",
                "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            );
        }
        if self.watch {
            return match self.version_match {
                Some(_) if self.initial_events.is_none() => forbid(
                    "resourceVersionMatch",
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
                ),
                Some(VersionMatch::Exact | VersionMatch::NotOlderThan) | None => Ok(()),
            };
        }
        if self.continue_from.is_some() && matches!(self.version, Version::At(_)) {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        if self.continue_from.is_some() && self.version_match.is_some() {
            let why = "resourceVersionMatch is forbidden when continue is provided";
            return forbid("resourceVersionMatch", why);
        }
        match (self.version_match, self.version) {
            (Some(_), Version::Unset) => forbid(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            ),
            (Some(VersionMatch::Exact), Version::Any) => forbid(
                "resourceVersionMatch",
                "resourceVersionMatch \"Exact\" is forbidden for resourceVersion \"0\"",
            ),
            (Some(_) | None, Version::Unset | Version::Any | Version::At(_)) => Ok(()),
        }
    }
}

/// How the dialect calls the options of a method.
fn options_of(method: &Method) -> &'static str {
    match *method {
        Method::POST => "CreateOptions",
        Method::PUT => "UpdateOptions",
        Method::PATCH => "PatchOptions",
        Method::DELETE => DELETE_OPTIONS,
        _ => "ListOptions",
    }
}

/// Who writes: a name that can be shown, and not a long one.
fn manager(options: &str, value: &str) -> Result<Option<String>, Failure> {
    let refuse = |reason, message: String| {
        Err(Failure::invalid_options(options, Cause::new(reason, "fieldManager", message)))
    };
    if MANAGER_MAX < value.len() {
        let message = format!("Too long: may not be more than {MANAGER_MAX} bytes");
        return refuse("FieldValueTooLong", message);
    }
    if value.chars().any(char::is_control) {
        let message = format!("Invalid value: {value:?}: should only contain printable characters");
        return refuse("FieldValueInvalid", message);
    }
    Ok(text(value))
}

fn text(value: &str) -> Option<String> {
    (!value.is_empty()).then(|| value.to_owned())
}

/// A number from nothing to the largest that a signed one of 64 bits can be, as the dialect counts.
pub fn number<T: TryFrom<i64>>(key: &str, value: &str) -> Result<T, Failure> {
    let number = value.parse::<i64>().ok().and_then(|number| number.try_into().ok());
    number.ok_or_else(|| Failure::bad_request(format!("{key}: {value:?} is no number")))
}

/// A parameter that is there without a value counts as true.
fn flag(key: &str, value: &str) -> Result<bool, Failure> {
    match value {
        "" | "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        other => Err(Failure::bad_request(format!("{key}: {other:?} is neither true nor false"))),
    }
}

/// A parameter of our own says exactly what it means.
pub fn truth(key: &str, value: &str) -> Result<bool, Failure> {
    value
        .parse()
        .map_err(|_| Failure::bad_request(format!("{key}: {value:?} is neither true nor false")))
}

/// Whether a text is a duration as clients in Go write it: `32s`, `1m30s`, `1.5h`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest.is_empty() {
        // Nothing says nothing; a sign alone is no number.
        return text.is_empty();
    }
    while !rest.is_empty() && rest != "0" {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (digits, unit) = rest.split_at(number);
        if digits.parse::<f64>().is_err() {
            return false;
        }
        let units = ["ns", "us", "µs", "ms", "s", "m", "h"];
        let Some(after) = units.iter().find_map(|known| unit.strip_prefix(known)) else {
            return false;
        };
        rest = after;
    }
    true
}

fn version(value: &str) -> Result<Version, Failure> {
    match value {
        "" => Ok(Version::Unset),
        "0" => Ok(Version::Any),
        text => text.parse().map(Version::At).map_err(|_| {
            let message =
                format!("Invalid value: {text:?}: must be a version that a list or an object had");
            let cause = Cause::new("FieldValueInvalid", "resourceVersion", message);
            Failure::bad_request(cause.to_string()).with_causes(&[cause])
        }),
    }
}

fn version_match(value: &str) -> Result<Option<VersionMatch>, Failure> {
    match value {
        "" => Ok(None),
        "NotOlderThan" => Ok(Some(VersionMatch::NotOlderThan)),
        "Exact" => Ok(Some(VersionMatch::Exact)),
        other => Err(unsupported(
            "ListOptions",
            "resourceVersionMatch",
            other,
            &["Exact", "NotOlderThan"],
        )),
    }
}

/// `All` is the one value there is; in a query it may stand several times. Nothing is no value: who
/// names a dry run and is not understood must not get the real thing.
pub fn dry_run(options: &str, value: &str) -> Result<bool, Failure> {
    match value {
        "All" => Ok(true),
        other => Err(unsupported(options, "dryRun", other, &["All"])),
    }
}

fn validation(options: &str, value: &str) -> Result<Validation, Failure> {
    match value {
        "Strict" => Ok(Validation::Strict),
        "" | "Warn" => Ok(Validation::Warn),
        "Ignore" => Ok(Validation::Ignore),
        other => Err(unsupported(options, "fieldValidation", other, &["Ignore", "Strict", "Warn"])),
    }
}

fn include(value: &str) -> Result<Include, Failure> {
    match value {
        "None" => Ok(Include::None),
        "" | "Metadata" => Ok(Include::Metadata),
        "Object" => Ok(Include::Object),
        other => Err(unsupported(
            "TableOptions",
            "includeObject",
            other,
            &["Metadata", "None", "Object"],
        )),
    }
}

fn unsupported(kind: &str, field: &str, found: &str, known: &[&str]) -> Failure {
    let known: Vec<String> = known.iter().map(|value| format!("{value:?}")).collect();
    let message = format!("Unsupported value: {found:?}: supported values: {}", known.join(", "));
    Failure::invalid_options(kind, Cause::new("FieldValueNotSupported", field, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(raw: &str, expect: Query) {
        assert_eq!(Query::parse(&Method::GET, raw).ok(), Some(expect), "{raw}");
    }

    #[test]
    fn odd_queries_are_read() {
        check("", Query::default());
        check("&limit=500", Query { limit: 500, ..Query::default() });
        for timeout in ["32s", "1m30s", "1.5h", "0", "", "250ms", "%2B1s", "5%C2%B5s"] {
            check(&format!("timeout={timeout}&pretty=true"), Query::default());
        }
        let watch = Query::parse(&Method::GET, "watch=true&timeout=invalid");
        assert!(watch.is_ok_and(|query| query.watch), "how long a watch lasts is said otherwise");
        check("watch=1&timeoutSeconds=0", Query { watch: true, ..Query::default() });
        check("resourceVersion=0", Query { version: Version::Any, ..Query::default() });
        check(
            "fieldSelector=metadata.name%3Dx",
            Query { fields: "metadata.name=x".into(), ..Query::default() },
        );
        check("dryRun=All&dryRun=All", Query { dry_run: true, ..Query::default() });
    }

    #[track_caller]
    fn refuse(raw: &str, code: u16) {
        let failure = Query::parse(&Method::GET, raw).expect_err(raw);
        assert_eq!(failure.code.as_u16(), code, "{raw}: {}", failure.message);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        refuse("limit=many", 400);
        for timeout in ["invalid", "32", "s", "-", "1.2.3s", "1s2", "1d"] {
            refuse(&format!("timeout={timeout}"), 400);
        }
        refuse("limit=-1", 400);
        refuse("limit=", 400);
        refuse("limit=18446744073709551615", 400);
        refuse("watch=perhaps", 400);
        refuse("resourceVersion=abc", 400);
        refuse("continue=x&resourceVersion=5", 400);
        refuse("dryRun=Some", 422);
        refuse("dryRun=", 422);
        refuse("fieldValidation=Sometimes", 422);
        refuse("includeObject=Half", 422);
        refuse("resourceVersionMatch=Exact", 422);
        refuse("resourceVersionMatch=Exact&resourceVersion=0", 422);
        refuse("continue=x&resourceVersion=0&resourceVersionMatch=NotOlderThan", 422);
        refuse("sendInitialEvents=true", 422);
        refuse("watch=true&sendInitialEvents=true", 422);
        refuse("watch=true&resourceVersion=5&resourceVersionMatch=NotOlderThan", 422);
    }

    #[test]
    fn wrong_options_are_called_by_their_name() {
        let cases = [
            (Method::POST, "dryRun=Some", "CreateOptions.meta.k8s.io \"\" is invalid: dryRun"),
            (
                Method::PUT,
                "fieldValidation=No",
                "UpdateOptions.meta.k8s.io \"\" is invalid: fieldV",
            ),
            (Method::PATCH, "dryRun=Some", "PatchOptions.meta.k8s.io"),
            (Method::DELETE, "dryRun=Some", "DeleteOptions.meta.k8s.io"),
            (Method::DELETE, "gracePeriodSeconds=abc", "gracePeriodSeconds: \"abc\" is no number"),
            (
                Method::POST,
                "fieldManager=a%00b",
                "CreateOptions.meta.k8s.io \"\" is invalid: fieldM",
            ),
        ];
        for (method, raw, begins) in cases {
            let failure = Query::parse(&method, raw).expect_err(raw);
            assert!(failure.message.starts_with(begins), "{raw}: {}", failure.message);
        }
        let long = |length: usize| format!("fieldManager={}", "m".repeat(length));
        let failure = Query::parse(&Method::PATCH, &long(129)).expect_err("too long");
        assert_eq!(failure.code.as_u16(), 422, "{}", failure.message);
        assert!(Query::parse(&Method::PATCH, &long(128)).is_ok());
        assert!(
            Query::parse(&Method::GET, "gracePeriodSeconds=abc").is_ok(),
            "no option of a read"
        );
    }

    proptest! {
        #[test]
        fn any_query_is_answered(raw in "[a-zA-Z]{0,12}=?[ -~]{0,24}(&(limit|watch|dryRun|resourceVersion)=[ -~]{0,12})?") {
            if let Err(failure) = Query::parse(&Method::DELETE, &raw) {
                prop_assert!(matches!(failure.code.as_u16(), 400 | 422), "{}", failure.message);
            }
        }
    }
}
