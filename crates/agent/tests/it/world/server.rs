//! The other end of the agent's channels.
use super::{PATIENCE, Program};
use orrery_proto::apps::v1::WorkloadInstanceStatus;
use orrery_proto::fleet::v1::{
    Assignment, AssignmentSet, DependencyState, DependencyStates, ExecEnd, ExecInput, ExecOrder,
    ExecOutput, ExecStart, FromServer, InstanceFiles, Load, LogChunk, ServerHello, ServerMessage,
    ToServer, Unassign, exec_event, exec_input, server_message::Message, to_server,
};
use std::collections::BTreeMap;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

/// Sends assignments and remembers the states that it hears of.
pub struct Server {
    to_agent: mpsc::Sender<FromServer>,
    from_agent: mpsc::Receiver<ToServer>,
    pub states: BTreeMap<String, WorkloadInstanceStatus>,
    /// Every state that was reported, in order, as "id State/Reason".
    pub heard: Vec<String>,
    pub goodbyes: usize,
    /// What came of each stream of output, with "~" where something was missed.
    pub output: BTreeMap<String, String>,
    /// The same as it came.
    pub chunks: BTreeMap<String, Vec<LogChunk>>,
    /// The streams that ended, and why.
    pub ended: BTreeMap<String, String>,
    /// What commands said, and their exit codes.
    pub execs: BTreeMap<String, Exec>,
    pub loads: BTreeMap<String, Load>,
}

/// What a command said.
#[derive(Debug, Default)]
pub struct Exec {
    pub stdout: String,
    pub stderr: String,
    pub input_credit: u32,
    pub end: Option<ExecEnd>,
}

impl Server {
    pub fn new(to_agent: mpsc::Sender<FromServer>, from_agent: mpsc::Receiver<ToServer>) -> Self {
        let (states, heard) = (BTreeMap::new(), Vec::new());
        let (output, ended) = (BTreeMap::new(), BTreeMap::new());
        let (execs, loads) = (BTreeMap::new(), BTreeMap::new());
        let chunks = BTreeMap::new();
        Self {
            to_agent,
            from_agent,
            states,
            heard,
            goodbyes: 0,
            output,
            chunks,
            ended,
            execs,
            loads,
        }
    }

    pub async fn send(&self, messages: Vec<Option<Message>>) {
        let messages = messages.into_iter().map(|message| ServerMessage { message }).collect();
        self.to_agent.send(FromServer { messages }).await.unwrap();
    }

    pub async fn greet(&self) {
        let hello = ServerHello { version: "0.0.0".into(), session_epoch: 1 };
        self.send(vec![Some(Message::Hello(hello))]).await;
    }

    pub async fn assign(&self, program: &Program) {
        self.send(vec![Some(Message::Assign(program.assignment()))]).await;
    }

    pub async fn assign_set(&self, programs: &[&Program]) {
        let assignments: Vec<Assignment> =
            programs.iter().map(|program| program.assignment()).collect();
        self.send(vec![Some(Message::Set(AssignmentSet { assignments }))]).await;
    }

    /// Says how a workload is that programs may wait for.
    pub async fn say(&self, workload: &str, state: &str) {
        let state = DependencyState {
            project: "shop".into(),
            workload: workload.into(),
            state: state.into(),
        };
        let states = DependencyStates { states: vec![state] };
        self.send(vec![Some(Message::Dependencies(states))]).await;
    }

    pub async fn unassign(&self, program: &Program) {
        self.send(vec![Some(Message::Unassign(Unassign { id: program.id.clone() }))]).await;
    }

    /// Listens until the latest state of the program is as wanted.
    #[track_caller]
    pub fn until(
        &mut self,
        program: &Program,
        what: &str,
        wanted: impl Fn(&WorkloadInstanceStatus) -> bool,
    ) -> impl Future<Output = WorkloadInstanceStatus> {
        let caller = std::panic::Location::caller();
        let id = program.id.clone();
        async move {
            let deadline = Instant::now() + PATIENCE;
            loop {
                if let Some(status) = self.states.get(&id).filter(|status| wanted(status)) {
                    return status.clone();
                }
                let heard = timeout_at(deadline, self.from_agent.recv()).await;
                let Ok(Some(message)) = heard else {
                    panic!("{caller}: {id} is not {what}; heard {:#?}", self.heard);
                };
                self.hear(message);
            }
        }
    }

