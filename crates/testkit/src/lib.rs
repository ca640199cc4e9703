//! Kinds that only tests use.
