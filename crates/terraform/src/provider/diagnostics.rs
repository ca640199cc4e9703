//! What went wrong, for the person at Terraform's end.
use crate::resource::{Path, Problem, of_violation};
use crate::schema::{ResourceType, Style};
use crate::wire::tfplugin6::Diagnostic;
use crate::wire::tfplugin6::diagnostic::Severity;
use orrery_client::Error;

/// An error without a place.
pub fn error(summary: &str, detail: impl Into<String>) -> Diagnostic {
    Diagnostic {
        severity: Severity::Error.into(),
        summary: summary.to_owned(),
        detail: detail.into(),
        attribute: None,
    }
}

/// An error at a place.
pub fn error_at(style: Style, path: &Path, summary: &str, detail: impl Into<String>) -> Diagnostic {
    Diagnostic { attribute: Some(path.to_place(style)), ..error(summary, detail) }
}

pub fn of_problems(style: Style, problems: Vec<Problem>) -> Vec<Diagnostic> {
    let each = problems.into_iter();
    each.map(|problem| error_at(style, &problem.path, &problem.summary, problem.detail)).collect()
}

/// Why the server did not do what was asked, with each field that it names at its place.
pub fn of_error(of: &ResourceType, doing: &str, failure: &Error) -> Vec<Diagnostic> {
    let summary = format!("Cannot {doing}");
    let Error::Api(answer) = failure else { return vec![error(&summary, failure.to_string())] };
    if answer.violations.is_empty() {
        return vec![error(&summary, answer.message.clone())];
    }
    let advice = match answer.reason.as_str() {
        "Conflict" => {
            "\nAnother manager of the object has set this field. Take it out of the configuration, or set \
             force_conflicts = true in the provider's configuration to take it over."
        }
        _ => "",
    };
    let each = answer.violations.iter().map(|violation| {
        let path = of_violation(of.object(), violation.field.trim_start_matches('.'));
        error_at(
            of.style,
            &path,
            &summary,
            format!("{}: {}{advice}", violation.field, violation.message),
        )
    });
    each.collect()
}
