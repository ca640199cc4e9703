//! Values as msgpack, read beside their type.
use super::{Number, Refinement, Type, TypeError, Value};
use rmp::Marker;
use rmp::decode::{RmpRead as _, read_marker};
use rmp::encode as write;
use std::collections::BTreeMap;

/// The largest message between host and provider.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Deepest nesting of a value. The deepest kind needs about ten levels, and opaque data has its own limit.
pub const DEPTH_MAX: usize = 128;

/// What an unknown value is to msgpack, and one of which something is known.
const UNKNOWN: i8 = 0;
const REFINED: i8 = 12;

/// Bytes that are no value of their type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("a value ends too early")]
    Short,
    #[error("a value is followed by {0} bytes more")]
    Rest(usize),
    #[error("a value is nested too deeply: at most {DEPTH_MAX} levels are read")]
    Deep,
    #[error("a value is of another type than its schema says: found {found} for {expected}")]
    Mismatch { found: &'static str, expected: &'static str },
    #[error("a text is not UTF-8")]
    Text,
    #[error("a number cannot be read")]
    Number,
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// Reads one value of a type.
pub fn decode(bytes: &[u8], r#type: &Type) -> Result<Value, DecodeError> {
    let mut reader = Reader { rest: bytes };
    let value = reader.value(r#type, DEPTH_MAX)?;
    match reader.rest.len() {
        0 => Ok(value),
        rest => Err(DecodeError::Rest(rest)),
    }
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, r#type: &Type, depth: usize) -> Result<Value, DecodeError> {
        let depth = depth.checked_sub(1).ok_or(DecodeError::Deep)?;
        let marker = read_marker(&mut self.rest).map_err(|_| DecodeError::Short)?;
        match marker {
            Marker::Null => return Ok(Value::Null),
            Marker::FixExt1 => return self.extension(1),
            Marker::FixExt2 => return self.extension(2),
            Marker::FixExt4 => return self.extension(4),
            Marker::FixExt8 => return self.extension(8),
            Marker::FixExt16 => return self.extension(16),
            Marker::Ext8 => return self.length8().and_then(|size| self.extension(size)),
            Marker::Ext16 => return self.length16().and_then(|size| self.extension(size)),
            Marker::Ext32 => return self.length32().and_then(|size| self.extension(size)),
            _ => {}
        }
        match r#type {
            Type::Dynamic => self.dynamic(marker, depth),
            Type::Bool => match marker {
                Marker::True => Ok(Value::Bool(true)),
                Marker::False => Ok(Value::Bool(false)),
                _ => Err(mismatch(marker, "true or false")),
            },
            Type::String => Ok(Value::String(self.text(marker, "text")?)),
            Type::Number => self.number(marker).map(Value::Number),
            Type::List(item) => Ok(Value::List(self.items(marker, item, depth)?)),
            Type::Set(item) => Ok(Value::set(self.items(marker, item, depth)?)),
            Type::Tuple(types) => self.tuple(marker, types, depth),
            Type::Map(value) => self.entries(marker, |_| Some(&**value), depth),
            Type::Object(attributes) => self.entries(marker, |name| attributes.get(name), depth),
        }
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self.rest.split_at_checked(size).ok_or(DecodeError::Short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn length8(&mut self) -> Result<usize, DecodeError> {
        self.rest.read_data_u8().map(usize::from).map_err(|_| DecodeError::Short)
    }

    fn length16(&mut self) -> Result<usize, DecodeError> {
        self.rest.read_data_u16().map(usize::from).map_err(|_| DecodeError::Short)
    }

    fn length32(&mut self) -> Result<usize, DecodeError> {
        let size = self.rest.read_data_u32().map_err(|_| DecodeError::Short)?;
        usize::try_from(size).map_err(|_| DecodeError::Short)
    }

    /// Every extension stands for something that is not known.
    fn extension(&mut self, size: usize) -> Result<Value, DecodeError> {
        let kind = self.rest.read_data_i8().map_err(|_| DecodeError::Short)?;
        let bytes = self.take(size)?;
        Ok(Value::Unknown(match kind {
            REFINED => Refinement(bytes.to_vec()),
            _ => Refinement::default(),
        }))
    }

    fn text(&mut self, marker: Marker, expected: &'static str) -> Result<String, DecodeError> {
        let bytes = self.bytes(marker, expected)?;
        String::from_utf8(bytes.to_vec()).map_err(|_| DecodeError::Text)
    }

    fn bytes(&mut self, marker: Marker, expected: &'static str) -> Result<&'a [u8], DecodeError> {
        let size = match marker {
            Marker::FixStr(size) => size.into(),
            Marker::Str8 | Marker::Bin8 => self.length8()?,
            Marker::Str16 | Marker::Bin16 => self.length16()?,
            Marker::Str32 | Marker::Bin32 => self.length32()?,
            _ => return Err(mismatch(marker, expected)),
        };
        self.take(size)
    }

    fn number(&mut self, marker: Marker) -> Result<Number, DecodeError> {
        let short = |_| DecodeError::Short;
        let rest = &mut self.rest;
        Ok(match marker {
            Marker::FixPos(value) => Number::Integer(value.into()),
            Marker::FixNeg(value) => Number::Integer(value.into()),
            Marker::U8 => Number::Integer(rest.read_data_u8().map_err(short)?.into()),
            Marker::U16 => Number::Integer(rest.read_data_u16().map_err(short)?.into()),
            Marker::U32 => Number::Integer(rest.read_data_u32().map_err(short)?.into()),
            Marker::U64 => Number::Integer(rest.read_data_u64().map_err(short)?.into()),
            Marker::I8 => Number::Integer(rest.read_data_i8().map_err(short)?.into()),
            Marker::I16 => Number::Integer(rest.read_data_i16().map_err(short)?.into()),
            Marker::I32 => Number::Integer(rest.read_data_i32().map_err(short)?.into()),
            Marker::I64 => Number::Integer(rest.read_data_i64().map_err(short)?.into()),
            Marker::F32 => finite(rest.read_data_f32().map_err(short)?.into())?,
            Marker::F64 => finite(rest.read_data_f64().map_err(short)?)?,
            other => {
                let text = self.text(other, "a number")?;
                Number::parse(&text).ok_or(DecodeError::Number)?
            }
        })
    }

    fn array(&mut self, marker: Marker) -> Result<usize, DecodeError> {
        match marker {
            Marker::FixArray(size) => Ok(size.into()),
            Marker::Array16 => self.length16(),
            Marker::Array32 => self.length32(),
            _ => Err(mismatch(marker, "a list")),
        }
    }

    /// Nothing is set aside for items before they are there: a length is only a claim.
    fn items(
        &mut self,
        marker: Marker,
        item: &Type,
        depth: usize,
    ) -> Result<Vec<Value>, DecodeError> {
        let count = self.array(marker)?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.value(item, depth)?);
        }
        Ok(items)
    }

    fn tuple(
        &mut self,
        marker: Marker,
        types: &[Type],
        depth: usize,
    ) -> Result<Value, DecodeError> {
        if self.array(marker)? != types.len() {
            return Err(DecodeError::Mismatch { found: "another length", expected: "a tuple" });
        }
        types
            .iter()
            .map(|r#type| self.value(r#type, depth))
            .collect::<Result<_, _>>()
            .map(Value::List)
    }

    fn entries<'t>(
        &mut self,
        marker: Marker,
        type_of: impl Fn(&str) -> Option<&'t Type>,
        depth: usize,
    ) -> Result<Value, DecodeError> {
        let count = match marker {
            Marker::FixMap(size) => size.into(),
            Marker::Map16 => self.length16()?,
            Marker::Map32 => self.length32()?,
            _ => return Err(mismatch(marker, "an object")),
        };
        let mut entries = BTreeMap::new();
        for _ in 0..count {
            let marker = read_marker(&mut self.rest).map_err(|_| DecodeError::Short)?;
            let name = self.text(marker, "the name of an attribute")?;
            let expected = "attributes of the schema";
            let Some(r#type) = type_of(&name) else {
                return Err(DecodeError::Mismatch { found: "another attribute", expected });
            };
            let value = self.value(r#type, depth)?;
            entries.insert(name, value);
        }
        Ok(Value::Map(entries))
    }

    /// A pair: the JSON of a type, and a value of that type.
    fn dynamic(&mut self, marker: Marker, depth: usize) -> Result<Value, DecodeError> {
        if self.array(marker)? != 2 {
            return Err(DecodeError::Mismatch {
                found: "another length",
                expected: "type and value",
            });
        }
        let marker = read_marker(&mut self.rest).map_err(|_| DecodeError::Short)?;
        let r#type = Type::parse(self.bytes(marker, "a type")?)?;
        let value = self.value(&r#type, depth)?;
        Ok(Value::Dynamic(Box::new((r#type, value))))
    }
}

fn finite(number: f64) -> Result<Number, DecodeError> {
    if number.is_finite() { Ok(Number::float(number)) } else { Err(DecodeError::Number) }
}

fn mismatch(marker: Marker, expected: &'static str) -> DecodeError {
    let found = match marker {
        Marker::True | Marker::False => "true or false",
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 | Marker::Str32 => "text",
        Marker::Bin8 | Marker::Bin16 | Marker::Bin32 => "bytes",
        Marker::FixArray(_) | Marker::Array16 | Marker::Array32 => "a list",
        Marker::FixMap(_) | Marker::Map16 | Marker::Map32 => "an object",
        _ => "a number",
    };
    DecodeError::Mismatch { found, expected }
}

/// Writes a value.
pub fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, value);
    bytes
}

/// Memory takes all that is written to it, and no length here comes near 32 bits.
const NEVER_FAILS: &str = "memory takes all that is written";

fn put(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => write::write_nil(out).expect(NEVER_FAILS),
        Value::Unknown(Refinement(known)) if known.is_empty() => {
            write::write_ext_meta(out, 1, UNKNOWN).expect(NEVER_FAILS);
            out.push(0);
        }
        Value::Unknown(Refinement(known)) => {
            write::write_ext_meta(out, length(known.len()), REFINED).expect(NEVER_FAILS);
            out.extend_from_slice(known);
        }
        Value::Bool(value) => write::write_bool(out, *value).expect(NEVER_FAILS),
        Value::Number(number) => put_number(out, number),
        Value::String(text) => write::write_str(out, text).expect(NEVER_FAILS),
        Value::List(items) => {
            write::write_array_len(out, length(items.len())).expect(NEVER_FAILS);
            items.iter().for_each(|item| put(out, item));
        }
        Value::Map(entries) => {
            write::write_map_len(out, length(entries.len())).expect(NEVER_FAILS);
            for (name, value) in entries {
                write::write_str(out, name).expect(NEVER_FAILS);
                put(out, value);
            }
        }
        Value::Dynamic(inner) => {
            let (r#type, value) = &**inner;
            write::write_array_len(out, 2).expect(NEVER_FAILS);
            write::write_bin(out, r#type.to_json().to_string().as_bytes()).expect(NEVER_FAILS);
            put(out, value);
        }
    }
}

fn put_number(out: &mut Vec<u8>, number: &Number) {
    match number {
        Number::Integer(integer) => match (i64::try_from(*integer), u64::try_from(*integer)) {
            (Ok(small), _) => drop(write::write_sint(out, small).expect(NEVER_FAILS)),
            (Err(_), Ok(large)) => drop(write::write_uint(out, large).expect(NEVER_FAILS)),
            (Err(_), Err(_)) => write::write_str(out, &integer.to_string()).expect(NEVER_FAILS),
        },
        Number::Float(float) => write::write_f64(out, *float).expect(NEVER_FAILS),
        Number::Text(text) => write::write_str(out, text).expect(NEVER_FAILS),
    }
}

fn length(size: usize) -> u32 {
    u32::try_from(size).expect("messages end long before 32 bits do")
}
