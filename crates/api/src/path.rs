//! The path of the field that a walker is at.
use std::fmt;

/// Longest name that a path repeats. The longest key that is valid anywhere (a domain, a slash
/// and a name) fits; a longer one is shortened, so that a hostile text cannot make every one of
/// its errors as long as itself.
const SEGMENT_BYTES_MAX: usize = 320;

/// A path that grows and shrinks as a walker descends and returns.
#[derive(Default)]
pub(crate) struct Path {
    text: String,
}

/// Where a path ended before a step was taken.
pub(crate) struct Mark(usize);

impl Path {
    pub fn enter_field(&mut self, name: &str) -> Mark {
        let mark = Mark(self.text.len());
        if !self.text.is_empty() {
            self.text.push('.');
        }
        self.text.push_str(shorten(name));
        mark
    }

    pub fn enter_key(&mut self, key: &str) -> Mark {
        let mark = Mark(self.text.len());
        self.text.push('[');
        self.text.push_str(shorten(key));
        self.text.push(']');
        mark
    }

    pub fn enter_index(&mut self, index: usize) -> Mark {
        self.enter_key(&index.to_string())
    }

    pub fn leave(&mut self, mark: Mark) {
        self.text.truncate(mark.0);
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn shorten(name: &str) -> &str {
    let mut end = name.len().min(SEGMENT_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_grow_and_shrink() {
        let mut path = Path::default();
        let spec = path.enter_field("spec");
        let zones = path.enter_field("zones");
        let index = path.enter_index(3);
        assert_eq!(path.as_str(), "spec.zones[3]");
        path.leave(index);
        path.leave(zones);
        path.enter_key("a/b");
        assert_eq!(path.as_str(), "spec[a/b]");
        path.leave(spec);
        assert_eq!(path.as_str(), "");
    }

    #[test]
    fn long_names_are_shortened_between_characters() {
        let mut path = Path::default();
        path.enter_field(&"é".repeat(1000));
        assert_eq!(path.as_str().len(), SEGMENT_BYTES_MAX);
    }
}
