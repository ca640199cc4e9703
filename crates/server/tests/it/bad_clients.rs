//! Clients that are slow, silent, greedy or gone: the server answers or drops them, and goes on.
use crate::support::{PATIENCE, WORKLOADS, World, workload};
use axum::body::Body;
use axum::http::Method;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use orrery_pki::TlsFiles;
use orrery_server::{ConnectionThreads, Operations};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

async fn connect(world: &World, head: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&world.address).await.expect("connected");
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream
}

/// Everything until the server ends the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(10 * PATIENCE, stream.read_to_end(&mut answer)).await;
    // A connection that is cut off is as good as one that is closed.
    let _ = read.expect("the server ends it");
    String::from_utf8_lossy(&answer).into_owned()
}

/// A server in which time passes at once where it is paused: whoever waits, waits for a peer that does nothing.
async fn timeless() -> World {
    let operations = Operations { threads: ConnectionThreads::Server, ..Operations::default() };
    World::operated(TlsFiles::default(), operations).await
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let world = timeless().await;
    let head = format!(
        "POST {WORKLOADS} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\n{{\"me"
    );
    let slow = connect(&world, &head).await;
    tokio::time::pause();
    let text = rest(slow).await;
    tokio::time::resume();
    assert!(text.starts_with("HTTP/1.1 408") && text.contains("did not come in time"), "{text}");
    assert_eq!(world.get(WORKLOADS).await.expect(200)["items"], json!([]));
}

/// Clients that write all before they read anything are told why they were refused, whoever has decided it.
#[tokio::test]
async fn a_body_that_nobody_wants_keeps_no_client_from_its_answer() {
    let world = World::start().await;
    let files = "/apis/apps.orrery.dev/v1/namespaces/default/workloads/absent/artifacts";
    let cases = [
        (WORKLOADS.to_owned(), "", 4 << 20, "413"),
        (format!("{files}/huge"), "", (48 << 20) + 1, "413"),
        (format!("{files}/large"), "", 40 << 20, "404"),
        ("/apis/apps.orrery.dev/v9/workloads".to_owned(), "", 9 << 20, "404"),
        (WORKLOADS.to_owned(), "authorization: Bearer wrong\r\n", 9 << 20, "401"),
    ];
    for (path, headers, length, code) in cases {
        let method = if path == WORKLOADS { "POST" } else { "PUT" };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\n{headers}connection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        for _ in 0..5 {
            let mut client = connect(&world, &head).await;
            let sent = client.write_all(&vec![b' '; length]).await;
            assert!(sent.is_ok(), "{method} {path}, {length} bytes: {sent:?}");
            let answer = rest(client).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{path}: {answer}");
        }
    }
}

/// Who waits to be asked for the body is answered without it.
#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_answered_at_once() {
    let world = World::start().await;
    let head = "PUT /apis/apps.orrery.dev/v9/workloads HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 1000\r\n\r\n";
    let answer = rest(connect(&world, head).await).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test]
async fn a_head_that_does_not_come_is_not_waited_for() {
    let world = timeless().await;
    let slow =
        connect(&world, &format!("GET {WORKLOADS} HTTP/1.1\r\nhost: localhost\r\nx-slow: a")).await;
    tokio::time::pause();
    let text = rest(slow).await;
    tokio::time::resume();
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 408"), "{text}");
    world.get(WORKLOADS).await.expect(200);
}

