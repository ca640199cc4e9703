//! `orrery logs`.
use crate::args::{Global, LogsArguments};
use crate::connection::Target;
use crate::exit::Interrupted;
use crate::output::print;
use crate::signals::StopSignals;
use anyhow::{Context as _, bail};
use orrery_client::commander::Logs;
use orrery_proto::fleet::v1::{LogsRequest, LogsResponse};
use std::collections::BTreeMap;
use std::io::Write;

pub async fn run(global: &Global, arguments: LogsArguments) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let server = target.connect().await?;
    let (name, instance) = match arguments.name.split_once('/') {
        Some((workload, instance)) => (workload.to_owned(), instance.to_owned()),
        None => (arguments.name, String::new()),
    };
    let request = LogsRequest {
        project: target.project(arguments.project.as_deref()),
        name,
        instance,
        follow: arguments.follow,
        tail_lines: arguments.tail,
        ..LogsRequest::default()
    };
    let mut signals = StopSignals::listen()?;
    let logs = server.logs(request).await?;
    tokio::select! {
        () = signals.next() => Err(Interrupted.into()),
        outcome = print_all(logs) => outcome,
    }
}

async fn print_all(mut logs: Logs) -> anyhow::Result<()> {
    let mut lines = Lines::default();
    let mut problems = 0;
    while let Some(piece) = logs.next().await? {
        if piece.gap {
            print::note(&format!("{}: some output is lost: it came too fast", piece.instance));
        }
        if !piece.problem.is_empty() {
            problems += 1;
            print::note(&format!("{}: {}", piece.instance, piece.problem));
        }
        let mut stdout = std::io::stdout().lock();
        lines.write(&piece, &mut stdout).context("write to standard output")?;
    }
    lines.finish(&mut std::io::stdout().lock()).context("write to standard output")?;
    match problems {
        0 => Ok(()),
        1 => bail!("the output of one copy could not be read to its end"),
        _ => bail!("the output of {problems} copies could not be read to its end"),
    }
}

/// The output of one copy goes out as it comes; of several, in whole lines that say whose they are.
#[derive(Debug, Default)]
struct Lines {
    unfinished: BTreeMap<String, Vec<u8>>,
}

impl Lines {
    fn write(&mut self, piece: &LogsResponse, out: &mut impl Write) -> std::io::Result<()> {
        if piece.copies <= 1 {
            out.write_all(&piece.data)?;
            return out.flush();
        }
        let rest = self.unfinished.entry(piece.instance.clone()).or_default();
        rest.extend_from_slice(&piece.data);
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            write!(out, "{}: ", piece.instance)?;
            out.write_all(&line)?;
        }
        out.flush()
    }

    /// Last lines without an end are output too.
    fn finish(self, out: &mut impl Write) -> std::io::Result<()> {
        for (instance, rest) in self.unfinished.into_iter().filter(|(_, rest)| !rest.is_empty()) {
            write!(out, "{instance}: ")?;
            out.write_all(&rest)?;
            writeln!(out)?;
        }
        out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(copies: u32, pieces: &[(&str, &str)], expect: &str) {
        let mut lines = Lines::default();
        let mut out = Vec::new();
        for (instance, data) in pieces {
            let piece = LogsResponse {
                instance: (*instance).into(),
                data: (*data).into(),
                copies,
                ..LogsResponse::default()
            };
            lines.write(&piece, &mut out).expect("a vector takes everything");
        }
        lines.finish(&mut out).expect("a vector takes everything");
        assert_eq!(String::from_utf8_lossy(&out), expect);
    }

    #[test]
    fn lines_of_several_copies_are_whole_and_marked() {
        check(1, &[("a", "one\ntw"), ("a", "o")], "one\ntwo");
        let pieces = [("a", "one\ntw"), ("b", "x\n"), ("a", "o\n"), ("b", "y")];
        check(2, &pieces, "a: one\nb: x\na: two\nb: y\n");
    }
}
