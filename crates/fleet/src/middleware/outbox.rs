//! What waits to be sent to one agent.
//!
//! An outbox never blocks its writers and never grows beyond the agent's own assignments: a newer
//! word about an instance takes the place of an older one that was not sent yet, and a full set
//! takes the place of everything. So an agent that does not read costs nobody anything.
use indexmap::IndexMap;
use orrery_proto::fleet::v1::{
    AssignmentSet, DependencyState, DependencyStates, ExecInput, ExecOrder, InstanceFiles,
    LoadRequest, LogCancel, LogCredit, LogRequest, ServerHello, ServerMessage, exec_input,
    server_message::Message,
};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

#[derive(Debug, Default)]
pub struct Outbox {
    waiting: Mutex<Waiting>,
    changed: Notify,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Nothing for most agents, most of the time.
    pending: Option<Box<Pending>>,
    closed: bool,
}

#[derive(Debug, Default)]
struct Pending {
    hello: Option<ServerHello>,
    /// By project and name of the workload: how far those have come that the agent's copies wait
    /// for. They go before the copies, so that no copy waits without need.
    dependencies: IndexMap<(String, String), String>,
    set: Option<AssignmentSet>,
    /// By instance id, in the order of the first unsent word about each.
    updates: IndexMap<String, Message>,
    /// By instance id; they go after the copies that they are for.
    files: IndexMap<String, InstanceFiles>,
    /// By the name of the stream.
    logs: IndexMap<String, LogOrders>,
    /// By the name of the stream; as much as the commands have asked for.
    execs: IndexMap<String, ExecOrder>,
    /// Questions of which all but the newest few are void: who asked does not wait any more.
    loads: Vec<LoadRequest>,
}

/// Questions about the load that wait for an agent to read them.
const LOADS_MAX: usize = 8;

/// What an agent is to be told about one stream of output.
#[derive(Debug, Default)]
struct LogOrders {
    request: Option<LogRequest>,
    credit: u32,
    cancelled: bool,
}

impl Outbox {
    /// Leaves messages for the agent.
    pub fn push(&self, messages: impl IntoIterator<Item = ServerMessage>) {
        {
            let mut waiting = self.waiting.lock();
            let pending = waiting.pending.get_or_insert_default();
            for message in messages {
                pending.push(message);
            }
        }
        self.changed.notify_one();
    }

    /// Ends the session: what is pending is not sent any more.
    pub fn close(&self) {
        self.waiting.lock().closed = true;
        self.ended.cancel();
        self.changed.notify_one();
    }

    /// Returns when the session has been ended.
    pub async fn closed(&self) {
        self.ended.cancelled().await;
    }

    /// Everything that waits, as soon as something does; `None` once closed.
    pub async fn next(&self) -> Option<Vec<ServerMessage>> {
        loop {
            let changed = self.changed.notified();
            {
                let mut waiting = self.waiting.lock();
                if waiting.closed {
                    return None;
                }
                let messages = waiting.pending.take().map(|pending| pending.into_messages());
                if let Some(messages) = messages.filter(|messages| !messages.is_empty()) {
                    return Some(messages);
                }
            }
            changed.await;
        }
    }
}

impl Pending {
    fn push(&mut self, message: ServerMessage) {
        let Some(message) = message.message else { return };
        match message {
            Message::Hello(hello) => self.hello = Some(hello),
            Message::Dependencies(DependencyStates { states }) => {
                let keyed = states.into_iter().map(|s| ((s.project, s.workload), s.state));
                self.dependencies.extend(keyed);
            }
            Message::Files(files) => drop(self.files.insert(files.id.clone(), files)),
            Message::Exec(order) => self.exec(order),
            Message::Load(request) => {
                if LOADS_MAX <= self.loads.len() {
                    self.loads.remove(0);
                }
                self.loads.push(request);
            }
            Message::Set(set) => {
                self.updates.clear();
                self.set = Some(set);
            }
            Message::Assign(assignment) => {
                self.updates.insert(assignment.id.clone(), Message::Assign(assignment));
            }
            Message::Log(request) => {
                let stream = request.stream.clone();
                self.log(&stream).request = Some(request);
            }
            Message::LogCredit(LogCredit { stream, chunks }) => {
                let orders = self.log(&stream);
                orders.credit = orders.credit.saturating_add(chunks);
            }
            Message::LogCancel(LogCancel { stream }) => self.log(&stream).cancelled = true,
            Message::Unassign(unassign) => {
                self.updates.insert(unassign.id.clone(), Message::Unassign(unassign));
            }
        }
    }