/// What it does not read would stay in memory for as long as it likes.
#[tokio::test]
async fn a_client_that_reads_nothing_is_dropped() {
    let world = timeless().await;
    let mut large = workload("a");
    large["metadata"]["annotations"] = json!({ "x": "x".repeat(250_000) });
    for name in ["a", "b", "c", "d"] {
        large["metadata"]["name"] = json!(name);
        world.post(WORKLOADS, &large).await.expect(201);
    }
    let request = format!("GET {WORKLOADS} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    let greedy = connect(&world, &request.repeat(64)).await;
    tokio::time::pause();
    // Nothing is read until the server must have lost its patience.
    tokio::time::sleep(3 * PATIENCE).await;
    let text = rest(greedy).await;
    tokio::time::resume();
    assert!(text.len() < 64 * 1_000_000, "not everything that was asked for came: {}", text.len());
    world.get(WORKLOADS).await.expect(200);
}

#[tokio::test]
async fn a_watcher_that_says_goodbye_is_let_go() {
    let world = World::start().await;
    let mut stream =
        connect(&world, &format!("GET {WORKLOADS}?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n"))
            .await;
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("a head");
    assert_eq!(&first, b"HTTP/1.1 200");
    stream.shutdown().await.expect("closed for writing");
    rest(stream).await;
    world.get(WORKLOADS).await.expect(200);
}

#[tokio::test]
async fn heads_have_limits() {
    let world = World::start().await;
    let many: String = (0..2000).map(|n| format!("x-{n}: y\r\n")).collect();
    let text =
        rest(connect(&world, &format!("GET {WORKLOADS} HTTP/1.1\r\n{many}\r\n")).await).await;
    assert!(text.starts_with("HTTP/1.1 431"), "{text}");
    let long = format!("GET {WORKLOADS}?x={} HTTP/1.1\r\n\r\n", "y".repeat(100_000));
    let text = rest(connect(&world, &long).await).await;
    assert!(text.starts_with("HTTP/1.1 414") || text.starts_with("HTTP/1.1 431"), "{text}");
    let text = rest(connect(&world, "\u{0}\u{1}\u{2} nonsense\r\n\r\n").await).await;
    assert!(text.starts_with("HTTP/1.1 400"), "{text}");
    world.get(WORKLOADS).await.expect(200);
}

/// Over HTTP/2 a stream is refused, and the connection carries the others on.
#[tokio::test]
async fn heads_have_limits_over_http2_too() {
    let mut world = World::start().await;
    world.client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
    let long = "x".repeat(1 << 20);
    let headers = [("x-long", long.as_str())];
    let request = world.request(Method::GET, WORKLOADS, &headers, Body::empty());
    if let Ok(answer) = world.client.request(request).await {
        assert_eq!(answer.status().as_u16(), 431);
    }
    world.get(WORKLOADS).await.expect(200);
}

/// Memory of this process, with the server and the clients in it.
fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("readable");
    let pages = text.split(' ').nth(1).expect("a figure").parse::<usize>().expect("a number");
    pages * 4096
}

/// Both ends of an idle watch may cost so much together.
const IDLE_WATCH_BYTES_MAX: usize = 64 << 10;
const IDLE_WATCHES: usize = 2000;
/// A connection carries about a thousand streams.
const ON_ONE_CONNECTION: usize = 500;

#[tokio::test]
async fn thousands_of_idle_watches_cost_little() {
    let mut world = World::start().await;
    let mut open = Vec::new();
    let before = resident_bytes();
    for _ in 0..IDLE_WATCHES / ON_ONE_CONNECTION {
        world.client = Client::builder(TokioExecutor::new()).http2_only(true).build_http();
        let path = format!("{WORKLOADS}?watch=true&allowWatchBookmarks=true&resourceVersion=0");
        let watches = (0..ON_ONE_CONNECTION).map(|_| world.watch(&path, "application/json"));
        for mut events in futures::future::join_all(watches).await {
            assert_eq!(events.next().await.expect("a bookmark")["type"], "BOOKMARK");
            open.push(events);
        }
    }
    let cost = resident_bytes().saturating_sub(before) / IDLE_WATCHES;
    assert!(cost < IDLE_WATCH_BYTES_MAX, "{cost} bytes for each");
    world.post(WORKLOADS, &workload("a")).await.expect(201);
    for events in &mut open {
        loop {
            let event = events.next().await.expect("an event");
            if event["type"] != "BOOKMARK" {
                break assert_eq!(event["object"]["metadata"]["name"], "a");
            }
        }
    }
}

#[tokio::test]
async fn large_answers_are_compressed_for_those_who_ask() {
    let world = World::start().await;
    let mut large = workload("a");
    large["metadata"]["annotations"] = json!({ "x": "x".repeat(250_000) });
    world.post(WORKLOADS, &large).await.expect(201);
    let gzip = [("accept-encoding", "gzip"), ("accept", "application/json")];
    let answer =
        world.client.request(world.request(Method::GET, WORKLOADS, &gzip, Body::empty())).await;
    let answer = answer.expect("an answer");
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let bytes =
        http_body_util::BodyExt::collect(answer.into_body()).await.expect("a body").to_bytes();
    assert!(bytes.len() < 50_000, "{}", bytes.len());
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::GzDecoder::new(bytes.as_ref()), &mut text)
        .expect("gzip");
    let list: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(list["items"][0]["metadata"]["name"], "a");
    let plain = world.get(WORKLOADS).await;
    assert_eq!(plain.header("content-encoding"), None);
    let small = world
        .send(world.request(Method::GET, "/apis/apps.orrery.dev/v1", &gzip, Body::empty()))
        .await;
    assert_eq!(small.header("content-encoding"), None);
}
