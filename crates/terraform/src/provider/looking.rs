//! Reading, importing, and data sources.
use super::changes::{refused, state};
use super::diagnostics::{error, error_at};
use super::server::Server;
use crate::resource::{Path, Private, View};
use crate::schema::ResourceType;
use crate::value::Value;
use crate::wire::tfplugin6::Diagnostic;
use orrery_api::is_name;

/// A state as it is now; null when the object is gone.
pub async fn read(
    of: &ResourceType,
    server: &Server,
    known: &Value,
    private: &Private,
) -> Result<Value, Vec<Diagnostic>> {
    let view = if private.imported { View::All } else { View::Known };
    let found = look(of, server, known, view, Reach::Own).await?;
    if found.is_none() && private.imported {
        let id = known.get("id").as_str().unwrap_or_default();
        let detail = format!("There is no {} {id:?} to import.", of.kind.kind());
        return Err(vec![error("Cannot import what is not there", detail)]);
    }
    Ok(found.unwrap_or(Value::Null))
}

/// What a data source names.
pub async fn data(
    of: &ResourceType,
    server: &Server,
    config: &Value,
) -> Result<Value, Vec<Diagnostic>> {
    match look(of, server, config, View::All, Reach::Readable).await? {
        Some(found) => Ok(found),
        None => {
            let name = config.at(&["metadata", "name"]).as_str().unwrap_or_default();
            let kind = of.kind.kind();
            let detail = format!("There is no {kind} {name:?} in {}.", place(of, server, config));
            Err(vec![error_at(
                of.style,
                &Path::of(&["metadata", "name"]),
                &format!("No such {kind}"),
                detail,
            )])
        }
    }
}

fn place(of: &ResourceType, server: &Server, config: &Value) -> String {
    let at = server.settings.endpoint.server();
    match of.kind.cluster_scoped() {
        true => format!("the server at {at}"),
        false => format!("project {:?} of the server at {at}", project(server, config)),
    }
}

fn project<'a>(server: &'a Server, of: &'a Value) -> &'a str {
    of.at(&["metadata", "project"]).as_str().unwrap_or(&server.settings.project)
}

/// Where an object may be.
enum Reach {
    /// In the project itself: what is managed.
    Own,
    /// Also in another project, which shares it.
    Readable,
}

async fn look(
    of: &ResourceType,
    server: &Server,
    known: &Value,
    view: View,
    reach: Reach,
) -> Result<Option<Value>, Vec<Diagnostic>> {
    let name = known.at(&["metadata", "name"]).as_str().unwrap_or_default();
    let doing = format!("read {} {name:?}", of.kind.kind());
    let failed = |failure| refused(of, &doing, &failure);
    let name = server.name(of, project(server, known), name).await.map_err(failed)?;
    let object = match reach {
        Reach::Own => server.get(&name).await,
        Reach::Readable => server.readable(&name).await,
    };
    let object = object.map_err(failed)?;
    Ok(object.map(|object| state(of, &name, &object, known, view)))
}

/// The little that is known of an object that is to be imported: `PROJECT/NAME`, or its name alone.
pub fn imported(
    of: &ResourceType,
    usual_project: &str,
    id: &str,
) -> Result<Value, Vec<Diagnostic>> {
    let (project, name) = match (of.kind.cluster_scoped(), id.split_once('/')) {
        (false, Some((project, name))) => (project, name),
        (_, _) => (usual_project, id),
    };
    if !is_name(name) || !is_name(project) {
        let form = if of.kind.cluster_scoped() {
            "NAME"
        } else {
            "PROJECT/NAME, or NAME in the provider's project"
        };
        let detail = format!("{id:?} names no {}: write {form}.", of.kind.kind());
        return Err(vec![error("Not an id", detail)]);
    }
    let object = of.object();
    Ok(object.value(|attribute| match (attribute.name.as_str(), &attribute.shape) {
        ("id", _) => Value::text(id),
        ("metadata", crate::schema::Shape::Nested(_, metadata)) => {
            metadata.value(|attribute| match attribute.name.as_str() {
                "name" => Value::text(name),
                "project" => Value::text(project),
                _ => Value::Null,
            })
        }
        (_, _) => Value::Null,
    }))
}
