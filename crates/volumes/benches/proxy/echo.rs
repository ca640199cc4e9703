//! A service that the proxies have never heard of: it sends back what it gets, and large messages. On HTTP/2
//! itself, because it shares the processors with what is measured.
use bytes::{BufMut as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream::FuturesUnordered};
use h2::{RecvStream, SendStream, server::SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message as _;
use std::future::poll_fn;
use std::sync::LazyLock;
use tokio::io::{AsyncRead, AsyncWrite};

pub type Message = Vec<u8>;

/// Whether a message is compressed, and its length.
const PREFIX_BYTES: usize = 5;
const LARGE_BYTES: usize = 1 << 20;

/// A message of 1 MB as it goes out.
static LARGE: LazyLock<Bytes> = LazyLock::new(|| {
    let message: Message = vec![7; LARGE_BYTES];
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.encoded_len()).unwrap());
    message.encode(&mut framed).unwrap();
    framed.freeze()
});

/// Answers until the connection ends.
pub async fn serve<S: AsyncRead + AsyncWrite + Unpin>(io: S) -> Result<(), h2::Error> {
    let mut connection = h2::server::Builder::new()
        .initial_window_size(1 << 20)
        .initial_connection_window_size(16 << 20)
        .handshake(io)
        .await?;
    let mut calls = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = connection.accept() => match accepted {
                Some(accepted) => {
                    let (request, respond) = accepted?;
                    calls.push(answer(request, respond));
                }
                None => return Ok(()),
            },
            Some(answered) = calls.next() => answered?,
        }
    }
}

async fn answer(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) -> Result<(), h2::Error> {
    let streams = request.uri().path() == "/bench.Echo/Stream";
    let asked = whole(request.into_body()).await?;
    let mut head = Response::new(());
    let content = HeaderValue::from_static("application/grpc");
    head.headers_mut().insert(http::header::CONTENT_TYPE, content);
    let mut reply = respond.send_response(head, false)?;
    if streams {
        // As many messages as the request has bytes.
        for _ in 0..Message::decode(asked.slice(PREFIX_BYTES..)).unwrap().len() {
            send(&mut reply, LARGE.clone()).await?;
        }
    } else {
        reply.send_data(asked, false)?;
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    reply.send_trailers(trailers)
}

/// What was asked, which is nearly always one frame.
async fn whole(mut body: RecvStream) -> Result<Bytes, h2::Error> {
    let mut asked = Bytes::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        asked = if asked.is_empty() { data } else { [asked, data].concat().into() };
    }
    Ok(asked)
}

/// Sends as much as there is room for, and waits for more.
async fn send(reply: &mut SendStream<Bytes>, mut data: Bytes) -> Result<(), h2::Error> {
    while !data.is_empty() {
        reply.reserve_capacity(data.len());
        let Some(room) = poll_fn(|context| reply.poll_capacity(context)).await else {
            return Ok(());
        };
        reply.send_data(data.split_to(room?.min(data.len())), false)?;
    }
    Ok(())
}
