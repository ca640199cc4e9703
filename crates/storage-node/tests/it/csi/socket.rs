//! What stands on the wire, byte by byte: clients whose authority is no name of a host.
use super::world::csi;
use loona_hpack::Encoder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// A whole call without a message in it.
fn probe(encoder: &mut Encoder<'_>, stream: u32, authority: &str) -> Vec<u8> {
    let head = encoder.encode([
        (&b":method"[..], &b"POST"[..]),
        (b":scheme", b"http"),
        (b":path", b"/csi.v1.Identity/Probe"),
        (b":authority", authority.as_bytes()),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ]);
    [frame(HEADERS, 4, stream, &head), frame(DATA, 1, stream, &[0; 5])].concat()
}

/// The frames that answer this stream, up to the one that ends it.
async fn answer(socket: &mut UnixStream, stream: u32) -> Vec<u8> {
    let mut kinds = Vec::new();
    loop {
        let mut header = [0; 9];
        socket.read_exact(&mut header).await.unwrap();
        let [a, b, c, kind, flags, rest @ ..] = header;
        let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        socket.read_exact(&mut payload).await.unwrap();
        if u32::from_be_bytes(rest) != stream {
            continue;
        }
        kinds.push(kind);
        if kind == RESET || flags & 1 != 0 {
            return kinds;
        }
    }
}

/// proves: VOL-08
#[tokio::test]
async fn a_client_may_call_the_socket_what_it_likes() {
    let driver = csi().await;
    let socket = driver.disk.folder.path().join("csi.sock");
    let mut socket = UnixStream::connect(socket).await.unwrap();
    let hello = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, b"")].concat();
    socket.write_all(&hello).await.unwrap();
    let mut encoder = Encoder::new();
    let names = ["%2Frun%2Fcsi.sock", "%2Frun%2Fcsi.sock", "/run/csi.sock", "", "localhost"];
    for (stream, authority) in (1..).step_by(2).zip(names) {
        socket.write_all(&probe(&mut encoder, stream, authority)).await.unwrap();
        let kinds = answer(&mut socket, stream).await;
        assert_eq!(kinds, [HEADERS, DATA, HEADERS], "{authority:?}");
    }
}
