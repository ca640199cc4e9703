//! What goes when something else goes, from the outside.
mod artifacts;
mod events;
mod garbage;
mod late;
mod projects;
mod support;
mod unread;
