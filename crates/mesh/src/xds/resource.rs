//! One resource, encoded once.
use super::kind::Kind;
use bytes::{BufMut as _, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The body of a `google.protobuf.Any`, shared by every stream it goes out on, and a version made of
/// its bytes: the same content has the same version on every replica and after every restart.
#[derive(Clone, PartialEq, Eq)]
pub struct Resource {
    pub name: Arc<str>,
    pub version: u64,
    pub any: Bytes,
}

impl Resource {
    /// The message must carry the name in itself, as all xDS resources do; so two resources of
    /// different names never have the same bytes.
    pub fn encode(kind: Kind, name: Arc<str>, message: &impl Message) -> Self {
        Self::write(kind, name, message.encoded_len(), |any| message.encode_raw(any))
    }

    /// Of parts of the message that are encoded already.
    pub fn join(kind: Kind, name: Arc<str>, parts: &[&Bytes]) -> Self {
        let len = parts.iter().map(|part| part.len()).sum();
        Self::write(kind, name, len, |any| parts.iter().for_each(|part| any.put_slice(part)))
    }

    fn write(kind: Kind, name: Arc<str>, len: usize, value: impl FnOnce(&mut BytesMut)) -> Self {
        let url = kind.type_url();
        let mut any = BytesMut::with_capacity(url.len() + len + 16);
        encode_key(1, WireType::LengthDelimited, &mut any);
        encode_varint(url.len() as u64, &mut any);
        any.put_slice(url.as_bytes());
        encode_key(2, WireType::LengthDelimited, &mut any);
        encode_varint(len as u64, &mut any);
        value(&mut any);
        let any = any.freeze();
        Self { name, version: xxh3_64(&any), any }
    }

    /// What it takes as a length-delimited field with a one-byte key.
    pub fn field_len(&self) -> usize {
        1 + encoded_len_varint(self.any.len() as u64) + self.any.len()
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{:016x}", self.name, self.version)
    }
}
