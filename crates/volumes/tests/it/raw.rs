//! Frames and reset codes, seen with HTTP/2 itself on both sides.
use crate::world::{Registry, registry, soon};
use bytes::Bytes;
use h2::{Reason, client::SendRequest, server::SendResponse};
use http::{HeaderMap, Request, Response};
use orrery_volumes::ServeConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

type Accepted = (Request<h2::RecvStream>, SendResponse<Bytes>);

struct World {
    _registry: Registry,
    client: SendRequest<Bytes>,
    /// Streams as they arrive at the controller.
    upstream: mpsc::Receiver<Accepted>,
}

async fn world() -> World {
    let registry = registry(ServeConfig::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    registry.register("host-1", &listener.local_addr().unwrap().to_string()).await;
    let (accepted, upstream) = mpsc::channel(8);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok(stream)) = connection.accept().await {
                accepted.send(stream).await.unwrap();
            }
        }
    });
    let client = client(&registry).await;
    World { _registry: registry, client, upstream }
}

async fn client(registry: &Registry) -> SendRequest<Bytes> {
    let stream = TcpStream::connect(registry.address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    client
}

fn head() -> Request<()> {
    Request::post("http://storage.example:8999/any.Service/Method?query=kept")
        .header("controllerid", "host-1")
        .header("content-type", "application/grpc+anything")
        .header("te", "trailers")
        .header("user-agent", "raw/1")
        .body(())
        .unwrap()
}

async fn frames(body: &mut h2::RecvStream) -> (Vec<u8>, Option<HeaderMap>) {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.unwrap();
        body.flow_control().release_capacity(chunk.len()).unwrap();
        bytes.extend_from_slice(&chunk);
    }
    (bytes, body.trailers().await.unwrap())
}

/// proves: VOL-03
#[tokio::test]
async fn head_body_and_trailers_are_the_same_on_both_sides() {
    let mut world = world().await;
    let (response, mut send) = world.client.send_request(head(), false).unwrap();
    send.send_data("question".into(), true).unwrap();

    let (mut request, mut respond) = soon(world.upstream.recv()).await.unwrap();
    assert_eq!(request.uri(), "http://storage.example:8999/any.Service/Method?query=kept");
    assert_eq!(*request.headers(), *head().headers());
    assert_eq!(soon(frames(request.body_mut())).await, (b"question".to_vec(), None));

    let answer = Response::builder().status(207).header("x-one", "1").body(()).unwrap();
    let mut reply = respond.send_response(answer, false).unwrap();
    reply.send_data("answer".into(), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.append("grpc-status", "0".parse().unwrap());
    trailers.append("x-after", "a".parse().unwrap());
    trailers.append("x-after", "b".parse().unwrap());
    reply.send_trailers(trailers.clone()).unwrap();

    let response = soon(response).await.unwrap();
    assert_eq!((response.status().as_u16(), response.headers().len()), (207, 1));
    let found = soon(frames(&mut response.into_body())).await;
    assert_eq!(found, (b"answer".to_vec(), Some(trailers)));
}

/// proves: VOL-04
#[tokio::test]
async fn an_answer_of_the_registry_itself_is_trailers_only() {
    let mut world = world().await;
    let mut request = head();
    request.headers_mut().remove("controllerid");
    let (response, _send) = world.client.send_request(request, false).unwrap();
    let response = soon(response).await.unwrap();
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["grpc-status"], "12");
    assert_eq!(response.headers()["content-type"], "application/grpc");
    assert!(response.body().is_end_stream(), "the head is the end of the stream");
}

/// proves: VOL-03
#[tokio::test]
async fn a_trailers_only_answer_stays_one_frame() {
    let mut world = world().await;
    let (response, _send) = world.client.send_request(head(), true).unwrap();
    let (_request, mut respond) = soon(world.upstream.recv()).await.unwrap();
    let answer = Response::builder().header("grpc-status", "5").body(()).unwrap();
    respond.send_response(answer, true).unwrap();
    let response = soon(response).await.unwrap();
    assert_eq!(response.headers()["grpc-status"], "5");
    assert!(response.body().is_end_stream());
}

/// proves: VOL-03
#[tokio::test]
async fn a_reset_by_the_caller_reaches_the_controller_with_its_code() {
    let mut world = world().await;
    for code in [Reason::CANCEL, Reason::ENHANCE_YOUR_CALM, Reason::INTERNAL_ERROR] {
        let (_response, mut send) = world.client.send_request(head(), false).unwrap();
        let (_request, mut respond) = soon(world.upstream.recv()).await.unwrap();
        send.send_reset(code);
        let reset = soon(std::future::poll_fn(|context| respond.poll_reset(context))).await;
        assert_eq!(reset.unwrap(), code);
    }
}

