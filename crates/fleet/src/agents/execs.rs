//! Commands beside copies, on their way between whoever runs them and the agents.
//!
//! ```text
//!   commander --words--> Speaker --> outbox of the agent
//!             <-events-- Talk    <-- what the agent says
//! ```
//! Output is paid for by the reader, piece by piece, and input by the command; so no more is here
//! than both sides have agreed to, and nobody waits for anybody else's command.
use crate::middleware::Senders;
use crate::middleware::senders::Session;
use futures::stream::{self, BoxStream, StreamExt};
use orrery_proto::fleet::v1::{
    ExecEnd, ExecEvent, ExecInput, ExecOrder, ExecOutput, ExecStart, ServerMessage, exec_event,
    exec_input, server_message::Message,
};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// Pieces of output of one command on their way.
const CREDIT: u32 = 16;

/// Room for all output that is paid for, for as much credit for input, and for the end.
const ROOM: usize = 128;

/// What is said to a command and waits; the commander connection has as much room.
pub type Words = mpsc::Receiver<ExecInput>;

/// The commands that run on agents of this server.
#[derive(Debug)]
pub struct Execs {
    senders: Arc<Senders>,
    next: AtomicU64,
    streams: Mutex<HashMap<String, Open>>,
}

#[derive(Debug)]
struct Open {
    agent: String,
    epoch: i64,
    events: mpsc::Sender<ExecEvent>,
}

impl Execs {
    pub fn new(senders: Arc<Senders>) -> Self {
        Self { senders, next: AtomicU64::new(0), streams: Mutex::default() }
    }

    /// Begins a command beside the copy with this id. What it says ends with its end.
    pub fn open(
        self: &Arc<Self>,
        agent: &str,
        id: &str,
        start: ExecStart,
        words: Words,
    ) -> BoxStream<'static, ExecEvent> {
        let Some(session) = self.senders.session(agent) else {
            return failed(format!("node {agent:?} is not connected"));
        };
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}", session.epoch);
        let (events, heard) = mpsc::channel(ROOM);
        let open = Open { agent: agent.to_owned(), epoch: session.epoch, events };
        self.streams.lock().insert(name.clone(), open);
        let talk = Talk {
            execs: self.clone(),
            name: name.clone(),
            session,
            heard,
            words,
            listening: true,
            input_credit: 0,
        };
        // The session may have ended before the command was known; then nobody would ever end it.
        let current = self.senders.session(agent).map(|session| session.epoch);
        if current != Some(talk.session.epoch) {
            return failed(format!("node {agent:?} is not connected"));
        }
        let credit = ExecInput { message: Some(exec_input::Message::Credit(CREDIT)) };
        let order =
            ExecOrder { stream: name, id: id.to_owned(), start: Some(start), input: vec![credit] };
        talk.tell(order);
        stream::unfold(Some(talk), Talk::next).boxed()
    }

    /// An agent says what a command says.
    pub fn output(&self, agent: &str, output: ExecOutput) {
        let ExecOutput { stream, event } = output;
        let mut streams = self.streams.lock();
        let Some(open) = streams.get(&stream).filter(|open| open.agent == agent) else { return };
        let Some(event) = event else { return };
        let last = matches!(event.message, Some(exec_event::Message::End(_)));
        // Only an agent that sends more than it may fills the channel; its command ends.
        if open.events.try_send(event).is_err() || last {
            streams.remove(&stream);
        }
    }

    /// A session of an agent is over, and with it all its commands.
    pub fn lost(&self, agent: &str, epoch: i64) {
        let mut streams = self.streams.lock();
        streams.retain(|_, open| open.agent != agent || epoch < open.epoch);
    }
}

/// The end of a command that never ran.
pub fn failed(problem: String) -> BoxStream<'static, ExecEvent> {
    stream::iter([end(problem)]).boxed()
}

fn end(problem: String) -> ExecEvent {
    let end = ExecEnd { exit_code: None, problem };
    ExecEvent { message: Some(exec_event::Message::End(end)) }
}

/// One command, from whoever runs it to its agent and back.
struct Talk {
    execs: Arc<Execs>,
    name: String,
    session: Session,
    heard: mpsc::Receiver<ExecEvent>,
    words: Words,
    /// Whether more words may come.
    listening: bool,
    /// Pieces of input that the command has room for.
    input_credit: u32,
}

impl Talk {
    /// The next thing that the command says; what is said to it goes out meanwhile.
    async fn next(talk: Option<Self>) -> Option<(ExecEvent, Option<Self>)> {
        let mut talk = talk?;
        loop {
            tokio::select! {
                event = talk.heard.recv() => return talk.say(event),
                word = talk.words.recv(), if talk.listening => match word {
                    Some(word) => if let Err(problem) = talk.pass_on(word) {
                        return Some((end(problem), None));
                    },
                    None => talk.listening = false,
                },
            }
        }
    }

