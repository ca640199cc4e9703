//! Sets of fields, as trees.
use std::collections::BTreeMap;
use std::fmt;

/// One step from an object to a field of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Element {
    /// A field, or an entry of a map.
    Field(String),
    /// The item of a list whose key has this value.
    Key { field: String, value: String },
    /// The item of a set, as JSON text.
    Value(String),
}

/// As paths read in messages: `.spec.ports[name="http"]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key { field, value } => write!(f, "[{field}={value:?}]"),
            Self::Value(json) => write!(f, "[={json}]"),
        }
    }
}

/// A set of fields. A place can be in the set itself, or only on the way to others that are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    nodes: BTreeMap<Element, Node>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Whether the place itself is in the set.
    pub owned: bool,
    pub children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.owned && self.children.is_empty()
    }
}

impl FieldSet {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn get(&self, element: &Element) -> Option<&Node> {
        self.nodes.get(element)
    }

    pub fn field(&self, name: &str) -> Option<&Node> {
        self.get(&Element::Field(name.to_owned()))
    }

    pub fn iter(&self) -> impl Iterator<Item = (&Element, &Node)> {
        self.nodes.iter()
    }

    /// Adds a place with what is below it; an empty one is left out.
    pub(super) fn put(&mut self, element: Element, node: Node) {
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    pub(super) fn remove(&mut self, element: &Element) -> Option<Node> {
        self.nodes.remove(element)
    }

    /// Adds one path.
    pub fn insert(&mut self, path: &[Element]) {
        let Some((first, rest)) = path.split_first() else { return };
        let node = self.nodes.entry(first.clone()).or_default();
        if rest.is_empty() {
            node.owned = true;
        } else {
            node.children.insert(rest);
        }
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        for (element, node) in other.iter() {
            let mine = all.nodes.entry(element.clone()).or_default();
            mine.owned |= node.owned;
            mine.children = mine.children.union(&node.children);
        }
        all
    }

    /// What is in both.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && theirs)
    }

    /// What is in this one and not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.combine(other, |mine, theirs| mine && !theirs)
    }

    fn combine(&self, other: &Self, keep: fn(bool, bool) -> bool) -> Self {
        let nothing = Node::default();
        let mut kept = Self::default();
        for (element, mine) in self.iter() {
            let theirs = other.get(element).unwrap_or(&nothing);
            let children = mine.children.combine(&theirs.children, keep);
            kept.put(element.clone(), Node { owned: keep(mine.owned, theirs.owned), children });
        }
        kept
    }

    /// Every path, as messages show it.
    pub fn paths(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.collect("", &mut found);
        found
    }

    fn collect(&self, prefix: &str, found: &mut Vec<String>) {
        for (element, node) in self.iter() {
            let path = format!("{prefix}{element}");
            if node.owned {
                found.push(path.clone());
            }
            node.children.collect(&path, found);
        }
    }
}
