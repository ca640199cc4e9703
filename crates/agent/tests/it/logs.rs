//! The output of programs, as it is read from afar.
use crate::lost::supervisor;
use crate::world::{Program, Server, World, exists, kill, read, wait_gone};
use orrery_proto::fleet::v1::{
    LogCancel, LogChunk, LogCredit, LogRequest, server_message::Message,
};
use prost_types::Timestamp;
use rustix::process::Signal;
use std::fs;

async fn ask(server: &Server, program: &Program, follow: bool, tail: Option<i64>, credit: u32) {
    let (stream, id) = ("s".to_owned(), program.id.clone());
    let request =
        LogRequest { stream, id, follow, tail_lines: tail, credit, ..LogRequest::default() };
    server.send(vec![Some(Message::Log(request))]).await;
}

fn output(server: &Server) -> &str {
    output_of(server, "s")
}

fn output_of<'a>(server: &'a Server, stream: &str) -> &'a str {
    server.output.get(stream).map_or("", String::as_str)
}

/// Asks for output on a stream of this name, with times and positions.
async fn ask_timed(server: &Server, stream: &str, program: &Program, more: LogRequest) {
    let (stream, id) = (stream.to_owned(), program.id.clone());
    let request = LogRequest { stream, id, times: true, positions: true, credit: 1000, ..more };
    server.send(vec![Some(Message::Log(request))]).await;
}

/// Where what has come on a stream ends.
fn position(server: &Server, stream: &str) -> String {
    server.chunks[stream].last().unwrap().position.clone()
}

/// The times of what has come on a stream, each with the text that it is about.
pub fn timed(server: &Server, stream: &str) -> Vec<(Timestamp, String)> {
    let chunks = server.chunks.get(stream).into_iter().flatten();
    let of_chunk = |chunk: &LogChunk| {
        let text = String::from_utf8(chunk.data.clone()).unwrap();
        let begins = chunk.times.iter().map(|time| time.offset as usize);
        let ends = begins.clone().skip(1).chain([text.len()]);
        let times = chunk.times.iter().map(|time| time.time.unwrap());
        let texts = begins.zip(ends).map(|(begin, end)| text[begin..end].to_owned());
        times.zip(texts).collect::<Vec<_>>()
    };
    chunks.flat_map(of_chunk).collect()
}

/// proves: AGT-15
#[tokio::test]
async fn output_is_followed_until_its_program_is_removed() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program =
        world.script("echo one; until [ -e $T/go ]; do sleep 0.01; done; echo two; sleep 60");
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    ask(&server, &program, true, None, 100).await;
    server.until_logged("the first line", |server| output(server) == "one\n").await;
    std::fs::write(world.path().join("go"), "").unwrap();
    server.until_logged("both lines", |server| output(server) == "one\ntwo\n").await;
    server.unassign(&program).await;
    server.until_logged("ended", |server| server.ended.contains_key("s")).await;
    assert_eq!(server.ended["s"], "");
}

#[tokio::test]
async fn the_last_lines_are_enough_when_asked_for() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("seq 1 20").restart("never");
    server.assign(&program).await;
    server.until_state(&program, "Succeeded").await;
    ask(&server, &program, false, Some(2), 100).await;
    server.until_logged("ended", |server| server.ended.contains_key("s")).await;
    assert_eq!(output(&server), "19\n20\n");
}

/// Five megabytes of output and a reader that has paid for one chunk: the program comes to its end,
/// the reader gets what is kept when it goes on, and is told that something is missing.
#[tokio::test]
async fn a_slow_reader_holds_up_nobody() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let script = "echo begin; until [ -e $T/go ]; do sleep 0.01; done; \
                  seq 1 800000; echo end > $T/done; sleep 60";
    let program = world.script(script);
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    ask(&server, &program, true, None, 1).await;
    server.until_logged("the first chunk", |server| output(server) == "begin\n").await;
    std::fs::write(world.path().join("go"), "").unwrap();
    assert_eq!(read(world.path().join("done")).await, "end", "nobody reads, and it goes on");
    assert_eq!(output(&server), "begin\n", "no credit, no chunk");
    let credit = LogCredit { stream: "s".into(), chunks: 1000 };
    server.send(vec![Some(Message::LogCredit(credit))]).await;
    server.until_logged("the end", |server| output(server).ends_with("800000\n")).await;
    assert!(output(&server).contains('~'), "what is missing is said");
    let cancel = LogCancel { stream: "s".into() };
    server.send(vec![Some(Message::LogCancel(cancel))]).await;
}