    fn into_messages(mut self) -> Vec<ServerMessage> {
        let dependencies = self.take_dependencies().map(Message::Dependencies);
        let hello = self.hello.map(Message::Hello);
        let set = self.set.map(Message::Set);
        let updates = self.updates.into_values();
        let logs = self.logs.into_iter();
        let logs = logs.flat_map(|(stream, orders)| orders.messages(stream));
        let files = self.files.into_values().map(Message::Files);
        let execs = self.execs.into_values().map(Message::Exec);
        let loads = self.loads.into_iter().map(Message::Load);
        let messages = hello.into_iter().chain(dependencies).chain(set).chain(updates);
        let messages = messages.chain(files).chain(logs).chain(execs).chain(loads);
        messages.map(|message| ServerMessage { message: Some(message) }).collect()
    }
}

impl LogOrders {
    /// A stream that was cancelled before it was asked for needs no word at all.
    fn messages(self, stream: String) -> Vec<Message> {
        if self.cancelled {
            let cancel = Message::LogCancel(LogCancel { stream });
            return if self.request.is_some() { Vec::new() } else { vec![cancel] };
        }
        let credit = (0 < self.credit)
            .then_some(Message::LogCredit(LogCredit { stream, chunks: self.credit }));
        self.request.map(Message::Log).into_iter().chain(credit).collect()
    }
}

impl Pending {
    /// Words to a command are kept in their order, except that only the newest size of a terminal
    /// matters and that credit adds up. What was cancelled before it began needs no word at all.
    fn exec(&mut self, order: ExecOrder) {
        let stream = order.stream.clone();
        let cancelled = order.input.iter().any(is_cancel);
        if cancelled && self.execs.get(&stream).is_some_and(|known| known.start.is_some()) {
            self.execs.shift_remove(&stream);
            return;
        }
        let known = self
            .execs
            .entry(stream.clone())
            .or_insert_with(|| ExecOrder { stream, ..ExecOrder::default() });
        if order.start.is_some() {
            known.start = order.start;
            known.id = order.id;
        }
        for word in order.input {
            add_word(&mut known.input, word);
        }
    }

    fn log(&mut self, stream: &str) -> &mut LogOrders {
        self.logs.entry(stream.to_owned()).or_default()
    }

    fn take_dependencies(&mut self) -> Option<DependencyStates> {
        let dependencies = std::mem::take(&mut self.dependencies);
        let state = |((project, workload), state)| DependencyState { project, workload, state };
        let states: Vec<DependencyState> = dependencies.into_iter().map(state).collect();
        (!states.is_empty()).then_some(DependencyStates { states })
    }
}

fn is_cancel(word: &ExecInput) -> bool {
    matches!(word.message, Some(exec_input::Message::Cancel(_)))
}

