//! Builds documents from the events of the YAML parser, without recursion and within limits.
use std::{collections::HashMap, mem};

use serde_json::{Map, Value};
use serde_saphyr::granit_parser::{
    self, ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, Tag,
};

use super::{
    FILE_BYTES_MAX, NODES_MAX,
    place::{Inside, Place, Position},
    scalar,
};
use crate::json::JSON_DEPTH_MAX;

/// One document and where its values stand.
pub(super) struct Document {
    pub value: Value,
    pub place: Place,
}

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct Flaw {
    pub at: Position,
    pub message: String,
}

impl Flaw {
    pub fn start(message: &str) -> Self {
        Self { at: Position { line: 1, column: 1 }, message: message.to_owned() }
    }
}

/// Reads all documents of a text that are not empty.
pub(super) fn parse_documents(text: &str) -> Result<Vec<Document>, Flaw> {
    let mut builder = Builder::default();
    let options = granit_parser::options! { emit_comments: false };
    for event in Parser::new_from_str_with_options(text, options) {
        let (event, span) = event.map_err(|error| syntax_flaw(&error))?;
        builder.event(event, &span)?;
    }
    Ok(builder.documents)
}

fn syntax_flaw(error: &ScanError) -> Flaw {
    let at = Position { line: error.marker().line(), column: error.marker().col() + 1 };
    let nested = matches!(error.kind(), ErrorKind::RecursionLimitExceeded);
    let message = if nested { too_deep() } else { error.info() };
    Flaw { at, message }
}

fn too_deep() -> String {
    format!("nested too deeply: at most {JSON_DEPTH_MAX} levels are allowed")
}

#[derive(Default)]
struct Builder {
    documents: Vec<Document>,
    /// The lists and maps that are not finished, the innermost last.
    open: Vec<Open>,
    /// Finished values that aliases may repeat, by the id of their anchor.
    anchors: HashMap<usize, Anchored>,
    cost: Cost,
}

struct Open {
    at: Position,
    anchor: usize,
    content: Content,
}

enum Content {
    List { items: Vec<Value>, places: Vec<Place> },
    Map { entries: Map<String, Value>, places: Vec<(String, Place)>, key: Option<Key> },
}

struct Key {
    name: String,
    at: Position,
}

#[derive(Clone)]
struct Anchored {
    value: Value,
    place: Place,
    cost: Cost,
}

/// What values cost in memory; aliases cost what they repeat.
#[derive(Clone, Copy, Default)]
struct Cost {
    nodes: usize,
    bytes: usize,
}

