//! What a person sees.
pub mod print;
pub mod style;
pub mod table;
