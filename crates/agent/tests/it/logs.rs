//! The output of programs, as it is read from afar.
use crate::world::{Program, Server, World, read};
use orrery_proto::fleet::v1::{LogCancel, LogCredit, LogRequest, server_message::Message};

async fn ask(server: &Server, program: &Program, follow: bool, tail: Option<i64>, credit: u32) {
    let request =
        LogRequest { stream: "s".into(), id: program.id.clone(), follow, tail_lines: tail, credit };
    server.send(vec![Some(Message::Log(request))]).await;
}

fn output(server: &Server) -> &str {
    server.output.get("s").map_or("", String::as_str)
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