    /// Listens until the state is "State/Reason"; an empty reason needs no slash.
    #[track_caller]
    pub fn until_state(
        &mut self,
        program: &Program,
        state: &str,
    ) -> impl Future<Output = WorkloadInstanceStatus> {
        let wanted = state.to_owned();
        self.until(program, state, move |status| shown(status) == wanted)
    }

    /// Listens until the agent has closed the connection.
    pub async fn hear_all(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while let Some(message) = timeout_at(deadline, self.from_agent.recv()).await.unwrap() {
            self.hear(message);
        }
    }

    /// Listens until something about the streams of output is as wanted.
    pub async fn until_logged(&mut self, what: &str, wanted: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !wanted(self) {
            let heard = timeout_at(deadline, self.from_agent.recv()).await;
            let Ok(Some(message)) = heard else {
                panic!("not {what}: {:#?} {:#?} {:#?}", self.output, self.ended, self.execs);
            };
            self.hear(message);
        }
    }

    /// The next message as it is.
    pub async fn next(&mut self) -> ToServer {
        let deadline = Instant::now() + PATIENCE;
        timeout_at(deadline, self.from_agent.recv()).await.unwrap().unwrap()
    }

    pub fn hear(&mut self, message: ToServer) {
        match message.message.unwrap() {
            to_server::Message::States(states) => {
                for state in states.states {
                    let status = state.status.unwrap();
                    self.heard.push(format!("{} {}", state.id, shown(&status)));
                    self.states.insert(state.id, status);
                }
            }
            to_server::Message::Goodbye(_) => self.goodbyes += 1,
            to_server::Message::LogChunk(chunk) => {
                let output = self.output.entry(chunk.stream.clone()).or_default();
                output.push_str(if chunk.gap { "~" } else { "" });
                output.push_str(std::str::from_utf8(&chunk.data).unwrap());
                self.chunks.entry(chunk.stream.clone()).or_default().push(chunk);
            }
            to_server::Message::ExecOutput(output) => self.hear_exec(output),
            to_server::Message::Load(report) => {
                self.loads.insert(report.stream, report.load.unwrap());
            }
            to_server::Message::LogEnd(end) => drop(self.ended.insert(end.stream, end.problem)),
            to_server::Message::Hello(_) => panic!("the agent core does not say hello"),
        }
    }
}

impl Server {
    fn hear_exec(&mut self, output: ExecOutput) {
        let exec = self.execs.entry(output.stream).or_default();
        match output.event.unwrap().message.unwrap() {
            exec_event::Message::Stdout(data) => exec.stdout += &String::from_utf8_lossy(&data),
            exec_event::Message::Stderr(data) => exec.stderr += &String::from_utf8_lossy(&data),
            exec_event::Message::Credit(more) => exec.input_credit += more,
            exec_event::Message::End(end) => exec.end = Some(end),
        }
    }

    /// Begins a command beside a program.
    pub async fn exec(&self, stream: &str, program: &Program, start: ExecStart) {
        let credit = ExecInput { message: Some(exec_input::Message::Credit(10)) };
        let (stream, id) = (stream.to_owned(), program.id.clone());
        let order = ExecOrder { stream, id, start: Some(start), input: vec![credit] };
        self.send(vec![Some(Message::Exec(order))]).await;
    }

    /// Says something to a command.
    pub async fn exec_input(&self, stream: &str, input: exec_input::Message) {
        let input = vec![ExecInput { message: Some(input) }];
        let order = ExecOrder { stream: stream.to_owned(), input, ..ExecOrder::default() };
        self.send(vec![Some(Message::Exec(order))]).await;
    }

    /// Listens until a command has ended.
    pub async fn until_exec_ended(&mut self, stream: &str) -> Exec {
        let ended = |server: &Self| server.execs.get(stream).is_some_and(|e| e.end.is_some());
        self.until_logged("an ended command", ended).await;
        self.execs.remove(stream).unwrap()
    }

    /// Hands out the files of a program.
    pub async fn hand_out(&self, files: InstanceFiles) {
        self.send(vec![Some(Message::Files(files))]).await;
    }
}

pub fn shown(status: &WorkloadInstanceStatus) -> String {
    match status.reason.as_str() {
        "" => status.state.clone(),
        reason => format!("{}/{reason}", status.state),
    }
}
