//! Field ownership: whose fields are whose, and what follows.
mod cases;
mod properties;
mod records;
