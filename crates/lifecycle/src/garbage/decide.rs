//! What becomes of an object that has owners. Pure.
use orrery_hub::Propagation;

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// It is there, or nobody can tell: the object stays.
    Solid,
    /// It is gone; an object of the same name with another identity is not it.
    Gone,
    /// It is on its way, and waits for what it owns to go first.
    Waiting,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    /// It has another owner, so it only forgets these.
    Forget(Vec<String>),
    /// Nobody owns it any more. What it owns itself goes the way its owner went.
    Delete(Option<Propagation>),
}

/// `owners` are the identities that the object names, with what is known of each.
pub fn decide(owners: &[(String, Owner)], owns_others: bool) -> Verdict {
    if owners.is_empty() {
        return Verdict::Keep;
    }
    let lost: Vec<String> = owners
        .iter()
        .filter(|(_, owner)| *owner != Owner::Solid)
        .map(|(uid, _)| uid.clone())
        .collect();
    if lost.len() < owners.len() {
        return if lost.is_empty() { Verdict::Keep } else { Verdict::Forget(lost) };
    }
    let waited_for = owners.iter().any(|(_, owner)| *owner == Owner::Waiting);
    Verdict::Delete((waited_for && owns_others).then_some(Propagation::Foreground))
}
