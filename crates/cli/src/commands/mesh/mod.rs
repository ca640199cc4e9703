//! `orrery mesh`.
mod bootstrap;
mod proxies;
mod status;

use crate::args::{Global, MeshArguments, MeshCommand, MeshList};
use crate::kinds;
use crate::session::{Scope, Session};
use serde_json::Value;

pub async fn run(global: &Global, arguments: MeshArguments) -> anyhow::Result<()> {
    match arguments.command {
        MeshCommand::Bootstrap(arguments) => bootstrap::run(global, &arguments).await,
        MeshCommand::Status(arguments) => status::run(global, &arguments).await,
        MeshCommand::Proxies(arguments) => proxies::run(global, &arguments).await,
    }
}

/// Everything of a kind where the arguments say to look.
async fn all(session: &Session, list: &MeshList, kind: &str) -> anyhow::Result<Vec<Value>> {
    let kind = kinds::find(&session.known, kind)?;
    let project = session.project(list.project.as_deref(), list.all_projects);
    session.list(kind, &Scope { project, ..Scope::default() }).await
}

/// Where was looked, in words, for those who find nothing there.
fn looked(session: &Session, list: &MeshList) -> String {
    let project = session.project(list.project.as_deref(), list.all_projects);
    match project.as_str() {
        "" => "in any project".to_owned(),
        project => format!("in project {project} (-A looks in all)"),
    }
}

/// The text at a JSON pointer, or nothing.
fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

fn items<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// `shop/books`.
fn named(object: &Value, name: &str) -> String {
    format!("{}/{name}", text(object, "/metadata/project"))
}
