//! Which methods there are at a path. One that there is not is refused before anything else is looked at, and told which
//! there are, as HTTP wants it.
use super::failure::Failure;
use super::path::{self, Sub, Target};
use super::resource::Resource;
use super::{Rest, not_allowed};
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use orrery_hub::Part;

const READ: [&str; 2] = ["GET", "HEAD"];
/// The methods that change an object, with their verbs.
const WRITE: [(&str, &str); 3] = [("PUT", "update"), ("PATCH", "patch"), ("DELETE", "delete")];

/// Refuses a method that there is not.
pub fn check(target: &Target, method: &Method) -> Result<(), Failure> {
    if methods(target).contains(&method.as_str()) {
        return Ok(());
    }
    let changes = matches!(*method, Method::POST | Method::PUT | Method::PATCH | Method::DELETE);
    match target {
        Target::Collection { resource, .. } | Target::Object { resource, .. }
            if changes && !resource.writable() =>
        {
            // What only the server writes, people read.
            let plural = resource.plural();
            Err(Failure::method_not_allowed(format!(
                "{plural} are written by the server only; they follow what you declare"
            )))
        }
        Target::Object { sub: Sub::Exec, .. } => {
            let message = "a command runs over a WebSocket, which begins with GET";
            Err(Failure::method_not_allowed(message))
        }
        _ => Err(not_allowed()),
    }
}

/// Says in a refusal of a method which there are.
pub fn allow(rest: &Rest, uri: &Uri, mut response: Response) -> Response {
    if response.status() == StatusCode::METHOD_NOT_ALLOWED
        && let Some(target) = path::resolve(&rest.catalog, uri.path())
        && let Ok(methods) = HeaderValue::try_from(methods(&target).join(", "))
    {
        response.headers_mut().insert(header::ALLOW, methods);
    }
    response
}

fn methods(target: &Target) -> Vec<&'static str> {
    match target {
        Target::Review { .. } => vec!["POST"],
        Target::CoreVersions | Target::Groups | Target::Group(_) | Target::GroupVersion { .. } => {
            READ.to_vec()
        }
        Target::Collection { resource, project } => {
            // What is in projects is made and emptied in one of them: whoever forgets to name it does not empty all.
            let here = project.is_some() == resource.namespaced();
            let verbs = if here { resource.verbs() } else { &[] };
            with(verbs, &[("POST", "create"), ("DELETE", "deletecollection")])
        }
        Target::Object { resource, sub, .. } => of_object(resource, sub),
    }
}

fn of_object(resource: &Resource, sub: &Sub) -> Vec<&'static str> {
    match sub {
        Sub::Part(Part::Main) => with(resource.verbs(), &WRITE),
        Sub::Part(Part::Status | Part::Scale) | Sub::Scale => with(resource.status_verbs(), &WRITE),
        Sub::Artifact(_) if resource.writable() => vec!["GET", "HEAD", "PUT", "DELETE"],
        Sub::Artifact(_) | Sub::Artifacts | Sub::Versions | Sub::Version(_) | Sub::Log => {
            READ.to_vec()
        }
        Sub::Exec => vec!["GET"],
    }
}

/// Reading, and those methods whose verbs are known.
fn with(verbs: &[&str], more: &[(&'static str, &str)]) -> Vec<&'static str> {
    let more = more.iter().filter(|(_, verb)| verbs.contains(verb));
    READ.into_iter().chain(more.map(|(method, _)| *method)).collect()
}
