//! By which rights git syncs act: those of the role that each of them names, in its own project.
use crate::identity::asked_of_part;
use orrery_access::{Access, Acting};
use orrery_api::Kind;
use orrery_gitsync::{Authority, Rights};
use orrery_hub::{Admit, Error, ObjectName};
use std::sync::Arc;

/// Answers from the roles that are in force.
pub struct Roles(pub Access);

impl Authority for Roles {
    fn acting(&self, sync: &ObjectName, role: &str) -> Arc<dyn Rights> {
        let who = format!("gitsync:{}/{}", sync.project, sync.name);
        let acting = self.0.acting(&who, &sync.project, role);
        Arc::new(ByRole { acting, role: role.to_owned() })
    }
}

struct ByRole {
    acting: Acting,
    role: String,
}

impl Rights for ByRole {
    fn check(&self, verb: &str, kind: &Kind, part: &str, name: &ObjectName) -> Result<(), Error> {
        let asked = asked_of_part(verb, kind, part, &name.project, &name.name);
        if self.acting.decide(&asked).allowed() {
            return Ok(());
        }
        let (role, plural) = (&self.role, kind.plural());
        let part = if part.is_empty() { String::new() } else { format!("/{part}") };
        let text = format!("the role {role:?} of the sync does not let it {verb} {plural}{part}");
        Err(Error::Forbidden(text))
    }

    fn admit(&self, kind: &Kind) -> Option<Admit> {
        if !orrery_access::gives_access(kind) {
            return None;
        }
        let acting = self.acting.clone();
        Some(Admit::new(move |next, old| {
            acting.may_give(next, old).map_err(|excess| Error::Forbidden(excess.to_string()))
        }))
    }
}