#[tokio::test]
async fn what_has_no_output_ends_at_once() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let mut stranger = world.script("true");
    ask(&server, &stranger, true, None, 1).await;
    server.until_logged("ended", |server| server.ended.contains_key("s")).await;
    assert_eq!((server.ended.remove("s").unwrap(), output(&server)), (String::new(), ""));
    stranger.id = "../escape".into();
    ask(&server, &stranger, false, None, 1).await;
    server.until_logged("refused", |server| server.ended.contains_key("s")).await;
    assert_eq!(server.ended["s"], "no instance can have this id");
}

/// Lines have the times at which they were written, and can be had since one of them.
///
/// proves: AGT-15
#[tokio::test]
async fn lines_are_had_since_a_time() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let text = "echo one; until [ -e $T/go ]; do sleep 0.01; done; printf tw; sleep 0.1; echo o; \
                echo three; sleep 60";
    let program = world.script(text);
    server.assign(&program).await;
    server.until_state(&program, "Running").await;
    ask_timed(&server, "s", &program, LogRequest { follow: true, ..LogRequest::default() }).await;
    server.until_logged("the first line", |server| output(server) == "one\n").await;
    fs::write(world.path().join("go"), "").unwrap();
    server.until_logged("all", |server| output(server).ends_with("three\n")).await;
    let times = timed(&server, "s");
    let second = times.iter().find(|(_, text)| text.starts_with("tw")).unwrap().0;
    assert!(
        times[0].0.seconds * 1000 + i64::from(times[0].0.nanos) / 1_000_000 > 1_700_000_000_000
    );
    assert!((times[0].0.seconds, times[0].0.nanos) < (second.seconds, second.nanos), "{times:?}");

    let since = |seconds, nanos| LogRequest {
        since_time: Some(Timestamp { seconds, nanos }),
        ..LogRequest::default()
    };
    let exact = since(second.seconds, second.nanos);
    let last = LogRequest { tail_lines: Some(1), ..exact.clone() };
    let recent = LogRequest { since_seconds: Some(600), ..LogRequest::default() };
    let cases = [
        ("exact", exact, "two\nthree\n"),
        ("last", last, "three\n"),
        ("recent", recent, "one\ntwo\nthree\n"),
        ("later", since(second.seconds + 3600, 0), ""),
    ];
    for (stream, request, expect) in cases {
        ask_timed(&server, stream, &program, request).await;
        server.until_logged("ended", |server| server.ended.contains_key(stream)).await;
        assert_eq!(output_of(&server, stream), expect, "{stream}");
    }
    assert_eq!(timed(&server, "exact")[0].0, second);
    let wrong = LogRequest { after: "there".into(), ..LogRequest::default() };
    ask_timed(&server, "wrong", &program, wrong).await;
    server.until_logged("refused", |server| server.ended.contains_key("wrong")).await;
    assert!(server.ended["wrong"].contains("no position"), "{}", server.ended["wrong"]);
}

