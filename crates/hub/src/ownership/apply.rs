//! The two ways to write, and what each does to the managers.
use super::declared::declared_bytes;
use super::managers::{Entry, FieldConflict, Managers, Operation};
use super::scope::Scope;
use super::set::FieldSet;
use super::{Manager, merge, prune, upgrade, walk};
use orrery_api::{Object, OnlyManager};
use prost_types::Timestamp;

/// Lays what `manager` declares over `live`, or says with whom it would be in conflict. `force`
/// takes the fields in conflict from their managers.
///
/// Defaults are not filled in, and the time of the manager's entry is not set: see [`stamp`].
pub fn apply(
    live: &Object,
    declared: &Object,
    manager: &Manager,
    force: bool,
) -> Result<Object, Vec<FieldConflict>> {
    let (kind, scope) = (live.kind().clone(), manager.scope);
    let declared = scope.declared(declared);
    let mut next = live.clone();
    merge::merge(kind.schema(), next.record_mut(), declared.record());
    // Most applies change what fields hold, and not whose they are: nothing goes, and the record stays.
    if is_recorded(live, &declared, manager) {
        return Ok(next);
    }
    let before = Managers::of(live);
    let mut managers = before.clone();
    upgrade::take_over(&mut managers, manager, live);
    let fields = scope.filter(walk::fields(&declared));

    let disputed = disputed(&managers, manager, live, &next);
    if !disputed.is_empty() && !force {
        return Err(disputed.iter().flat_map(|(entry, fields)| conflicts(entry, fields)).collect());
    }
    for (_, fields) in &disputed {
        managers.take(fields, Some(manager));
    }

    let last = managers.get(manager).map(|entry| entry.fields.clone()).unwrap_or_default();
    managers.set(manager, kind.api_version(), fields);
    if managers == before {
        return Ok(next);
    }
    let everyone = managers.entries.iter().map(|entry| &entry.fields);
    let claimed = everyone.fold(FieldSet::default(), |all, fields| all.union(fields));
    prune::prune(kind.schema(), next.record_mut(), &last, &claimed);
    managers.tidy(&next);
    managers.write(&mut next);
    Ok(next)
}

/// Whether it is recorded already that the manager declares these fields, and nobody else anything.
fn is_recorded(live: &Object, declared: &Object, manager: &Manager) -> bool {
    let same = |only: &OnlyManager<'_>| {
        only.name == manager.name
            && Operation::named(only.operation) == manager.operation
            && Scope::named(only.subresource) == manager.scope
            && only.api_version == live.kind().api_version()
    };
    live.only_manager().filter(same).is_some_and(|only| {
        declared_bytes(manager.scope, declared).is_some_and(|bytes| bytes == only.fields)
    })
}

/// The fields of others that would change, with those who hold them.
fn disputed(
    managers: &Managers,
    manager: &Manager,
    live: &Object,
    next: &Object,
) -> Vec<(Entry, FieldSet)> {
    if managers.others(manager).next().is_none() {
        return Vec::new();
    }
    let changed = walk::changed(live, next);
    let dispute = |entry: &Entry| {
        // A declared branch of a choice takes the other branch away, whoever holds it.
        let lost = entry.fields.difference(&walk::present(&entry.fields, next));
        let fields = entry.fields.intersection(&changed).union(&lost);
        (!fields.is_empty()).then(|| (entry.clone(), fields))
    };
    managers.others(manager).filter_map(dispute).collect()
}

fn conflicts(entry: &Entry, fields: &FieldSet) -> Vec<FieldConflict> {
    let updated = entry.manager.operation == Operation::Update;
    let conflict = |field| FieldConflict {
        manager: entry.manager.name.clone(),
        api_version: if updated { entry.api_version.clone() } else { String::new() },
        subresource: entry.manager.scope.subresource().to_owned(),
        field,
    };
    fields.paths().into_iter().map(conflict).collect()
}

/// Records that `next` was made of `old` by someone who did not declare but change. What changed
/// belongs to `manager` afterwards, or to nobody when there is none. `given` is what was asked for: it
/// may say itself who holds which field, see [`Managers::given`]; then what changed is taken from these.
pub fn update(old: &Object, given: &Object, next: &mut Object, manager: Option<&Manager>) {
    // Most objects of the system itself are written by controllers that name no manager.
    if manager.is_none() && !old.is_managed() {
        return;
    }
    let mut managers = match manager {
        Some(Manager { scope: Scope::Main, .. }) if given.is_managed() => {
            Managers::given(given, old)
        }
        Some(_) | None => Managers::of(old),
    };
    let changed = match manager {
        Some(manager) => manager.scope.filter(walk::changed(old, next)),
        None => walk::changed(old, next),
    };
    managers.take(&changed, manager);
    if let Some(manager) = manager {
        let mine = managers.get(manager).map(|entry| entry.fields.union(&changed));
        managers.set(manager, next.kind().api_version(), mine.unwrap_or(changed));
    }
    managers.tidy(next);
    managers.write(next);
}

/// Sets the time of a manager's entry, once it is clear that something changed.
pub fn stamp(object: &mut Object, manager: &Manager, now: Timestamp) {
    object.stamp_managed_fields(now, |name, operation, subresource| {
        name == manager.name
            && Operation::named(operation) == manager.operation
            && Scope::named(subresource) == manager.scope
    });
}
