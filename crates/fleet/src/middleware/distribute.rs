//! Sorting messages by receiver: common to every transport.
use orrery_proto::fleet::v1::ServerMessage;
use std::collections::BTreeMap;

/// A message and the agent that it is for.
#[derive(Clone, Debug, PartialEq)]
pub struct Addressed {
    pub agent: String,
    pub message: ServerMessage,
}

/// All messages of each agent together, in their order, so that each gets them in one call.
pub fn by_receiver(messages: Vec<Addressed>) -> BTreeMap<String, Vec<ServerMessage>> {
    let mut sorted: BTreeMap<String, Vec<ServerMessage>> = BTreeMap::new();
    for Addressed { agent, message } in messages {
        sorted.entry(agent).or_default().push(message);
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::fleet::v1::{Unassign, server_message::Message};

    fn message(id: &str) -> ServerMessage {
        ServerMessage { message: Some(Message::Unassign(Unassign { id: id.into() })) }
    }

    /// proves: AGT-09
    #[test]
    fn each_agent_gets_its_own_in_order() {
        let messages = [("b", "1"), ("a", "2"), ("b", "3")]
            .map(|(agent, id)| Addressed { agent: agent.into(), message: message(id) });
        let sorted = by_receiver(messages.into());
        assert_eq!(sorted.len(), 2);
        assert_eq!(sorted["a"], [message("2")]);
        assert_eq!(sorted["b"], [message("1"), message("3")]);
    }
}
