//! `orrery explain`.
use crate::args::{ExplainArguments, Global};
use crate::definitions::{message, rules, type_name};
use crate::output::print;
use crate::output::style::{self, Style};
use crate::scheme;
use crate::session::Session;
use anyhow::bail;
use orrery_api::{FieldSchema, Kind, MessageSchema, Schema};
use orrery_client::Error;

/// Levels that a recursive explanation goes down; definitions that contain themselves end here.
const DEPTH_MAX: usize = 16;

pub async fn run(global: &Global, arguments: ExplainArguments) -> anyhow::Result<()> {
    let known = match Session::open(global, &arguments.connection).await {
        Ok(session) => Some(session.known),
        // The definitions are in this binary; only the ending of the groups is the server's.
        Err(error) if is_unreachable(&error) => {
            print::note("the server is not available; this is what this version of orrery knows");
            None
        }
        Err(error) => return Err(error),
    };
    if let Some(known) = known.as_ref().filter(|k| k.server_version != orrery_client::VERSION) {
        print::note(&format!(
            "the server is of version {}; this is what version {} knows",
            known.server_version,
            orrery_client::VERSION
        ));
    }
    let scheme = scheme::local(known.as_ref())?;
    let (name, path) = arguments.path.split_once('.').unwrap_or((&arguments.path, ""));
    let kind = scheme.resolve("", name)?;
    print::lines(&explain(&kind, path, arguments.recursive, style::stdout())?)
}

fn is_unreachable(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref::<Error>(), Some(Error::NotAvailable { .. }))
}

fn explain(kind: &Kind, path: &str, recursive: bool, style: Style) -> anyhow::Result<Vec<String>> {
    let schema = kind.schema();
    let label = |name: &str| style.strong(&format!("{name:<13}"));
    let mut lines = vec![
        format!("{}{}", label("KIND:"), kind.kind()),
        format!("{}{}", label("VERSION:"), kind.api_version()),
    ];
    let (about, inside) = match path {
        "" => (schema.root().doc.clone(), Some(schema.root())),
        path => {
            let (parent, field) = find(schema, path)?;
            let head = format!("{path} <{}>", type_name(field.shape));
            lines.push(format!("{}{}", label("FIELD:"), head));
            let rules = rules(parent, field);
            if !rules.is_empty() {
                lines.push(format!("{}{}", label("RULES:"), rules.join("; ")));
            }
            (field.doc.clone(), message(schema, field))
        }
    };
    lines.push(String::new());
    lines.push(style.strong("DESCRIPTION:"));
    lines.extend(about.lines().map(|line| format!("  {line}")));
    if let Some(inside) = inside {
        lines.push(String::new());
        lines.push(style.strong("FIELDS:"));
        match recursive {
            true => tree(schema, inside, 1, &mut lines),
            false => fields(inside, style, &mut lines),
        }
    }
    Ok(lines)
}

/// The field at a path, and the message that it stands in.
fn find<'a>(
    schema: &'a Schema,
    path: &str,
) -> anyhow::Result<(&'a MessageSchema, &'a FieldSchema)> {
    let mut inside = schema.root();
    let mut walked = String::new();
    let mut segments = path.split('.').peekable();
    while let Some(segment) = segments.next() {
        let Some(field) = inside.field_by_json_name(segment) else {
            let known: Vec<&str> = inside.fields.iter().map(|f| f.json_name.as_str()).collect();
            let place = if walked.is_empty() { "the kind".to_owned() } else { walked };
            bail!("{place} has no field {segment:?}; it has: {}", known.join(", "));
        };
        if segments.peek().is_none() {
            return Ok((inside, field));
        }
        walked = if walked.is_empty() { segment.to_owned() } else { format!("{walked}.{segment}") };
        inside = match message(schema, field) {
            Some(next) => next,
            None => bail!("{walked} is a {} and has no fields", type_name(field.shape)),
        };
    }
    bail!("which field?")
}

fn fields(inside: &MessageSchema, style: Style, lines: &mut Vec<String>) {
    for field in &inside.fields {
        let mut head =
            format!("  {}  <{}>", style.strong(&field.json_name), type_name(field.shape));
        let rules = rules(inside, field);
        if !rules.is_empty() {
            head += &style.faint(&format!("  {}", rules.join("; ")));
        }
        lines.push(head);
        lines.extend(field.doc.lines().map(|line| format!("    {line}")));
        lines.push(String::new());
    }
    lines.pop();
}

fn tree(schema: &Schema, inside: &MessageSchema, depth: usize, lines: &mut Vec<String>) {
    for field in &inside.fields {
        let indent = "  ".repeat(depth);
        let required =
            if rules(inside, field).iter().any(|r| r == "required") { " (required)" } else { "" };
        lines.push(format!("{indent}{}  <{}>{required}", field.json_name, type_name(field.shape)));
        if let Some(next) = message(schema, field).filter(|_| depth < DEPTH_MAX) {
            tree(schema, next, depth + 1, lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(path: &str, recursive: bool) -> anyhow::Result<String> {
        let scheme = scheme::local(None).unwrap();
        let kind = scheme.resolve("", "workload").unwrap();
        explain(&kind, path, recursive, Style::plain()).map(|lines| lines.join("\n"))
    }

    #[test]
    fn kinds_and_fields_are_explained() {
        let kind = said("", false).unwrap();
        assert!(kind.contains("KIND:        Workload\nVERSION:     apps.orrery.dev/v1"), "{kind}");
        assert!(kind.contains("  spec  <Object>\n    What is asked for."), "{kind}");
        let field = said("spec.restartPolicy", false).unwrap();
        assert!(field.contains("FIELD:       spec.restartPolicy <string>"), "{field}");
        assert!(field.contains("one of always, onFailure, never"), "{field}");
        let tree = said("", true).unwrap();
        assert!(
            tree.contains("\n    process  <Object>\n      command  <string> (required)"),
            "{tree}"
        );
    }

    #[test]
    fn unknown_fields_are_told_with_those_that_are_known() {
        let error = said("spec.oops", false).unwrap_err().to_string();
        assert!(
            error.starts_with("spec has no field \"oops\"; it has: process, podman, placement"),
            "{error}"
        );
        let error = said("spec.restartPolicy.x", false).unwrap_err().to_string();
        assert_eq!(error, "spec.restartPolicy is a string and has no fields");
        assert!(said("oops", false).unwrap_err().to_string().starts_with("the kind has no field"));
    }
}
