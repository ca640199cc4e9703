//! What operators decide about running a server; everything has a default.
use crate::audit::AuditOptions;
use crate::limits::Limits;
use crate::sealing::KeySource;
use crate::upstream::UpstreamOptions;
use orrery_gitsync::GitOptions;
use orrery_machines::controller::orphans::OrphanTiming;

/// On which threads connections are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionThreads {
    /// As many threads of their own as there are processors.
    #[default]
    Own,
    /// Those of the runtime that runs the server: for a program that wants no more threads, or has its own time.
    Server,
}

#[derive(Clone, Debug, Default)]
pub struct Operations {
    /// Where the key comes from that secrets are sealed with.
    pub key: KeySource,
    /// Where it is written down who asked for what; nowhere when absent.
    pub audit: Option<AuditOptions>,
    /// What one peer, and all together, may ask for.
    pub limits: Limits,
    /// When machines that only their provider knows are taken away.
    pub orphans: OrphanTiming,
    /// Where repositories are copied to, and which are taken.
    pub git: GitOptions,
    pub threads: ConnectionThreads,
    /// Which kinds other services keep.
    pub upstreams: UpstreamOptions,
}
