//! Field ownership: who set which field, and what follows when several do.
//!
//! ```text
//!   live object + managers ─┐
//!   what one declares ──────┴─> merge ─> conflicts? ─> prune what it no longer declares ─> next
//! ```
//! Two ways to write. **Apply**: a manager declares the fields it cares about; others' fields stay,
//! a field that it declared before and no longer does goes if nobody else claims it, and a field
//! that another manager holds with a different value is a conflict, unless forced. **Update**:
//! whoever changes a field takes it.
//!
//! What is one field depends on the definition: messages and maps are granular; lists are granular
//! when they are sets of scalars (an item is itself) or have a key (an item is its key). Every other
//! list, opaque data (`Struct`), times, sets of messages and everything below [`DEPTH_MAX`] are one
//! value each: nobody can say what half of it means.
//!
//! Writers that name no manager own nothing, but what they change belongs to nobody afterwards.
mod apply;
mod declared;
mod encode;
mod managers;
mod merge;
mod prune;
mod scope;
mod set;
mod shape;
mod upgrade;
mod walk;

pub use apply::{apply, stamp, update};
pub use declared::declared_bytes;
pub use encode::{from_bytes, to_bytes};
pub(crate) use managers::MANAGER_BYTES_MAX;
pub use managers::{Entry, FieldConflict, Managers, Operation};
pub use scope::Scope;
pub use set::{Element, FieldSet};
pub(crate) use shape::item_key;
pub use walk::{changed, fields};

/// How deep fields are told apart; what lies deeper is one value. A level takes three messages when
/// it is stored, and decoders of protobuf stop at a hundred.
pub const DEPTH_MAX: usize = 20;

/// Who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manager {
    pub name: String,
    pub operation: Operation,
    pub scope: Scope,
}
