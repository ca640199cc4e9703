//! `orrery logs`.
mod lasting;
mod lines;

use crate::args::{Global, LogsArguments};
use crate::connection::Target;
use crate::exit::Interrupted;
use crate::output::print;
use crate::signals::StopSignals;
use anyhow::{Context as _, bail};
use lasting::{Output, Told};
use lines::Lines;
use orrery_proto::fleet::v1::LogsRequest;
use std::time::Duration;

pub async fn run(global: &Global, arguments: LogsArguments) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let mut signals = StopSignals::listen()?;
    let lines = Lines::new(arguments.timestamps);
    let output = Output::open(target.clone(), request(&target, arguments)).await?;
    tokio::select! {
        () = signals.next() => Err(Interrupted.into()),
        outcome = print_all(output, lines) => outcome,
    }
}

fn request(target: &Target, arguments: LogsArguments) -> LogsRequest {
    let (name, instance) = match arguments.name.split_once('/') {
        Some((workload, instance)) => (workload.to_owned(), instance.to_owned()),
        None => (arguments.name, String::new()),
    };
    let since_time = arguments.since_time.map(|time| prost_types::Timestamp {
        seconds: time.as_second(),
        nanos: time.subsec_nanosecond(),
    });
    LogsRequest {
        project: target.project(arguments.project.as_deref()),
        name,
        instance,
        follow: arguments.follow,
        tail_lines: arguments.tail,
        times: arguments.timestamps,
        // So that a connection that is lost can be gone on from.
        positions: arguments.follow,
        since_seconds: arguments.since.map(whole_seconds),
        since_time,
        ..LogsRequest::default()
    }
}

/// Rather a little more than a little less.
fn whole_seconds(span: Duration) -> i64 {
    let more = u64::from(0 < span.subsec_nanos());
    i64::try_from(span.as_secs().saturating_add(more)).unwrap_or(i64::MAX)
}

async fn print_all(mut output: Output, mut lines: Lines) -> anyhow::Result<()> {
    let mut problems = 0;
    while let Some(told) = output.next().await? {
        let piece = match told {
            Told::Notice(notice) => {
                print::note(&notice);
                continue;
            }
            Told::Piece(piece) => piece,
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_rounded_up() {
        for (millis, seconds) in [(1, 1), (1000, 1), (1001, 2), (600_000, 600)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
