//! What nodes and copies use: asked for when somebody wants to know, and not kept.
use crate::middleware::Senders;
use orrery_proto::fleet::v1::{
    Load, LoadReport, LoadRequest, NodeLoad, ServerMessage, server_message::Message,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;

/// An agent measures for half a second. One that takes longer than this is not waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// The questions that are open.
#[derive(Debug)]
pub struct Loads {
    senders: Arc<Senders>,
    next: AtomicU64,
    waiting: Mutex<HashMap<String, (String, oneshot::Sender<Load>)>>,
}

impl Loads {
    pub fn new(senders: Arc<Senders>) -> Self {
        Self { senders, next: AtomicU64::new(0), waiting: Mutex::default() }
    }

    /// What is used on these nodes, which are connected here.
    pub async fn of(&self, nodes: Vec<String>) -> Vec<NodeLoad> {
        futures::future::join_all(nodes.into_iter().map(|node| self.of_one(node))).await
    }

    async fn of_one(&self, node: String) -> NodeLoad {
        let unknown = |problem: &str| NodeLoad {
            node: node.clone(),
            load: None,
            problem: problem.to_owned(),
        };
        let Some(session) = self.senders.session(&node) else {
            return unknown("it is not connected");
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let stream = format!("{}-{number}", session.epoch);
        let (answer, answered) = oneshot::channel();
        self.waiting.lock().insert(stream.clone(), (node.clone(), answer));
        let request = LoadRequest { stream: stream.clone() };
        session.outbox.push([ServerMessage { message: Some(Message::Load(request)) }]);
        let outcome = tokio::time::timeout(PATIENCE, answered).await;
        self.waiting.lock().remove(&stream);
        match outcome {
            Ok(Ok(load)) => NodeLoad { node, load: Some(load), problem: String::new() },
            Ok(Err(_)) | Err(_) => unknown("its agent did not answer in time"),
        }
    }

    /// An agent answers.
    pub fn report(&self, agent: &str, report: LoadReport) {
        let mut waiting = self.waiting.lock();
        if waiting.get(&report.stream).is_some_and(|(node, _)| node == agent)
            && let Some((_, answer)) = waiting.remove(&report.stream)
        {
            // Whoever asked may have gone.
            let _ = answer.send(report.load.unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::Outbox;
    use crate::middleware::senders::Session;

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_taken_from_the_agent_that_was_asked() {
        let senders = Arc::new(Senders::default());
        let outbox = Arc::new(Outbox::default());
        senders.insert("edge", Session { epoch: 1, outbox: outbox.clone(), ..Session::default() });
        let loads = Arc::new(Loads::new(senders));
        let asked = tokio::spawn({
            let loads = loads.clone();
            async move { loads.of(vec!["edge".into(), "ghost".into()]).await }
        });
        let messages = outbox.next().await.expect("open");
        let Some(Message::Load(request)) = messages[0].message.clone() else { panic!() };
        let report = |load| LoadReport { stream: request.stream.clone(), load };
        loads.report("liar", report(None));
        loads.report("edge", report(Some(Load::default())));
        let answers = asked.await.expect("answered");
        assert_eq!(answers[0].load, Some(Load::default()));
        assert_eq!(answers[1].problem, "it is not connected");
        let silent = loads.of(vec!["edge".into()]).await;
        assert_eq!(silent[0].problem, "its agent did not answer in time");
        assert!(loads.waiting.lock().is_empty());
    }
}
