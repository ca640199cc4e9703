//! Where the values of a document stand in its text.

/// A place in a text; both count from 1, columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub line: usize,
    pub column: usize,
}

/// The place of a value and of everything in it.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub at: Position,
    pub inside: Inside,
}

#[derive(Clone, Debug)]
pub(super) enum Inside {
    Nothing,
    List(Vec<Place>),
    /// The place of an entry is that of its key.
    Map(Vec<(String, Place)>),
}

impl Default for Place {
    fn default() -> Self {
        Self { at: Position { line: 1, column: 1 }, inside: Inside::Nothing }
    }
}

impl Place {
    /// The place of the field at a path such as `spec.nodes[0]` or `metadata.labels[a.b/c]`, or
    /// of the nearest thing around it that is written.
    pub fn locate(&self, path: &str) -> Position {
        let mut place = self;
        let mut rest = path;
        while let Some((child, after)) = place.step(rest) {
            place = child;
            rest = after;
        }
        place.at
    }

    /// One step of a path: the child it leads to and what is left of the path. Keys may hold
    /// dots and brackets themselves, so they are compared, and not taken apart.
    fn step<'p>(&self, path: &'p str) -> Option<(&Self, &'p str)> {
        let name = path.strip_prefix('.').unwrap_or(path);
        match &self.inside {
            Inside::Nothing => None,
            Inside::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                Some((items.get(index.parse::<usize>().ok()?)?, rest))
            }
            Inside::Map(entries) => entries.iter().find_map(|(key, place)| {
                if let Some(bracketed) = path.strip_prefix('[') {
                    return Some((place, bracketed.strip_prefix(key.as_str())?.strip_prefix(']')?));
                }
                let rest = strip_name(name, key).or_else(|| strip_name(name, other_name(key)?))?;
                Some((place, rest))
            }),
        }
    }

    /// The places of the items of a list that is a field of this.
    pub fn into_items(self, field: &str, count: usize) -> Vec<Self> {
        let start = Self { at: self.at, inside: Inside::Nothing };
        let items = match self.inside {
            Inside::Map(entries) => entries.into_iter().find(|(key, _)| key == field),
            Inside::Nothing | Inside::List(_) => None,
        };
        match items {
            Some((_, Self { inside: Inside::List(items), .. })) if items.len() == count => items,
            Some(_) | None => vec![start; count],
        }
    }
}

/// What follows `key` in a path, when the path goes on with exactly this name.
fn strip_name<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(key)?;
    (!key.is_empty() && (rest.is_empty() || rest.starts_with(['.', '[']))).then_some(rest)
}

/// A problem of `metadata.project` is shown where people wrote `namespace`.
fn other_name(key: &str) -> Option<&'static str> {
    (key == "namespace").then_some("project")
}