    fn say(mut self, event: Option<ExecEvent>) -> Option<(ExecEvent, Option<Self>)> {
        let Some(event) = event else {
            return Some((end("the connection of its agent ended".to_owned()), None));
        };
        match &event.message {
            Some(exec_event::Message::End(_)) => return Some((event, None)),
            Some(exec_event::Message::Credit(more)) => {
                self.input_credit = self.input_credit.saturating_add(*more);
            }
            Some(exec_event::Message::Stdout(_) | exec_event::Message::Stderr(_)) | None => {
                self.order(exec_input::Message::Credit(1));
            }
        }
        Some((event, Some(self)))
    }

    /// Hands a word to the agent, if whoever said it may.
    fn pass_on(&mut self, word: ExecInput) -> Result<(), String> {
        match word.message {
            Some(exec_input::Message::Data(data)) => {
                let Some(left) = self.input_credit.checked_sub(1) else {
                    return Err("more was typed than the command has room for".to_owned());
                };
                self.input_credit = left;
                self.order(exec_input::Message::Data(data));
            }
            // Output is paid for as it is read, not by whoever reads it.
            Some(exec_input::Message::Credit(_)) | None => {}
            Some(other) => self.order(other),
        }
        Ok(())
    }

    fn order(&self, word: exec_input::Message) {
        let input = vec![ExecInput { message: Some(word) }];
        self.tell(ExecOrder { stream: self.name.clone(), input, ..ExecOrder::default() });
    }

    fn tell(&self, order: ExecOrder) {
        self.session.outbox.push([ServerMessage { message: Some(Message::Exec(order)) }]);
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        if self.execs.streams.lock().remove(&self.name).is_some() {
            self.order(exec_input::Message::Cancel(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::middleware::Outbox;

    fn stage() -> (Arc<Execs>, Arc<Outbox>) {
        let senders = Arc::new(Senders::default());
        let outbox = Arc::new(Outbox::default());
        let session = Session { epoch: 3, outbox: outbox.clone(), ..Session::default() };
        senders.insert("edge", session);
        (Arc::new(Execs::new(senders)), outbox)
    }

    fn event(message: exec_event::Message) -> ExecOutput {
        ExecOutput { stream: "3-0".into(), event: Some(ExecEvent { message: Some(message) }) }
    }

    async fn orders(outbox: &Outbox) -> ExecOrder {
        let messages = outbox.next().await.expect("open");
        let Some(Message::Exec(order)) = messages[0].message.clone() else {
            panic!("{messages:?}")
        };
        order
    }

    fn word(message: exec_input::Message) -> ExecInput {
        ExecInput { message: Some(message) }
    }

    #[tokio::test]
    async fn output_is_paid_for_as_it_is_read_and_input_as_it_is_asked_for() {
        let (execs, outbox) = stage();
        let (say, words) = mpsc::channel(8);
        let mut talk = execs.open("edge", "i-1", ExecStart::default(), words);
        let first = orders(&outbox).await;
        assert_eq!((first.id.as_str(), first.start.is_some()), ("i-1", true));
        assert_eq!(first.input, [word(exec_input::Message::Credit(CREDIT))]);
        execs.output("edge", event(exec_event::Message::Credit(1)));
        execs.output("edge", event(exec_event::Message::Stdout(b"x".to_vec())));
        execs.output("liar", event(exec_event::Message::Stdout(b"lie".to_vec())));
        talk.next().await.unwrap();
        let said = talk.next().await.unwrap().message.unwrap();
        assert_eq!(said, exec_event::Message::Stdout(b"x".to_vec()));
        assert_eq!(orders(&outbox).await.input, [word(exec_input::Message::Credit(1))]);
        say.send(word(exec_input::Message::Data(b"a".to_vec()))).await.unwrap();
        say.send(word(exec_input::Message::Data(b"too much".to_vec()))).await.unwrap();
        let last = talk.next().await.unwrap().message.unwrap();
        assert!(matches!(last, exec_event::Message::End(end) if end.problem.contains("room for")));
        assert!(talk.next().await.is_none());
        let input = orders(&outbox).await.input;
        assert_eq!(input.last(), Some(&word(exec_input::Message::Cancel(true))));
    }

    #[tokio::test]
    async fn a_command_ends_with_its_session_and_with_its_reader() {
        let (execs, outbox) = stage();
        let (_say, words) = mpsc::channel(8);
        let mut talk = execs.open("edge", "i-1", ExecStart::default(), words);
        execs.lost("edge", 3);
        let last = talk.next().await.unwrap().message.unwrap();
        assert!(
            matches!(last, exec_event::Message::End(end) if end.problem.contains("agent ended"))
        );
        let (_say, words) = mpsc::channel(8);
        orders(&outbox).await;
        drop(execs.open("edge", "i-1", ExecStart::default(), words));
        assert!(execs.streams.lock().is_empty());
        let (_say, words) = mpsc::channel(8);
        let mut nowhere = execs.open("ghost", "i-1", ExecStart::default(), words);
        assert!(nowhere.next().await.is_some() && nowhere.next().await.is_none());
    }
}
