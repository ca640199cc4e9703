use super::{Talk, Target, Wire};
use bytes::{Bytes, BytesMut};
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::io::DuplexStream;

const CALLS: usize = 500;
/// More than fits into the first window of a connection, all told.
const BYTES: usize = 1000;

/// A server that answers with what it was asked, or refuses.
async fn serve(io: DuplexStream, refuse: bool) {
    let mut connection = h2::server::handshake(io).await.unwrap();
    while let Some(accepted) = connection.accept().await {
        let Ok((request, respond)) = accepted else { return };
        tokio::spawn(answer(request, respond, refuse));
    }
}

async fn answer(request: Request<h2::RecvStream>, mut respond: SendResponse<Bytes>, refuse: bool) {
    assert_eq!(request.uri(), "http://test/a.B/C");
    assert_eq!(request.headers()["key"], "value");
    let mut status = HeaderMap::new();
    status.insert("grpc-status", HeaderValue::from_static(if refuse { "7" } else { "0" }));
    if refuse {
        let mut head = Response::new(());
        *head.headers_mut() = status;
        respond.send_response(head, true).unwrap();
        return;
    }
    let mut body = request.into_body();
    let mut reply = respond.send_response(Response::new(()), false).unwrap();
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        body.flow_control().release_capacity(data.len()).unwrap();
        reply.send_data(data, false).unwrap();
    }
    reply.send_trailers(status).unwrap();
}

const TARGET: Target<'static> =
    Target { scheme: "http", authority: "test", path: "/a.B/C", metadata: &[("key", "value")] };

fn connected(refuse: bool) -> DuplexStream {
    let (client, server) = tokio::io::duplex(8 << 10);
    tokio::spawn(serve(server, refuse));
    client
}

fn wire(refuse: bool) -> Wire<DuplexStream> {
    Wire::new(connected(refuse), &TARGET).unwrap()
}

fn messages(count: usize) -> impl FnMut(&mut BytesMut) -> bool {
    let mut left = count;
    move |to| {
        let more = left != 0;
        left = left.saturating_sub(1);
        to.extend_from_slice(&vec![7; if more { BYTES } else { 0 }]);
        more
    }
}

#[tokio::test]
async fn every_call_is_answered_with_its_message() {
    let mut answers = 0;
    let check = |answer: &[u8]| {
        assert_eq!(answer, [7; BYTES]);
        answers += 1;
        Ok(())
    };
    let latencies = wire(false).call_all(16, messages(CALLS), check).await.unwrap();
    assert_eq!((latencies.len(), answers), (CALLS, CALLS));
}

#[tokio::test]
async fn a_call_that_is_refused_is_an_error() {
    let outcome = wire(true).call_all(1, messages(1), |_| Ok(())).await;
    let said = format!("{:#}", outcome.unwrap_err());
    assert!(said.contains("no message"), "{said}");
}

#[tokio::test]
async fn an_answer_that_is_not_as_expected_is_an_error() {
    let outcome = wire(false).call_all(1, messages(1), |_| anyhow::bail!("another answer")).await;
    assert_eq!(outcome.unwrap_err().to_string(), "another answer");
}

#[tokio::test]
async fn a_talk_goes_on_longer_than_every_window() {
    let mut talk = Talk::new(connected(false), &TARGET).unwrap();
    for number in 0..3000_u32 {
        let said = [number.to_be_bytes().as_slice(), &[7; BYTES]].concat();
        talk.say(&said).await.unwrap();
        let heard = talk.hear().await.unwrap().expect("it goes on");
        assert_eq!(heard, said, "message {number}");
    }
}

#[tokio::test]
async fn a_talk_that_is_refused_ends() {
    let mut talk = Talk::new(connected(true), &TARGET).unwrap();
    assert_eq!(talk.hear().await.unwrap(), None);
}
