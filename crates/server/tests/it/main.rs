//! The server from outside: over real sockets, with real clients.
mod clients;
mod discovery;
mod errors;
mod kubectl;
mod reading;
mod support;
mod watching;
mod writing;