/// Whoever reads goes on where they stopped, over agents and supervisors that are killed; and the times
/// of what was written meanwhile are known.
///
/// proves: AGT-14, AGT-15
#[tokio::test]
async fn reading_goes_on_over_the_end_of_an_agent() {
    let world = World::new();
    let (agent, mut server) = world.killable_agent().await;
    // Each run begins where the one before was killed, or a line later.
    let text = "while :; do i=$(cat $T/i 2>/dev/null || echo 0); echo line $i; echo $((i+1)) > $T/j; mv $T/j $T/i; sleep 0.01; done";
    let program = world.script(text);
    server.assign(&program).await;
    let pid = server.until_state(&program, "Running").await.pid.unwrap();
    let follow = LogRequest { follow: true, ..LogRequest::default() };
    ask_timed(&server, "s", &program, follow.clone()).await;
    server.until_logged("lines", |server| output(server).lines().count() > 10).await;
    let (mut read, mut times, mut after) =
        (output(&server).to_owned(), timed(&server, "s"), position(&server, "s"));
    agent.kill().await;
    assert!(exists(pid));
    for round in 0..2 {
        let (agent, mut server) = world.killable_agent().await;
        if round == 1 {
            // The next run is the work of another supervisor.
            let supervisor = supervisor(pid);
            kill(supervisor, Signal::KILL);
            wait_gone(supervisor).await;
            let again = |status: &orrery_proto::apps::v1::WorkloadInstanceStatus| {
                status.state == "Running" && status.restarts == 1
            };
            server.until(&program, "started again", again).await;
        }
        ask_timed(&server, "s", &program, LogRequest { after, ..follow.clone() }).await;
        let enough = |server: &Server| output(server).lines().count() > 30;
        server.until_logged("more lines", enough).await;
        read.push_str(output(&server));
        times.extend(timed(&server, "s"));
        after = position(&server, "s");
        agent.kill().await;
    }
    assert!(!read.contains('~'), "{read}");
    let numbers: Vec<i64> =
        read.lines().filter_map(|line| line.strip_prefix("line ")?.parse().ok()).collect();
    assert_eq!(numbers[0], 0);
    let steps = numbers.windows(2).map(|pair| pair[1] - pair[0]);
    // The run whose supervisor was killed may not have counted its last line, and what stood in the pipe
    // between them is lost.
    let odd = steps.filter(|step| *step != 1).collect::<Vec<_>>();
    assert!(odd.is_empty() || odd == [0] || odd == [2], "{odd:?}: {read}");
    let order: Vec<(i64, i32)> = times.iter().map(|(time, _)| (time.seconds, time.nanos)).collect();
    assert!(order.is_sorted() && order.len() > 30, "{order:?}");
    let (_agent, mut server) = world.killable_agent().await;
    server.assign_set(&[]).await;
    server.until_state(&program, "Removed").await;
}

/// What an earlier version has written stays readable, with the time of its files.
#[tokio::test]
async fn output_of_an_earlier_version_is_read_on() {
    let world = World::new();
    let (_agent, mut server) = world.agent().await;
    let program = world.script("echo new").restart("never");
    let log = world.instance_dir(&program.id).join("log");
    fs::create_dir_all(&log).unwrap();
    fs::write(log.join("previous"), "oldest\n").unwrap();
    fs::write(log.join("current"), "old\n").unwrap();
    ask_timed(&server, "before", &program, LogRequest::default()).await;
    server.until_logged("ended", |server| server.ended.contains_key("before")).await;
    assert_eq!(output_of(&server, "before"), "oldest\nold\n");
    let before = timed(&server, "before");
    assert_eq!(before.len(), 2);
    let after = position(&server, "before");
    server.assign(&program).await;
    server.until_state(&program, "Succeeded").await;
    ask_timed(&server, "all", &program, LogRequest::default()).await;
    ask_timed(&server, "rest", &program, LogRequest { after, ..LogRequest::default() }).await;
    server.until_logged("ended", |server| server.ended.contains_key("rest")).await;
    server.until_logged("ended", |server| server.ended.contains_key("all")).await;
    assert_eq!(output_of(&server, "all"), "oldest\nold\nnew\n");
    assert_eq!(output_of(&server, "rest"), "new\n");
    let millis = |time: Timestamp| (time.seconds, time.nanos / 1_000_000);
    assert_eq!(millis(timed(&server, "all")[1].0), millis(before[1].0), "its time stays");
}
