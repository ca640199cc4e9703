//! Answers written around shared bytes.
use super::wire::WireRequest;
use crate::xds::{Protocol, Push, Resource};
use prost::bytes::{Buf as _, BufMut};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint};
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Field numbers that `DiscoveryResponse` and `DeltaDiscoveryResponse` have in common.
mod field {
    pub const VERSION: u32 = 1;
    pub const RESOURCES: u32 = 2;
    pub const TYPE_URL: u32 = 4;
    pub const NONCE: u32 = 5;
    /// Of the delta answer only.
    pub const REMOVED: u32 = 6;
}

/// Field numbers of the delta protocol's `Resource`.
mod resource_field {
    pub const VERSION: u32 = 1;
    pub const RESOURCE: u32 = 2;
    pub const NAME: u32 = 3;
}

/// One answer on its way out.
#[derive(Clone, Debug)]
pub struct Frame {
    pub protocol: Protocol,
    pub push: Push,
}

impl Frame {
    /// Writes the message. Each resource is copied once, from the bytes that all streams share.
    pub fn write(&self, out: &mut impl BufMut) {
        let Push { kind, version, nonce, resources, removed, .. } = &self.push;
        text(field::VERSION, &version_text(*version), out);
        for resource in resources {
            match self.protocol {
                Protocol::StateOfTheWorld => any(field::RESOURCES, resource, out),
                Protocol::Delta => delta_resource(resource, out),
            }
        }
        text(field::TYPE_URL, kind.type_url(), out);
        text(field::NONCE, &nonce.to_string(), out);
        removed.iter().for_each(|name| text(field::REMOVED, name, out));
    }
}

/// Versions are shown as fixed-width hexadecimal everywhere.
pub fn version_text(version: u64) -> String {
    format!("{version:016x}")
}

fn text(tag: u32, value: &str, out: &mut impl BufMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(value.len() as u64, out);
    out.put_slice(value.as_bytes());
}

fn text_len(value: &str) -> usize {
    1 + encoded_len_varint(value.len() as u64) + value.len()
}

fn any(tag: u32, resource: &Resource, out: &mut impl BufMut) {
    encode_key(tag, WireType::LengthDelimited, out);
    encode_varint(resource.any.len() as u64, out);
    out.put_slice(&resource.any);
}

fn delta_resource(resource: &Resource, out: &mut impl BufMut) {
    let version = version_text(resource.version);
    let len = text_len(&version) + text_len(&resource.name) + resource.field_len();
    encode_key(field::RESOURCES, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
    text(resource_field::VERSION, &version, out);
    any(resource_field::RESOURCE, resource, out);
    text(resource_field::NAME, &resource.name, out);
}

/// Frames out, requests of one protocol variant in.
pub struct XdsCodec<R>(PhantomData<fn() -> R>);

impl<R> Default for XdsCodec<R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<R: WireRequest> Codec for XdsCodec<R> {
    type Encode = Frame;
    type Decode = R;
    type Encoder = FrameEncoder;
    type Decoder = RequestDecoder<R>;

    fn encoder(&mut self) -> FrameEncoder {
        FrameEncoder
    }

    fn decoder(&mut self) -> RequestDecoder<R> {
        RequestDecoder(PhantomData)
    }
}

pub struct FrameEncoder;

impl Encoder for FrameEncoder {
    type Item = Frame;
    type Error = Status;

    fn encode(&mut self, frame: Frame, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let resources = frame.push.resources.iter().map(|one| one.any.len() + one.name.len() + 64);
        out.reserve(resources.sum::<usize>() + 256);
        frame.write(out);
        Ok(())
    }
}

pub struct RequestDecoder<R>(PhantomData<fn() -> R>);

impl<R: WireRequest> Decoder for RequestDecoder<R> {
    type Item = R;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<R>, Status> {
        let body = bytes.copy_to_bytes(bytes.remaining());
        let broken =
            |error| Status::invalid_argument(format!("the request cannot be read: {error}"));
        R::decode(body).map(Some).map_err(broken)
    }
}
