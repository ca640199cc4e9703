//! The crate as its users see it, on our own kinds and on the test kinds of `testkit`.
mod convert;
mod definitions;
mod json;
mod manifests;
mod objects;
mod properties;
mod records;
mod registration;
mod resolve;
mod select;
mod support;
mod table;
mod validate;
