//! gRPC at the least cost to the processors that the servers need too.
//!
//! ```text
//!   Wire: unary calls ──┐
//!                       ├──> Connection: frames as bytes ──> server
//!   Talk: one stream ───┘
//! ```
//! A library for HTTP/2 takes more for a call than some of the servers that are measured. So frames are
//! written and read as bytes here, as far as a client that sends the same head every time has to know
//! them. What comes back in heads is not decoded: a call has succeeded if a whole message came and then
//! the end of the stream in trailers, because an answer of gRPC that fails has no message. Statuses in
//! words are what [`crate::grpc`] is for, which is to be asked once before.
mod calls;
mod connection;
mod talk;

pub use calls::Wire;
pub use talk::Talk;

/// What is called, the same for all calls of a connection.
pub struct Target<'a> {
    pub scheme: &'a str,
    pub authority: &'a str,
    pub path: &'a str,
    pub metadata: &'a [(&'a str, &'a str)],
}

impl Target<'_> {
    /// As HPACK has it, every field by itself, so that all heads are the same bytes.
    fn encoded(&self) -> anyhow::Result<Vec<u8>> {
        let mut head = Vec::new();
        let pairs = [
            (":method", "POST"),
            (":scheme", self.scheme),
            (":path", self.path),
            (":authority", self.authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        for (name, value) in pairs.iter().chain(self.metadata) {
            head.push(0);
            for text in [name, value] {
                anyhow::ensure!(text.len() < 127, "{text}: a longer one needs another encoding");
                head.push(u8::try_from(text.len())?);
                head.extend_from_slice(text.as_bytes());
            }
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests;
