//! What becomes of clusters, and what is said of them: pure.
pub mod addons;
pub mod pools;
pub mod providers;
pub mod status;
pub mod teardown;

pub use state::State;

/// How far a part of a cluster is.
mod state {
    /// From what is done to what somebody has to look at.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum State {
        Ready,
        /// On its way; nobody has to do anything.
        Progressing,
        /// It waits for the addons before it.
        Waiting,
        /// It is being taken away.
        Removing,
        /// Somebody has to act.
        Failing,
    }

    impl State {
        /// As it is published.
        pub fn as_str(self) -> &'static str {
            match self {
                Self::Ready => "Ready",
                Self::Progressing => "Progressing",
                Self::Waiting => "Waiting",
                Self::Removing => "Removing",
                Self::Failing => "Failing",
            }
        }
    }
}
