//! What a sync may do: as much as the role that it names gives in its project.
use orrery_api::Kind;
use orrery_hub::{Admit, Error, ObjectName};
use std::sync::Arc;

/// Says by which rights syncs act. The server answers it from its roles.
pub trait Authority: Send + Sync + 'static {
    /// The rights of a sync that acts by a role, as they are now.
    fn acting(&self, sync: &ObjectName, role: &str) -> Arc<dyn Rights>;
}

/// What one sync may do.
pub trait Rights: Send + Sync {
    /// Refuses what is not allowed; `part` is "" for the object itself.
    fn check(&self, verb: &str, kind: &Kind, part: &str, name: &ObjectName) -> Result<(), Error>;

    /// What it may make of objects of a kind.
    fn admit(&self, kind: &Kind) -> Option<Admit>;
}
