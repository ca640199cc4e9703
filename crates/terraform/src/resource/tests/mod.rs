//! What is decided about resources: laws that hold for every kind, and cases of one kind.
mod cases;
mod laws;

use crate::schema::Catalog;
use std::sync::OnceLock;

/// All kinds.
fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::build().expect("the kinds of this build"))
}
