//! A view in which clusters that are gone are still there.
use super::View;
use super::kind::Kind;
use super::resource::Resource;
use std::collections::BTreeMap;
use std::sync::Arc;

pub struct Holding<'a> {
    pub view: &'a dyn View,
    pub held: &'a BTreeMap<Arc<str>, Arc<Resource>>,
    /// The client has endpoints that were not sent on this stream.
    pub has_earlier: bool,
}

impl View for Holding<'_> {
    fn get(&self, kind: Kind, name: &str) -> Option<Arc<Resource>> {
        let held = || (kind == Kind::Cluster).then(|| self.held.get(name).cloned()).flatten();
        self.view.get(kind, name).or_else(held)
    }

    fn names(&self, kind: Kind) -> Vec<Arc<str>> {
        let mut names = self.view.names(kind);
        if kind == Kind::Cluster {
            names.extend(self.held.keys().cloned());
        }
        names
    }

    /// The endpoints of what is held stay as the client has them. One that went before it had any gets them:
    /// the client would wait.
    fn is_kept(&self, kind: Kind, name: &str, was_sent: bool) -> bool {
        let has_some = was_sent || self.has_earlier;
        kind == Kind::Endpoints && has_some && self.held.contains_key(name)
    }

    fn has_endpoints(&self, cluster: &str) -> bool {
        self.view.has_endpoints(cluster)
    }

    fn stand_in(&self, cluster: &str) -> Option<Arc<Resource>> {
        self.view.stand_in(cluster)
    }
}
