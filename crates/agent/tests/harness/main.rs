//! The processes that the tests of this crate start: the supervisor, and an agent to be killed.
//!
//! `agent-harness supervisor <folder>` is the supervisor. `agent-harness agent <data folder>` is an
//! agent whose connection is its standard input and output: length-delimited `FromServer` messages
//! come in, `ToServer` messages go out.
use orrery_agent::{AgentConfig, OnStop, SupervisorCommand};
use orrery_proto::fleet::v1::{FromServer, ToServer};
use prost::Message;
use std::{
    ffi::OsString,
    io::{self, Read, Write},
    process::ExitCode,
    time::Duration,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Room of the two channels; the real connection has about as much.
const CHANNEL_LEN: usize = 16;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|mode| mode.to_str()) {
        Some("supervisor") => orrery_agent::supervisor::main(args),
        Some("agent") => agent(args.next().unwrap_or_default()),
        Some(_) | None => ExitCode::FAILURE,
    }
}

fn agent(data_dir: OsString) -> ExitCode {
    let Ok(runtime) = tokio::runtime::Runtime::new() else { return ExitCode::FAILURE };
    match runtime.block_on(serve(data_dir)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(data_dir: OsString) -> Result<(), Box<dyn std::error::Error>> {
    let supervisor =
        SupervisorCommand { program: std::env::current_exe()?, args: vec!["supervisor".into()] };
    let mut config = AgentConfig::new("killed", data_dir, supervisor);
    config.on_stop = OnStop::StopWorkloads;
    config.run_dir = config.data_dir.join("run");
    config.podman.socket = Some(config.run_dir.join("nobody.sock"));
    config.timing.first_delay = Duration::from_millis(20);
    let (to_server, outgoing) = mpsc::channel(CHANNEL_LEN);
    let (incoming, from_server) = mpsc::channel(CHANNEL_LEN);
    let stop = CancellationToken::new();
    let end_of_input = stop.clone();
    std::thread::spawn(move || {
        while let Some(message) = receive(&mut io::stdin()) {
            if incoming.blocking_send(message).is_err() {
                break;
            }
        }
        end_of_input.cancel();
    });
    let writer = std::thread::spawn(move || send_all(outgoing));
    let outcome = orrery_agent::run(config, to_server, from_server, stop).await;
    let _ = writer.join();
    Ok(outcome?)
}

fn receive(input: &mut impl Read) -> Option<FromServer> {
    let mut len = [0; 4];
    input.read_exact(&mut len).ok()?;
    let mut bytes = vec![0; u32::from_le_bytes(len) as usize];
    input.read_exact(&mut bytes).ok()?;
    FromServer::decode(bytes.as_slice()).ok()
}

fn send_all(mut outgoing: mpsc::Receiver<ToServer>) {
    let mut output = io::stdout();
    while let Some(message) = outgoing.blocking_recv() {
        let bytes = message.encode_to_vec();
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
        let sent = output.write_all(&[&len, bytes.as_slice()].concat());
        if sent.and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}
