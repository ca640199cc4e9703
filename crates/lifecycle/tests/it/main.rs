//! What goes when something else goes, from the outside.
mod events;
mod projects;
mod support;
