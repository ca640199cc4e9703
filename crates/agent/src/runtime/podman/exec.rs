//! Commands in a container.
use super::super::RuntimeError;
use super::super::exec::{Control, ExecRequest, Executing, Written};
use super::words;
use crate::procfs;
use bollard::Docker;
use bollard::container::LogOutput;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::ResizeExecOptionsBuilder;
use futures::StreamExt;
use orrery_proto::fleet::v1::TerminalSize;
use rustix::process::Signal;
use std::{io, time::Duration};
use tokio::time::{Instant, sleep};

/// How long podman may take from the end of the output to knowing the exit code.
const END_PATIENCE: Duration = Duration::from_secs(10);
const END_INTERVAL: Duration = Duration::from_millis(20);

pub(super) async fn begin(
    podman: Docker,
    container: &str,
    request: ExecRequest,
) -> Result<Executing, RuntimeError> {
    let tty = request.tty.is_some();
    let options = CreateExecOptions {
        attach_stdin: Some(request.stdin),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(tty),
        env: tty.then(|| vec!["TERM=xterm".to_owned()]),
        cmd: Some(request.command),
        ..CreateExecOptions::default()
    };
    let created = podman.create_exec(container, options).await;
    let id = created.map_err(words::trouble("prepare the command"))?.id;
    let start = StartExecOptions { detach: false, tty, output_capacity: None };
    let started = podman.start_exec(&id, Some(start)).await;
    let started = started.map_err(words::trouble("start the command"))?;
    let StartExecResults::Attached { output, input } = started else {
        return Err(RuntimeError::Podman("podman did not attach to the command".to_owned()));
    };
    let mut control = InContainer { podman, id };
    if let Some(size) = request.tty {
        // A command that has ended already needs no size.
        let _ = control.resize(size).await;
    }
    let output = output.map(|piece| match piece {
        Ok(LogOutput::StdErr { message }) => Ok(Written::Err(message.into())),
        Ok(LogOutput::StdOut { message } | LogOutput::Console { message }) => {
            Ok(Written::Out(message.into()))
        }
        Ok(LogOutput::StdIn { .. }) => Ok(Written::Out(Vec::new())),
        Err(error) => Err(io::Error::other(words::said(&error))),
    });
    let input = request.stdin.then_some(input);
    Ok(Executing { input, output: output.boxed(), control: Box::new(control) })
}

struct InContainer {
    podman: Docker,
    id: String,
}

#[async_trait::async_trait]
impl Control for InContainer {
    async fn resize(&mut self, size: TerminalSize) -> Result<(), RuntimeError> {
        let side = |cells: u32| i32::try_from(cells).unwrap_or(i32::MAX);
        let options =
            ResizeExecOptionsBuilder::default().h(side(size.rows)).w(side(size.columns)).build();
        let resized = self.podman.resize_exec(&self.id, options).await;
        resized.map_err(words::trouble("resize its terminal"))
    }

    async fn ended(&mut self) -> Result<i32, RuntimeError> {
        let deadline = Instant::now() + END_PATIENCE;
        loop {
            let found = self.podman.inspect_exec(&self.id).await;
            let found = found.map_err(words::trouble("say how the command ended"))?;
            if found.running == Some(false)
                && let Some(code) = found.exit_code
            {
                return Ok(i32::try_from(code).unwrap_or(i32::MAX));
            }
            if deadline < Instant::now() {
                return Err(RuntimeError::NoAnswer(END_PATIENCE));
            }
            sleep(END_INTERVAL).await;
        }
    }

    /// Podman has no word for it, but shows the process.
    async fn kill(&mut self) {
        let Ok(found) = self.podman.inspect_exec(&self.id).await else { return };
        let pid = found.pid.and_then(|pid| i32::try_from(pid).ok()).filter(|pid| 0 < *pid);
        let Some(process) = pid.and_then(procfs::stat) else { return };
        let below = procfs::descendants(process.identity.pid).unwrap_or_default();
        for stat in below.into_iter().chain([process]) {
            // Gone already is as good.
            let _ = stat.identity.signal(Signal::KILL);
        }
    }
}
