//! Where the agent of a node is connected.
use crate::fleet::Fleet;
use orrery_hub::{Error, ObjectName};
use orrery_proto::infra::v1::Node;

/// The server that holds an agent's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whereabouts {
    /// This one.
    Here,
    /// The one at this address.
    At(String),
    /// None, for this reason.
    Nowhere(String),
}

impl Fleet {
    /// Where the agent of a node is connected, as far as this server knows.
    pub async fn where_is(&self, node: &str) -> Result<Whereabouts, Error> {
        if self.senders().session(node).is_some() {
            return Ok(Whereabouts::Here);
        }
        let found = self.node_resources().find(&ObjectName::new("", node)).await?;
        Ok(elsewhere(node, found.as_ref(), self.server_address()))
    }
}

fn elsewhere(name: &str, node: Option<&Node>, here: &str) -> Whereabouts {
    let status = node.and_then(|node| node.status.as_ref());
    match status {
        Some(status) if status.state == "Ready" && status.server_address == here => {
            Whereabouts::Nowhere(format!("node {name:?} is just connecting; try again"))
        }
        Some(status) if status.state == "Ready" && !status.server_address.is_empty() => {
            Whereabouts::At(status.server_address.clone())
        }
        Some(_) => Whereabouts::Nowhere(format!("node {name:?} is not connected")),
        None => Whereabouts::Nowhere(format!("no agent named {name:?} has ever connected")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::infra::v1::NodeStatus;

    #[track_caller]
    fn check(state: Option<(&str, &str)>, expect: Whereabouts) {
        let node = state.map(|(state, address)| Node {
            status: Some(NodeStatus {
                state: state.into(),
                server_address: address.into(),
                ..NodeStatus::default()
            }),
            ..Node::default()
        });
        assert_eq!(elsewhere("n", node.as_ref(), "http://here:1"), expect);
    }

    #[test]
    fn an_agent_is_found_where_its_node_says() {
        check(Some(("Ready", "http://there:1")), Whereabouts::At("http://there:1".into()));
        let gone = || Whereabouts::Nowhere("node \"n\" is not connected".into());
        check(Some(("Gone", "http://there:1")), gone());
        check(Some(("Ready", "")), gone());
        check(None, Whereabouts::Nowhere("no agent named \"n\" has ever connected".into()));
        let text = "node \"n\" is just connecting; try again";
        check(Some(("Ready", "http://here:1")), Whereabouts::Nowhere(text.into()));
    }
}
