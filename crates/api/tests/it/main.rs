//! The crate as its users see it, on our own kinds and on the test kinds of `testkit`.
mod builtin;
