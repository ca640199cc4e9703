//! What an upstream says went wrong, in the words of the hub.
use orrery_api::{Kind, Reason, Violation};
use orrery_hub::ownership::FieldConflict;
use orrery_hub::{Error, ObjectName, Revision};
use std::time::Duration;
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt as _};

/// How long to wait where an upstream is too busy and does not say for how long.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What was asked, and of whom.
pub struct Question<'a> {
    pub kind: &'a Kind,
    /// The address of the upstream.
    pub upstream: &'a str,
    /// Which object, as far as the question was about one.
    pub name: &'a ObjectName,
    /// Whether something is to be written there.
    pub writes: bool,
}

/// The error of an answer; `None` when it is none of the hub, but of the way to it.
pub fn answered(question: &Question<'_>, status: &Status) -> Option<Error> {
    let details = status.get_error_details();
    let reason = details.error_info()?.reason.clone();
    Some(question.error(&reason, status.message(), &details))
}

impl Question<'_> {
    /// The upstream does not answer.
    pub fn away(&self, cause: impl ToString) -> Error {
        let kind = self.kind.plural().to_owned();
        Error::Away { kind, upstream: self.upstream.to_owned(), cause: cause.to_string() }
    }

    /// The upstream was asked and did not answer. What was to be written there may be.
    pub fn unanswered(&self, cause: impl ToString) -> Error {
        match self.writes {
            true => Error::Uncertain(format!("{}: {}", self.upstream, cause.to_string())),
            false => self.away(cause),
        }
    }

    fn error(&self, reason: &str, message: &str, details: &ErrorDetails) -> Error {
        let (kind, upstream) = (self.kind.qualified_plural(), self.upstream);
        let ObjectName { project, name } = self.name.clone();
        match reason {
            "NotFound" => same([Error::ProjectNotFound { project: project.clone() }], message)
                .unwrap_or(Error::NotFound { kind, project, name }),
            "AlreadyExists" => {
                let going = Error::BeingDeleted { kind: kind.clone(), name: name.clone() };
                same([going], message).unwrap_or(Error::AlreadyExists { kind, project, name })
            }
            "Conflict" => match disputed(details) {
                conflicts if conflicts.is_empty() => self.conflict(kind, name, message),
                conflicts => Error::ApplyConflict { kind, name, conflicts },
            },
            "Invalid" => {
                let kind = self.kind.kind().to_owned();
                Error::Invalid { kind, name, violations: violations(details) }
            }
            "Forbidden" => {
                let refused = format!("{upstream} does not let this server do that: {message}");
                same([Error::ProjectTerminating { project }], message)
                    .unwrap_or(Error::Forbidden(refused))
            }
            "Expired" => expired(message),
            "BadRequest" => Error::BadRequest(message.to_owned()),
            "RequestEntityTooLarge" => {
                Error::TooLarge(without("the request is too large: ", message))
            }
            "TooManyRequests" => {
                let given = details.retry_info().and_then(|info| info.retry_delay);
                let retry_after = given.unwrap_or(RETRY_AFTER);
                Error::TooManyRequests { message: format!("{upstream}: {message}"), retry_after }
            }
            "ServiceUnavailable" => self.away(message),
            "Timeout" => {
                let begins = Error::Uncertain(String::new()).to_string();
                Error::Uncertain(format!("{upstream}: {}", without(&begins, message)))
            }
            _ => Error::Internal(format!("{upstream}: {}", without("internal error: ", message))),
        }
    }

    fn conflict(&self, kind: String, name: String, message: &str) -> Error {
        let begins = format!("{kind} {name:?} was changed meanwhile: ");
        Error::Conflict { kind, name, message: without(&begins, message) }
    }
}

/// The one of these errors that says exactly this: several share a reason, and differ in their words.
fn same<const N: usize>(candidates: [Error; N], message: &str) -> Option<Error> {
    candidates.into_iter().find(|candidate| candidate.to_string() == message)
}

fn without(begins: &str, message: &str) -> String {
    message.strip_prefix(begins).unwrap_or(message).to_owned()
}

/// The two revisions stand in the text; one that does not hold them is as good a reason to list again.
fn expired(message: &str) -> Error {
    let numbers = message.split(|letter: char| !letter.is_ascii_digit());
    let mut revisions = numbers.filter_map(|number| number.parse().ok()).map(Revision);
    let requested = revisions.next().unwrap_or(Revision(0));
    let oldest = revisions.next().unwrap_or(requested);
    Error::Expired { requested, oldest, resume: None }
}

fn fields(details: &ErrorDetails) -> impl Iterator<Item = (&str, &str)> {
    let found = details.bad_request().map(|bad| bad.field_violations.as_slice());
    found.unwrap_or_default().iter().map(|one| (one.field.as_str(), one.description.as_str()))
}

fn violations(details: &ErrorDetails) -> Vec<Violation> {
    let read = |(path, message): (&str, &str)| Violation::new(path, class(message), message);
    fields(details).map(read).collect()
}

