//! The output of copies as plain text, with an agent in the test's hands.
use crate::access::{bind, certificate, until};
use crate::lasting::unbind;
use crate::sockets::stage;
use crate::wire::{Tls, address, ask, open};
use orrery_pki::{ADMINS, Role, TlsMaterial};
use orrery_proto::fleet::v1::{
    LogChunk, LogEnd, LogRequest, LogTime, ToServer, server_message::Message, to_server,
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
    let chunk = LogChunk { stream: stream.into(), data: data.into(), gap, ..LogChunk::default() };
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
        (&admin, "GET", LOG.to_owned() + "?sinceTime=soon", 400, "sinceTime: \"soon\" is no time"),
        (&admin, "GET", LOG.to_owned() + "?sinceSeconds=0", 422, "sinceSeconds: Invalid value: 0"),
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

/// Lines come with the times that the agent says, and since the time that is asked for.
#[tokio::test]
async fn times_are_asked_of_the_agent_and_stand_before_lines() {
    let (world, mut agent) = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let query = "follow=true&timestamps=true&sinceSeconds=60&tailLines=5&limitBytes=45";
    let mut reader = read(&world, &admin, query).await;
    let request = asked(&mut agent).await;
    let expect = (true, Some(60), Some(5), true);
    let asked_for = (request.times, request.since_seconds, request.tail_lines, request.follow);
    assert_eq!(asked_for, expect);
    let time = prost_types::Timestamp { seconds: 1_795_000_000, nanos: 5 };
    let chunk = LogChunk {
        stream: request.stream,
        data: b"one\ntwo two two two".to_vec(),
        times: vec![LogTime { offset: 0, time: Some(time) }],
        position: "place-1".into(),
        ..LogChunk::default()
    };
    tell(&agent, to_server::Message::LogChunk(chunk)).await;
    line(&mut reader, "2026-11-18T11:06:40.000000005Z one").await;
    // Times count as bytes, and so the answer ends here.
    let cut = line(&mut reader, "2026").await;
    assert_eq!(cut, "2026-11-18");
    line(&mut reader, "0").await;

    let mut reader = read(&world, &admin, "sinceTime=2026-11-18T11:06:40Z").await;
    let request = asked(&mut agent).await;
    let since = request.since_time.map(|time| (time.seconds, time.nanos));
    assert_eq!((since, request.times), (Some((1_795_000_000, 0)), false));
    tell(&agent, to_server::Message::LogEnd(LogEnd { stream: request.stream, ..<_>::default() }))
        .await;
    line(&mut reader, "200 OK").await;
}

/// An agent that does not know times says no positions, and sends what was not asked for.
#[tokio::test]
async fn an_agent_of_an_earlier_version_has_no_times() {
    let (world, mut agent) = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    for query in ["timestamps=true", "sinceSeconds=5", "sinceTime=2026-11-18T11:06:40Z"] {
        let path = format!("{LOG}?{query}");
        let asking = async { ask(&world, &admin, "GET", &path, &[], "").await };
        let answering = async {
            let stream = asked(&mut agent).await.stream;
            write(&agent, &stream, "all that it has\n", false).await;
        };
        let ((code, status), ()) = tokio::join!(asking, answering);
        assert_eq!(code, 503, "{status}");
        assert!(status["message"].as_str().unwrap().contains("keeps no times"), "{status}");
    }
    // Without them it is read as ever.
    let mut reader = read(&world, &admin, "follow=true").await;
    let stream = asked(&mut agent).await.stream;
    write(&agent, &stream, "one\n", false).await;
    line(&mut reader, "one").await;
}