impl Cost {
    fn of(value: &Value) -> Self {
        let mut cost = Self { nodes: 1, bytes: 0 };
        match value {
            Value::String(text) => cost.bytes = text.len(),
            Value::Array(items) => items.iter().for_each(|item| cost.add(Self::of(item))),
            Value::Object(entries) => entries.iter().for_each(|(key, value)| {
                cost.bytes += key.len();
                cost.add(Self::of(value));
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        cost
    }

    fn add(&mut self, other: Self) {
        self.nodes = self.nodes.saturating_add(other.nodes);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Builder {
    fn event(&mut self, event: Event<'_>, span: &Span) -> Result<(), Flaw> {
        let at = Position { line: span.start.line(), column: span.start.col() + 1 };
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(&text, style, anchor, tag.as_deref(), at)
            }
            Event::SequenceStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), "seq", at)?;
                let content = Content::List { items: Vec::new(), places: Vec::new() };
                self.open(Open { at, anchor, content })
            }
            Event::MappingStart(_, anchor, tag) => {
                check_tag(tag.as_deref(), "map", at)?;
                let (entries, places) = (Map::new(), Vec::new());
                self.open(Open { at, anchor, content: Content::Map { entries, places, key: None } })
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => self.alias(id, at),
            Event::DocumentEnd => {
                self.anchors.clear();
                Ok(())
            }
            // These hold no values; those that are off by default never come.
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::Comment(..)
            | Event::Anchor(..)
            | Event::UnresolvedAlias(_)
            | _ => Ok(()),
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
        at: Position,
    ) -> Result<(), Flaw> {
        let flaw = |message| Flaw { at, message };
        if self.awaits_key() {
            if anchor != 0 {
                let (value, cost) =
                    (Value::String(text.to_owned()), Cost { nodes: 1, bytes: text.len() });
                let place = Place { at, inside: Inside::Nothing };
                self.anchors.insert(anchor, Anchored { value, place, cost });
            }
            return self.key(text, style, at);
        }
        let value = match (tag, style) {
            (Some(tag), _) => match tag.core_suffix() {
                Some(suffix) => scalar::tagged(suffix, text).map_err(flaw)?,
                None => return Err(flaw(unsupported_tag(tag))),
            },
            (None, ScalarStyle::Plain) => scalar::plain(text).map_err(flaw)?,
            (None, _) => Value::String(text.to_owned()),
        };
        self.spend(Cost::of(&value), at)?;
        self.finish(value, Place { at, inside: Inside::Nothing }, anchor, at)
    }

    fn awaits_key(&self) -> bool {
        matches!(self.open.last(), Some(Open { content: Content::Map { key: None, .. }, .. }))
    }

    fn key(&mut self, text: &str, style: ScalarStyle, at: Position) -> Result<(), Flaw> {
        let flaw = |message: String| Err(Flaw { at, message });
        let plain = style == ScalarStyle::Plain;
        if plain && text == "<<" {
            return flaw("merge keys (<<) are not supported: write the fields out".to_owned());
        }
        // The parser shows a key that is left out as the plain null.
        if plain && matches!(text, "" | "~") {
            return flaw("a key is missing before ':'".to_owned());
        }
        let Some(Open { content: Content::Map { entries, places, key }, .. }) =
            self.open.last_mut()
        else {
            return Ok(());
        };
        if entries.contains_key(text) {
            let first = places.iter().find(|(name, _)| name == text);
            let line = first.map_or(at.line, |(_, place)| place.at.line);
            return flaw(format!("key {text:?} is written twice, first on line {line}"));
        }
        *key = Some(Key { name: text.to_owned(), at });
        self.spend(Cost { nodes: 0, bytes: text.len() }, at)
    }

    fn open(&mut self, open: Open) -> Result<(), Flaw> {
        let at = open.at;
        if self.awaits_key() {
            return Err(Flaw { at, message: "a key must be plain text".to_owned() });
        }
        if JSON_DEPTH_MAX <= self.open.len() {
            return Err(Flaw { at, message: too_deep() });
        }
        self.spend(Cost { nodes: 1, bytes: 0 }, at)?;
        self.open.push(open);
        Ok(())
    }

    fn close(&mut self) -> Result<(), Flaw> {
        let Some(Open { at, anchor, content }) = self.open.pop() else { return Ok(()) };
        let (value, inside) = match content {
            Content::List { items, places } => (Value::Array(items), Inside::List(places)),
            Content::Map { entries, places, .. } => (Value::Object(entries), Inside::Map(places)),
        };
        self.finish(value, Place { at, inside }, anchor, at)
    }

    /// Puts a finished value where it belongs: into what is open, or as a document of its own.
    fn finish(
        &mut self,
        value: Value,
        mut place: Place,
        anchor: usize,
        at: Position,
    ) -> Result<(), Flaw> {
        if anchor != 0 {
            let (value, place) = (value.clone(), place.clone());
            let cost = Cost::of(&value);
            self.spend(cost, at)?;
            self.anchors.insert(anchor, Anchored { value, place, cost });
        }
        match self.open.last_mut().map(|open| &mut open.content) {
            None if value.is_null() => {}
            None => self.documents.push(Document { value, place }),
            Some(Content::List { items, places }) => {
                items.push(value);
                places.push(place);
            }
            Some(Content::Map { entries, places, key }) => {
                if let Some(Key { name, at }) = mem::take(key) {
                    place.at = at;
                    entries.insert(name.clone(), value);
                    places.push((name, place));
                }
            }
        }
        Ok(())
    }

    fn alias(&mut self, id: usize, at: Position) -> Result<(), Flaw> {
        let flaw = |message: &str| Flaw { at, message: message.to_owned() };
        let found = self.anchors.get(&id).cloned();
        let anchored = found.ok_or_else(|| flaw("an alias stands inside the value it repeats"))?;
        if self.awaits_key() {
            let text = anchored.value.as_str().ok_or_else(|| flaw("a key must be plain text"))?;
            return self.key(text, ScalarStyle::DoubleQuoted, at);
        }
        if JSON_DEPTH_MAX < self.open.len() + depth_of(&anchored.value) {
            return Err(flaw("aliases nest values too deeply"));
        }
        self.spend(anchored.cost, at)?;
        self.finish(anchored.value, anchored.place, 0, at)
    }

    fn spend(&mut self, cost: Cost, at: Position) -> Result<(), Flaw> {
        self.cost.add(cost);
        if NODES_MAX < self.cost.nodes || 2 * FILE_BYTES_MAX < self.cost.bytes {
            let message = "too many values, those counted that aliases repeat".to_owned();
            return Err(Flaw { at, message });
        }
        Ok(())
    }
}

fn depth_of(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth_of).max().unwrap_or(0),
        Value::Object(entries) => 1 + entries.values().map(depth_of).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

fn check_tag(tag: Option<&Tag>, allowed: &str, at: Position) -> Result<(), Flaw> {
    match tag {
        Some(tag) if tag.core_suffix() != Some(allowed) => {
            Err(Flaw { at, message: unsupported_tag(tag) })
        }
        Some(_) | None => Ok(()),
    }
}

fn unsupported_tag(tag: &Tag) -> String {
    format!("tag {} is not supported: write plain values", tag.original())
}