fn add_word(words: &mut Vec<ExecInput>, word: ExecInput) {
    match (words.last_mut().and_then(|last| last.message.as_mut()), &word.message) {
        (Some(exec_input::Message::Credit(sum)), Some(exec_input::Message::Credit(more))) => {
            *sum = sum.saturating_add(*more);
        }
        (Some(exec_input::Message::Resize(size)), Some(exec_input::Message::Resize(newer))) => {
            *size = *newer;
        }
        (_, Some(exec_input::Message::Cancel(_))) => *words = vec![word],
        (_, _) => words.push(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::fleet::v1::{Assignment, ExecStart, TerminalSize, Unassign};

    #[tokio::test]
    async fn words_to_a_command_keep_their_order_and_stay_few() {
        use exec_input::Message as Word;
        let size = |rows| Word::Resize(TerminalSize { rows, columns: 80 });
        let order = |start: bool, words: Vec<Word>| {
            let input = words.into_iter().map(|word| ExecInput { message: Some(word) }).collect();
            let start = start.then(ExecStart::default);
            let order = ExecOrder { stream: "s".into(), start, input, ..ExecOrder::default() };
            ServerMessage { message: Some(Message::Exec(order)) }
        };
        let outbox = Outbox::default();
        outbox.push([order(true, vec![Word::Credit(2)]), order(false, vec![Word::Credit(3)])]);
        outbox
            .push([order(false, vec![Word::Data(vec![1]), size(1)]), order(false, vec![size(2)])]);
        let words = vec![Word::Credit(5), Word::Data(vec![1]), size(2)];
        assert_eq!(outbox.next().await, Some(vec![order(true, words)]));
        outbox.push([
            order(false, vec![Word::Data(vec![1])]),
            order(false, vec![Word::Cancel(true)]),
        ]);
        assert_eq!(outbox.next().await, Some(vec![order(false, vec![Word::Cancel(true)])]));
        outbox.push([order(true, vec![]), order(false, vec![Word::Cancel(true)]), unassign("a")]);
        assert_eq!(outbox.next().await, Some(vec![unassign("a")]));
    }

    fn assign(id: &str, generation: i64) -> ServerMessage {
        let assignment = Assignment { id: id.into(), generation, ..Assignment::default() };
        ServerMessage { message: Some(Message::Assign(assignment)) }
    }

    fn unassign(id: &str) -> ServerMessage {
        ServerMessage { message: Some(Message::Unassign(Unassign { id: id.into() })) }
    }

    fn set() -> ServerMessage {
        ServerMessage { message: Some(Message::Set(AssignmentSet::default())) }
    }

    /// proves: AGT-09
    #[tokio::test]
    async fn everything_that_waits_goes_in_one_call() {
        let outbox = Outbox::default();
        outbox.push([assign("a", 1), assign("b", 1)]);
        outbox.push([assign("a", 2)]);
        assert_eq!(outbox.next().await, Some(vec![assign("a", 2), assign("b", 1)]));
    }

    #[tokio::test]
    async fn the_newest_word_wins_and_a_set_replaces_all() {
        let outbox = Outbox::default();
        outbox.push([assign("a", 1), unassign("a"), assign("b", 1)]);
        outbox.push([set(), unassign("c")]);
        assert_eq!(outbox.next().await, Some(vec![set(), unassign("c")]));
    }

    #[tokio::test]
    async fn dependencies_go_first_and_only_their_newest_state() {
        let state = |workload: &str, state: &str| DependencyState {
            project: "p".into(),
            workload: workload.into(),
            state: state.into(),
        };
        let states = |states: Vec<DependencyState>| ServerMessage {
            message: Some(Message::Dependencies(DependencyStates { states })),
        };
        let outbox = Outbox::default();
        outbox.push([assign("a", 1), states(vec![state("db", "Pending"), state("x", "Failed")])]);
        outbox.push([states(vec![state("db", "Running")])]);
        let first = states(vec![state("db", "Running"), state("x", "Failed")]);
        assert_eq!(outbox.next().await, Some(vec![first, assign("a", 1)]));
    }

    #[tokio::test]
    async fn words_about_output_are_few() {
        let message = |message| ServerMessage { message: Some(message) };
        let ask = |stream: &str| {
            message(Message::Log(LogRequest { stream: stream.into(), ..LogRequest::default() }))
        };
        let credit = |stream: &str, chunks| {
            message(Message::LogCredit(LogCredit { stream: stream.into(), chunks }))
        };
        let cancel =
            |stream: &str| message(Message::LogCancel(LogCancel { stream: stream.into() }));
        let outbox = Outbox::default();
        outbox.push([ask("a"), ask("b"), credit("a", 1), credit("a", 2), cancel("b")]);
        assert_eq!(outbox.next().await, Some(vec![ask("a"), credit("a", 3)]));
        outbox.push([credit("a", 1), cancel("a")]);
        assert_eq!(outbox.next().await, Some(vec![cancel("a")]));
    }

    #[tokio::test]
    async fn a_reader_that_waits_is_woken_and_a_closed_outbox_ends() {
        let outbox = std::sync::Arc::new(Outbox::default());
        let reader = tokio::spawn({
            let outbox = outbox.clone();
            async move { (outbox.next().await, outbox.next().await) }
        });
        outbox.push([unassign("a")]);
        while std::sync::Arc::strong_count(&outbox) > 1 && outbox.waiting.lock().pending.is_some() {
            tokio::task::yield_now().await;
        }
        outbox.close();
        assert_eq!(reader.await.expect("reader ends"), (Some(vec![unassign("a")]), None));
    }
}
