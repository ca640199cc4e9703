//! How messages of our own services get their buffers.
use prost::Message;
use std::marker::PhantomData;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

/// What a buffer begins with. Most messages are smaller; a stream that waits keeps two of them, and a server
/// has thousands of those.
const BEGIN_BYTES: usize = 1 << 10;
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
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(buffers())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(buffers())
    }
}
