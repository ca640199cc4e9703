//! The page of a kind.
use super::cell;
use crate::definitions::{message, rules, type_name};
use orrery_api::{Kind, MessageSchema, Schema};

pub fn page(kind: &Kind) -> String {
    let schema = kind.schema();
    let mut out = format!("# {}\n\n{}\n\n", kind.kind(), paragraphs(&schema.root().doc));
    out += &facts(kind);
    let mut sections = Vec::new();
    walk(schema, schema.root(), "", &mut sections);
    for (path, message) in sections {
        let title = if path.is_empty() { "Fields".to_owned() } else { format!("`{path}`") };
        out += &format!("\n## {title}\n\n");
        if !path.is_empty() && !message.doc.is_empty() {
            out += &format!("{}\n\n", paragraphs(&message.doc));
        }
        out += &table(message);
    }
    out
}

fn facts(kind: &Kind) -> String {
    let scope = if kind.cluster_scoped() { "no project of its own" } else { "a project" };
    let writer = match (kind.server_owned(), kind.recorded()) {
        (_, true) => "programs, as they run",
        (true, false) => "the server only",
        (false, false) => "people and their tools",
    };
    let or_none = |items: &[String]| match items {
        [] => "none".to_owned(),
        items => items.join(", "),
    };
    let rows = [
        ("apiVersion", format!("`{}`", kind.api_version())),
        ("kind", format!("`{}`", kind.kind())),
        ("plural", format!("`{}`", kind.plural())),
        ("short names", or_none(kind.short_names())),
        ("categories", or_none(kind.categories())),
        ("lives in", scope.to_owned()),
        ("written by", writer.to_owned()),
    ];
    let lines = rows.iter().map(|(name, value)| format!("| {name} | {value} |\n"));
    format!("| | |\n|---|---|\n{}", lines.collect::<String>())
}

/// Every message with fields, with the first path that leads to it.
fn walk<'a>(
    schema: &'a Schema,
    inside: &'a MessageSchema,
    path: &str,
    sections: &mut Vec<(String, &'a MessageSchema)>,
) {
    if sections.iter().any(|(_, known)| std::ptr::eq(*known, inside)) || inside.fields.is_empty() {
        return;
    }
    sections.push((path.to_owned(), inside));
    for field in &inside.fields {
        if let Some(next) = message(schema, field) {
            let dot = if path.is_empty() { "" } else { "." };
            walk(schema, next, &format!("{path}{dot}{}", field.json_name), sections);
        }
    }
}

fn table(message: &MessageSchema) -> String {
    let mut out = String::from("| field | type | rules | what it says |\n|---|---|---|---|\n");
    for field in &message.fields {
        out += &format!(
            "| `{}` | {} | {} | {} |\n",
            field.json_name,
            type_name(field.shape),
            cell(&rules(message, field).join("; ")),
            cell(&field.doc)
        );
    }
    out
}

/// One paragraph per line, as Markdown wants them.
fn paragraphs(doc: &str) -> String {
    doc.replace('\n', "\n\n").replace('<', "&lt;")
}
