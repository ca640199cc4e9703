//! What a person sees.
pub mod jsonpath;
pub mod listing;
pub mod notice;
pub mod print;
pub mod screen;
pub mod style;
pub mod table;
