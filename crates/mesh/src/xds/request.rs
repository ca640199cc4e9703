//! What a client says, in the words of neither variant of the protocol.

/// The two variants of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    StateOfTheWorld,
    Delta,
}

/// A request in the words of either variant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// State of the world: all names, every time. Delta: names to add.
    pub names: Vec<String>,
    /// Delta only: names to take away.
    pub unsubscribe: Vec<String>,
    /// Delta only, on the first request: what the client still holds from an earlier stream.
    pub held: Vec<(String, u64)>,
    /// State of the world only: the version of what the client accepted last, be it on an earlier stream.
    pub version: Option<u64>,
    /// The answer this request speaks of; empty if it speaks of none.
    pub nonce: String,
    /// Why the client refused that answer, in its own words.
    pub error: Option<String>,
}
