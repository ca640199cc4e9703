//! What a message of a kind holds, as a tree that keeps the fields it does not know.
//!
//! A record does not know its own type: whoever walks it does so beside the schema, which says what each number
//! means. So reading, copying and dropping one touches nothing that other threads touch too.
mod decode;
mod encode;
mod scalar;
mod value;
mod well_known;

use prost::bytes::Bytes;

pub use decode::Malformed;
pub(crate) use decode::decode;
pub use encode::within;
pub(crate) use encode::{encode, encode_to};
pub use value::{Key, Map, Value};

/// The fields of one message, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    fields: Vec<(u32, Value)>,
    /// Hardly any message has some.
    unknown: Option<Box<Unknown>>,
}

/// Whole fields that the schema does not have, in the order of their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
struct Unknown(Vec<(u32, Bytes)>);

impl Record {
    pub const fn new() -> Self {
        Self { fields: Vec::new(), unknown: None }
    }

    /// The value of a field that is present. Lists and maps without anything in them are absent.
    pub fn get(&self, number: u32) -> Option<&Value> {
        let place = self.place(number).ok()?;
        Some(&self.fields[place].1).filter(|value| !value.is_nothing())
    }

    /// The same, to change it.
    pub fn get_mut(&mut self, number: u32) -> Option<&mut Value> {
        let place = self.place(number).ok()?;
        Some(&mut self.fields[place].1).filter(|value| !value.is_nothing())
    }

    pub fn has(&self, number: u32) -> bool {
        self.get(number).is_some()
    }

    /// The message in a field, when it is present.
    pub fn record(&self, number: u32) -> Option<&Self> {
        self.get(number)?.as_record()
    }

    /// The message in a field, which is there afterwards.
    pub fn record_mut(&mut self, number: u32) -> &mut Self {
        let value = self.at(number, || Value::Record(Self::new()));
        if value.as_record().is_none() {
            *value = Value::Record(Self::new());
        }
        match value {
            Value::Record(record) => record,
            _ => unreachable!("it has just been made one"),
        }
    }

    /// The list in a field, which is there afterwards.
    pub fn list_mut(&mut self, number: u32) -> &mut Vec<Value> {
        let value = self.at(number, || Value::List(Vec::new()));
        if value.as_list().is_none() {
            *value = Value::List(Vec::new());
        }
        match value {
            Value::List(items) => items,
            _ => unreachable!("it has just been made one"),
        }
    }

    /// The text of a field; nothing where it is absent.
    pub fn text(&self, number: u32) -> &str {
        self.get(number).and_then(Value::as_str).unwrap_or_default()
    }

    /// Sets a field as it is. Who sets fields of any kind does so by [`crate::MessageSchema::set`], which knows what
    /// is no value, and which fields exclude each other.
    pub fn put(&mut self, number: u32, value: Value) {
        match self.place(number) {
            Ok(place) => self.fields[place].1 = value,
            Err(place) => self.fields.insert(place, (number, value)),
        }
    }

    pub fn clear(&mut self, number: u32) {
        drop(self.take(number));
    }

    /// Takes a field out.
    pub fn take(&mut self, number: u32) -> Option<Value> {
        self.place(number).ok().map(|place| self.fields.remove(place).1)
    }

    /// The fields that are present.
    pub fn fields(&self) -> impl Iterator<Item = (u32, &Value)> {
        let present = self.fields.iter().filter(|(_, value)| !value.is_nothing());
        present.map(|(number, value)| (*number, value))
    }

    /// Whole fields that are not known.
    pub fn unknown(&self) -> impl Iterator<Item = &Bytes> {
        self.unknown.iter().flat_map(|unknown| &unknown.0).map(|(_, whole)| whole)
    }

    pub fn has_unknown(&self) -> bool {
        self.unknown.is_some()
    }

    /// Whether both hold the same fields that nobody here knows.
    pub fn same_unknown(&self, other: &Self) -> bool {
        self.unknown == other.unknown
    }

    /// Says whether it came in order.
    fn add_unknown(&mut self, number: u32, whole: &[u8]) -> bool {
        let Unknown(held) = &mut **self.unknown.get_or_insert_default();
        let in_order = held.last().is_none_or(|(last, _)| *last <= number);
        held.push((number, Bytes::copy_from_slice(whole)));
        in_order
    }

    /// Brings what was added into order, here and below. There may be very many, in any order and in any number of
    /// parts: it is done once, for all of them.
    fn order_unknown(&mut self) {
        if let Some(unknown) = &mut self.unknown {
            unknown.0.sort_by_key(|(number, _)| *number);
        }
        self.fields.iter_mut().for_each(|(_, value)| value.order_unknown());
    }

    fn at(&mut self, number: u32, make: impl FnOnce() -> Value) -> &mut Value {
        let place = self.place(number).unwrap_or_else(|place| {
            self.fields.insert(place, (number, make()));
            place
        });
        &mut self.fields[place].1
    }

    /// Where a field is, or would be.
    fn place(&self, number: u32) -> Result<usize, usize> {
        // Nearly all messages are read and made in this order.
        match self.fields.last() {
            None => Err(0),
            Some((last, _)) if *last < number => Err(self.fields.len()),
            Some(_) => self.fields.binary_search_by_key(&number, |(held, _)| *held),
        }
    }
}
