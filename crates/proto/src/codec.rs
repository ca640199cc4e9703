//! How messages of our own services get their buffers.
use prost::Message;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::{ProstCodec, ProstDecoder};

/// What a buffer begins with; it grows to what is in it. A stream that waits keeps two of them, and a server has
/// thousands of those.
const BEGIN_BYTES: usize = 64;
/// Messages that are ready go out together up to this.
const TOGETHER_BYTES: usize = 32 << 10;

fn buffers() -> BufferSettings {
    BufferSettings::new(BEGIN_BYTES, TOGETHER_BYTES)
}

/// Protobuf as everywhere, in buffers that begin small and grow with what is in them.
#[derive(Clone, Debug)]
pub struct Frugal<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Frugal<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for Frugal<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = FrugalEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        FrugalEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(buffers())
    }
}

/// Makes room for a whole message at once: a buffer that begins small would grow many times otherwise.
#[derive(Clone, Debug)]
pub struct FrugalEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for FrugalEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.encoded_len());
        message.encode_raw(buffer);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers()
    }
}
