//! One half of a stream, passed on frame by frame: a caller's to its controller, and the answer back.
use super::Reset;
use bytes::Bytes;
use h2::SendStream;
use http_body::Body;
use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

/// Takes a frame when the other side has room for one, until either of them ends the stream.
pub struct Pass<B> {
    body: B,
    stream: SendStream<Bytes>,
}

/// Nothing more is to be sent.
struct Ended;

impl<B: Body<Data = Bytes, Error = Reset> + Unpin> Pass<B> {
    pub fn new(body: B, stream: SendStream<Bytes>) -> Self {
        Self { body, stream }
    }

    /// Ready when there is room for a frame.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        self.stream.reserve_capacity(1);
        while self.stream.capacity() == 0 {
            match ready!(self.stream.poll_capacity(context)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(Ended)),
            }
        }
        // With room, only this tells of a side that hears no more.
        match self.stream.poll_reset(context) {
            Poll::Ready(_) => Poll::Ready(Err(Ended)),
            Poll::Pending => Poll::Ready(Ok(())),
        }
    }

    /// Passes one frame on.
    fn poll_pass(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Ended>> {
        ready!(self.poll_room(context))?;
        let frame = match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(reset)) => {
                self.stream.send_reset(reset.reason());
                return Poll::Ready(Err(Ended));
            }
            None => return Poll::Ready(self.last(Bytes::new())),
        };
        Poll::Ready(match frame.into_data() {
            Ok(data) if self.body.is_end_stream() => self.last(data),
            Ok(data) => self.stream.send_data(data, false).map_err(|_| Ended),
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    self.stream.reserve_capacity(0);
                    // A stream that takes no trailers has ended already.
                    let _ended = self.stream.send_trailers(trailers);
                }
                Err(Ended)
            }
        })
    }

    fn last(&mut self, data: Bytes) -> Result<(), Ended> {
        if data.is_empty() {
            self.stream.reserve_capacity(0);
        }
        // A stream that takes no data has ended already.
        let _ended = self.stream.send_data(data, true);
        Err(Ended)
    }
}

impl<B: Body<Data = Bytes, Error = Reset> + Unpin> Future for Pass<B> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        while ready!(self.poll_pass(context)).is_ok() {}
        Poll::Ready(())
    }
}
