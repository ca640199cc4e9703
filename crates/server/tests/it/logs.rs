//! The output of copies as plain text, with an agent in the test's hands.
use crate::access::{bind, certificate, until};
use crate::lasting::unbind;
use crate::sockets::stage;
use crate::wire::{Tls, address, ask, open};
use orrery_pki::{ADMINS, Role, TlsMaterial};
use orrery_proto::fleet::v1::{
    LogChunk, LogEnd, LogRequest, ToServer, server_message::Message, to_server,
};
use orrery_testkit::agent::FakeAgent;
use orrery_testkit::world::{SOON, World};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};

const LOG: &str = "/apis/apps.orrery.dev/v1/namespaces/demo/workloads/web/log";

/// The text of an answer, line by line, with what HTTP says between.
async fn read(world: &World, who: &TlsMaterial, query: &str) -> Lines<BufReader<Tls>> {
    let mut tls = open(address(world), who, b"http/1.1").await;
    let request = format!("GET {LOG}?{query} HTTP/1.1\r\nHost: x\r\n\r\n");
    tls.write_all(request.as_bytes()).await.unwrap();
    BufReader::new(tls).lines()
}

/// Waits for a line like this.
async fn line(lines: &mut Lines<BufReader<Tls>>, words: &str) -> String {
    let looking = async {
        let mut seen = Vec::new();
        loop {
            match lines.next_line().await.unwrap() {
                Some(line) if line.contains(words) => return line,
                Some(line) => seen.push(line),
                None => panic!("no {words:?} in {seen:#?}"),
            }
        }
    };
    tokio::time::timeout(SOON, looking).await.expect("it is said in time")
}

/// What the agent is asked for.
async fn asked(agent: &mut FakeAgent) -> LogRequest {
    loop {
        if let Message::Log(request) = agent.next().await.expect("the connection is open") {
            return request;
        }
    }
}

async fn tell(agent: &FakeAgent, message: to_server::Message) {
    agent.to_server.send(ToServer { message: Some(message) }).await.unwrap();
}

async fn write(agent: &FakeAgent, stream: &str, data: &str, gap: bool) {
    let chunk =
        LogChunk { stream: stream.into(), data: data.into(), gap, ..LogChunk::default() };
    tell(agent, to_server::Message::LogChunk(chunk)).await;
}

#[tokio::test]
async fn output_is_followed_until_nobody_reads_it() {
    let (world, mut agent) = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let mut reader = read(&world, &admin, "follow=true&tailLines=3").await;
    let request = asked(&mut agent).await;
    assert_eq!((request.follow, request.tail_lines), (true, Some(3)));
    write(&agent, &request.stream, "one\nha", false).await;
    assert!(line(&mut reader, "text/plain").await.to_lowercase().starts_with("content-type"));
    line(&mut reader, "one").await;
    write(&agent, &request.stream, "two\n", true).await;
    line(&mut reader, "[orrery] web-edge-1").await;
    line(&mut reader, "two").await;
    drop(reader);
    let cancelled = async {
        loop {
            match agent.next().await.expect("the connection is open") {
                Message::LogCancel(cancel) if cancel.stream == request.stream => return,
                _ => {}
            }
        }
    };
    tokio::time::timeout(SOON, cancelled).await.expect("the agent is told");
}

#[tokio::test]
async fn output_that_ends_says_why() {
    let (world, mut agent) = stage().await;
    bind(&world, "demo", "viewer", "ann").await;
    let ann = certificate(&world, Role::User, "ann", None);
    until("the binding counts", async || {
        let path = LOG.trim_end_matches("/log");
        (ask(&world, &ann, "GET", path, &[], "").await.0 == 200).then_some(())
    })
    .await;
    let mut reader = read(&world, &ann, "follow=true").await;
    let request = asked(&mut agent).await;
    write(&agent, &request.stream, "one\n", false).await;
    line(&mut reader, "one").await;
    unbind(&world, "ann-viewer").await;
    let last = line(&mut reader, "[orrery]").await;
    assert!(last.contains("cannot get workloads/log in project \"demo\""), "{last}");
    line(&mut reader, "0").await;

    // One that could not be read at all is refused with a code.
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let refused = async { ask(&world, &admin, "GET", LOG, &[], "").await };
    let ending = async {
        let stream = asked(&mut agent).await.stream;
        let end = LogEnd { stream, problem: "its disk is gone".into() };
        tell(&agent, to_server::Message::LogEnd(end)).await;
    };
    let ((code, status), ()) = tokio::join!(refused, ending);
    assert_eq!((code, &status["reason"]), (503, &"ServiceUnavailable".into()), "{status}");
    assert!(status["message"].as_str().unwrap().contains("its disk is gone"), "{status}");
    drop(agent);
    let away = async || {
        let path = format!("{LOG}?follow=true");
        let (code, status) = ask(&world, &admin, "GET", &path, &[], "").await;
        status.to_string().contains("not connected").then_some(code)
    };
    assert_eq!(until("the agent is away", away).await, 503);
}

#[tokio::test]
async fn what_cannot_be_had_is_refused() {
    let (world, _agent) = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let nobody = certificate(&world, Role::User, "nobody", None);
    let ghost = LOG.replace("web", "ghost");
    let elsewhere = LOG.replace("demo", "elsewhere");
    let cases = [
        (&admin, "GET", LOG.to_owned() + "?timestamps=true", 400, "without times"),
        (&admin, "GET", LOG.to_owned() + "?tail=5", 400, "no parameter"),
        (&admin, "GET", LOG.to_owned() + "?container=x", 400, "no copy"),
        (&admin, "GET", ghost, 404, "not found"),
        (&admin, "GET", elsewhere, 404, "not found"),
        (&admin, "POST", LOG.to_owned(), 405, "does not allow"),
        (&admin, "GET", LOG.replace("workloads/web", "secrets/web"), 404, "could not find"),
        (&nobody, "GET", LOG.to_owned(), 403, "cannot get workloads/log"),
    ];
    for (who, method, path, code, words) in cases {
        let (said, status) = ask(&world, who, method, &path, &[], "").await;
        assert_eq!(said, code, "{method} {path}: {status}");
        assert!(status["message"].as_str().unwrap().contains(words), "{method} {path}: {status}");
    }
}
