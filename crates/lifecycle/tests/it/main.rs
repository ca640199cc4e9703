//! What goes when something else goes, from the outside.
mod events;
mod garbage;
mod projects;
mod support;
