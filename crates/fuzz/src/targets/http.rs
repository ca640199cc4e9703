//! Heads and bodies of requests. The server says itself what must hold for each.
use orrery_server::fuzzing;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

pub fn query(bytes: &[u8]) {
    text(bytes).into_iter().for_each(fuzzing::query);
}

pub fn accept(bytes: &[u8]) {
    fuzzing::accept(bytes);
}

pub fn path(bytes: &[u8]) {
    text(bytes).into_iter().for_each(fuzzing::path);
}

pub fn envelope(bytes: &[u8]) {
    fuzzing::envelope(bytes);
}

pub fn delete_options(bytes: &[u8]) {
    fuzzing::delete_options(bytes);
}

pub fn scale(bytes: &[u8]) {
    fuzzing::scale(bytes);
}

pub fn review(bytes: &[u8]) {
    fuzzing::review(bytes);
}

pub fn channels(bytes: &[u8]) {
    fuzzing::channels(bytes);
}

pub fn protocols(bytes: &[u8]) {
    fuzzing::protocols(bytes);
}