#[track_caller]
fn reset_code(error: &h2::Error, expect: Reason) {
    assert_eq!((error.is_reset(), error.reason()), (true, Some(expect)), "{error}");
}

/// proves: VOL-03
#[tokio::test]
async fn a_reset_by_the_controller_reaches_the_caller_with_its_code() {
    let mut world = world().await;
    for reason in [Reason::CANCEL, Reason::ENHANCE_YOUR_CALM, Reason::REFUSED_STREAM] {
        let (response, _send) = world.client.send_request(head(), false).unwrap();
        let (_request, mut respond) = soon(world.upstream.recv()).await.unwrap();
        respond.send_reset(reason);
        reset_code(&soon(response).await.unwrap_err(), reason);
    }
    // In the middle of a reply as well.
    let (response, _send) = world.client.send_request(head(), false).unwrap();
    let (_request, mut respond) = soon(world.upstream.recv()).await.unwrap();
    let mut reply = respond.send_response(Response::new(()), false).unwrap();
    reply.send_data("half".into(), false).unwrap();
    let mut body = soon(response).await.unwrap().into_body();
    assert_eq!(soon(body.data()).await.unwrap().unwrap(), "half");
    reply.send_reset(Reason::CANCEL);
    reset_code(&soon(body.data()).await.unwrap().unwrap_err(), Reason::CANCEL);
}

/// A controller that reads nothing makes the caller wait; it does not fill the proxy's memory.
/// proves: VOL-03
#[tokio::test]
async fn flow_control_reaches_from_end_to_end() {
    let mut world = world().await;
    let (_response, mut send) = world.client.send_request(head(), false).unwrap();
    let (mut request, _respond) = soon(world.upstream.recv()).await.unwrap();
    // More than both windows and all buffers between the two ends can hold together.
    let total: usize = 64 << 20;
    send.reserve_capacity(total);
    let (stalled, mut progress) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut left = total;
        while left > 0 {
            let wait = std::future::poll_fn(|context| send.poll_capacity(context));
            let capacity = wait.await.unwrap().unwrap().min(left);
            send.send_data(Bytes::from(vec![0; capacity]), capacity == left).unwrap();
            left -= capacity;
            send.reserve_capacity(left);
            if stalled.send(total - left).await.is_err() {
                return;
            }
        }
    });
    let mut sent = 0;
    while let Ok(more) =
        tokio::time::timeout(std::time::Duration::from_secs(1), progress.recv()).await
    {
        sent = more.expect("the sender waits");
    }
    assert!(sent < total / 2, "{sent} bytes were taken though nobody read them");
    drop(progress);
    let mut arrived = 0;
    while arrived < sent {
        let chunk = soon(request.body_mut().data()).await.unwrap().unwrap();
        request.body_mut().flow_control().release_capacity(chunk.len()).unwrap();
        arrived += chunk.len();
    }
}

/// proves: VOL-03
#[tokio::test]
async fn a_controller_that_dies_in_the_middle_of_a_reply_is_unavailable() {
    let registry = registry(ServeConfig::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    registry.register("host-1", &listener.local_addr().unwrap().to_string()).await;
    let mut client = client(&registry).await;
    let (response, _send) = client.send_request(head(), true).unwrap();
    {
        let (stream, _) = soon(listener.accept()).await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_request, mut respond) = soon(connection.accept()).await.unwrap().unwrap();
        let mut reply = respond.send_response(Response::new(()), false).unwrap();
        reply.send_data("half".into(), false).unwrap();
        let flushed = std::future::poll_fn(|context| {
            let _more = connection.poll_accept(context);
            if reply.capacity() == 0 {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        });
        flushed.await;
    }
    let response = soon(response).await.unwrap();
    let (_, trailers) = soon(frames(&mut response.into_body())).await;
    assert_eq!(trailers.unwrap()["grpc-status"], "14");
}

/// proves: VOL-03
#[tokio::test]
async fn after_a_goaway_calls_go_to_a_new_connection() {
    let registry = registry(ServeConfig::default()).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    registry.register("host-1", &listener.local_addr().unwrap().to_string()).await;
    let mut client = client(&registry).await;
    for _ in 0..3 {
        let (response, _send) = client.send_request(head(), true).unwrap();
        let (stream, _) = soon(listener.accept()).await.unwrap();
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (_request, mut respond) = soon(connection.accept()).await.unwrap().unwrap();
        let answer = Response::builder().header("grpc-status", "0").body(()).unwrap();
        respond.send_response(answer, true).unwrap();
        connection.graceful_shutdown();
        while soon(connection.accept()).await.is_some() {}
        assert_eq!(soon(response).await.unwrap().headers()["grpc-status"], "0");
    }
}
