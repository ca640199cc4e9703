//! Callers that say nothing any more. The time is the test's: it moves when nothing else does.
use super::{KEEP_ALIVE_INTERVAL, KEEP_ALIVE_TIMEOUT, PREFACE_TIMEOUT, serve};
use crate::proxy::{Body, Received, Reset};
use http::{Request, Response};
use tokio::io::{AsyncWriteExt as _, DuplexStream};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Answers everything with nothing.
fn served(stop: &CancellationToken) -> (DuplexStream, JoinHandle<Result<(), String>>) {
    let (caller, io) = tokio::io::duplex(64 << 10);
    let stop = stop.clone();
    let answer = |_: Request<Received>| async { Ok::<_, Reset>(Response::new(Body::Empty)) };
    (caller, tokio::spawn(async move { serve(io, answer, stop).await }))
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_never_begins_gives_its_place_back() {
    let begun = Instant::now();
    let (_silent, serving) = served(&CancellationToken::new());
    let said = serving.await.unwrap().unwrap_err();
    assert!(said.contains("did not begin"), "{said}");
    assert_eq!(begun.elapsed().as_secs(), PREFACE_TIMEOUT.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_vanished_gives_its_place_back() {
    let begun = Instant::now();
    let (mut caller, serving) = served(&CancellationToken::new());
    // The preface and empty settings, and then never a word.
    caller.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let said = serving.await.unwrap().unwrap_err();
    assert!(said.contains("does not answer"), "{said}");
    let expect = KEEP_ALIVE_INTERVAL + KEEP_ALIVE_TIMEOUT;
    assert_eq!(begun.elapsed().as_secs(), expect.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_answers_stays_as_long_as_it_likes() {
    let stop = CancellationToken::new();
    let (caller, serving) = served(&stop);
    let (send, connection) = h2::client::handshake(caller).await.unwrap();
    let driving = tokio::spawn(connection);
    tokio::time::sleep(10 * (KEEP_ALIVE_INTERVAL + KEEP_ALIVE_TIMEOUT)).await;
    let mut send = send.ready().await.unwrap();
    let request = Request::post("http://test/a.B/C").body(()).unwrap();
    let (response, _) = send.send_request(request, true).unwrap();
    assert!(response.await.unwrap().body().is_end_stream());
    // Told to stop, it says so to the caller, who closes without an error; the server may still have
    // had something to say.
    stop.cancel();
    drop(send);
    driving.await.unwrap().unwrap();
    let _pipe_may_be_broken = serving.await.unwrap();
}
