//! From `kubectl apply` to `kubectl apply --server-side`.
//!
//! Applied on the client's side, an object was changed by one manager and remembers in an annotation
//! what was declared. When the same tool declares on the server's side for the first time, that is its
//! own past: no conflict, and what it declares no longer goes.
use super::managers::{Entry, Managers, Operation};
use super::scope::Scope;
use super::set::FieldSet;
use super::{Manager, walk};
use orrery_api::{DecodeOptions, Object};

const CLIENT_SIDE: &str = "kubectl-client-side-apply";
const SERVER_SIDE: &str = "kubectl";
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Hands the fields of the one manager to the other: those that were declared as declared, and those
/// that were only filled in at the time to nobody.
pub(super) fn take_over(managers: &mut Managers, manager: &Manager, live: &Object) {
    let (main, apply) = (Scope::Main, Operation::Apply);
    if (manager.name.as_str(), manager.operation, manager.scope) != (SERVER_SIDE, apply, main) {
        return;
    }
    let Some(place) = managers.entries.iter().position(is_client_side) else { return };
    let Some(declared) = last_applied(live) else { return };
    let former = managers.entries.remove(place);
    let mine = managers.get(manager).map(|entry| entry.fields.clone()).unwrap_or_default();
    let fields = mine.union(&former.fields.intersection(&declared));
    managers.set(manager, &former.api_version, fields);
}

fn is_client_side(entry: &Entry) -> bool {
    let Manager { name, operation, scope } = &entry.manager;
    name == CLIENT_SIDE && *operation == Operation::Update && *scope == Scope::Main
}

/// What the annotation says was declared; nothing where it cannot be read.
fn last_applied(live: &Object) -> Option<FieldSet> {
    let text = live.annotation(LAST_APPLIED)?;
    let options = DecodeOptions::lenient();
    let declared = Object::from_json(live.kind(), text.as_bytes(), &options).ok()?;
    Some(Scope::Main.filter(walk::fields(&declared.object)))
}