/// The class of a problem is not sent; its message begins with it.
fn class(message: &str) -> Reason {
    const CLASSES: [(&str, Reason); 7] = [
        ("Required value", Reason::Required),
        ("Unsupported value", Reason::NotSupported),
        ("Forbidden", Reason::Forbidden),
        ("Duplicate value", Reason::Duplicate),
        ("Too long", Reason::TooLong),
        ("Too many", Reason::TooMany),
        ("unknown field", Reason::UnknownField),
    ];
    let found = CLASSES.iter().find(|(words, _)| message.starts_with(words));
    found.map_or(Reason::Invalid, |(_, reason)| *reason)
}

/// Who holds fields that others want to change: `conflict with "who" with subresource "status" using v1`.
fn disputed(details: &ErrorDetails) -> Vec<FieldConflict> {
    fields(details).filter_map(|(field, message)| held(field, message)).collect()
}

fn held(field: &str, message: &str) -> Option<FieldConflict> {
    let owner = message.strip_prefix("conflict with ")?;
    let (who, api_version) = match owner.rsplit_once(" using ") {
        // Whoever applied has no version, and their names are within quotes.
        Some((who, version)) if who.ends_with('"') => (who, version),
        Some(_) | None => (owner, ""),
    };
    let (manager, subresource) = match who.rsplit_once(" with subresource ") {
        Some((manager, part)) => (manager, part),
        None => (who, ""),
    };
    let plain = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.to_owned());
    Some(FieldConflict {
        manager: plain(manager),
        api_version: api_version.to_owned(),
        subresource: plain(subresource),
        field: field.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::hub::to_status;
    use orrery_api::Scheme;

    /// An error that went over the wire says the same on the other side, with all that belongs to it.
    #[track_caller]
    fn check(error: &Error) {
        let scheme = Scheme::builtin().expect("our own kinds");
        let kind = scheme.resolve("", "MachineClass").expect("a kind");
        let name = ObjectName::new("shop", "small");
        let question = Question { kind: &kind, upstream: "http://u:1", name: &name, writes: true };
        let back = answered(&question, &to_status(error)).expect("an answer of the hub");
        assert_eq!(format!("{back:?}"), format!("{error:?}"));
    }

    /// proves: HUB-06
    #[test]
    fn errors_come_back_as_they_were() {
        let kind = || "machineclasses.infra.orrery.dev".to_owned();
        let (project, name) = ("shop".to_owned(), "small".to_owned());
        let place = || (kind(), project.clone(), name.clone());
        let (k, p, n) = place();
        check(&Error::NotFound { kind: k, project: p, name: n });
        let (k, p, n) = place();
        check(&Error::AlreadyExists { kind: k, project: p, name: n });
        check(&Error::BeingDeleted { kind: kind(), name: name.clone() });
        check(&Error::ProjectNotFound { project: project.clone() });
        check(&Error::ProjectTerminating { project: project.clone() });
        let message = "it is at revision 7, not 5".to_owned();
        check(&Error::Conflict { kind: kind(), name: name.clone(), message });
        let conflict = |manager: &str, api_version: &str, subresource: &str| FieldConflict {
            manager: manager.into(),
            api_version: api_version.into(),
            subresource: subresource.into(),
            field: ".spec.provider".into(),
        };
        let version = "infra.orrery.dev/v1";
        let conflicts = vec![
            conflict("kubectl \"x\"", version, ""),
            conflict("a using b", version, "status"),
            conflict("a using b", "", "status"),
            conflict("a using b", "", ""),
        ];
        check(&Error::ApplyConflict { kind: kind(), name: name.clone(), conflicts });
        let violations = vec![
            Violation::required("spec.provider", "say which"),
            Violation::forbidden("spec.x", "no"),
            Violation::new("spec.y", Reason::Invalid, "Invalid value: 3: too many"),
        ];
        check(&Error::Invalid { kind: "MachineClass".into(), name, violations });
        let (requested, oldest) = (Revision(3), Revision(9));
        check(&Error::Expired { requested, oldest, resume: None });
        check(&Error::BadRequest("no".into()));
        check(&Error::TooLarge("2 MiB".into()));
    }

    /// What the upstream refuses to this server is not what this server refuses to whoever asked.
    #[test]
    fn it_is_said_whose_word_it_is() {
        let scheme = Scheme::builtin().expect("our own kinds");
        let kind = scheme.resolve("", "MachineClass").expect("a kind");
        let name = ObjectName::new("shop", "small");
        let question = Question { kind: &kind, upstream: "http://u:1", name: &name, writes: true };
        let retry_after = Duration::from_secs(7);
        let errors = [
            Error::Forbidden("no".into()),
            Error::Unavailable("full".into()),
            Error::Uncertain("silent".into()),
            Error::Internal("broken".into()),
            Error::TooManyRequests { message: "slow".into(), retry_after },
        ];
        for error in errors {
            let back = answered(&question, &to_status(&error)).expect("an answer of the hub");
            assert_eq!(back.reason(), error.reason());
            assert!(back.to_string().contains("http://u:1"), "{back}");
            if let Error::TooManyRequests { retry_after, .. } = back {
                assert_eq!(retry_after.as_secs(), 7);
            }
        }
        assert!(answered(&question, &Status::unavailable("gone")).is_none());
    }
}
