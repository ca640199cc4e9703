#![allow(clippy::unwrap_used, reason = "a panic with its line is a good test failure")]
use super::*;
use loona_hpack::Encoder;
use proptest::prelude::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.put_uint(payload.len() as u64, 3);
    bytes.put_u8(kind);
    bytes.put_u8(flags);
    bytes.put_u32(stream);
    bytes.extend_from_slice(payload);
    bytes
}

/// What leaves when `input` comes in pieces of this size.
fn through(input: &[u8], piece: usize) -> io::Result<Vec<u8>> {
    let (mut heads, mut pending, mut output) = <(Heads, BytesMut, BytesMut)>::default();
    for piece in [&[b'P'; PREFACE_BYTES], input].concat().chunks(piece) {
        pending.extend_from_slice(piece);
        while heads.step(&mut pending, &mut output)? {}
    }
    assert!(output.starts_with(&[b'P'; PREFACE_BYTES]), "the preface passes");
    Ok(output[PREFACE_BYTES..].to_vec())
}

/// The heads in what left, read by a peer that knows of no table; other frames as they are.
fn read(mut bytes: &[u8]) -> Vec<(u32, u8, Fields)> {
    let (mut found, mut block) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let length = bytes.get_uint(3) as usize;
        let (kind, flags, stream) = (bytes.get_u8(), bytes.get_u8(), bytes.get_u32());
        assert!(length <= FRAME_MAX_BYTES);
        block.extend_from_slice(&bytes[..length]);
        bytes.advance(length);
        if kind > CONTINUATION || flags & END_HEADERS != 0 {
            let fields = Decoder::new().decode(&std::mem::take(&mut block)).unwrap();
            found.push((stream, kind, fields));
        }
    }
    found
}

fn fields(list: &[(&str, &str)]) -> Fields {
    list.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).collect()
}

fn encode(encoder: &mut Encoder<'_>, fields: &Fields) -> Vec<u8> {
    encoder.encode(fields.iter().map(|(name, value)| (&name[..], &value[..])))
}

#[track_caller]
fn check(authority: &str, expect: &str) {
    let mut encoder = Encoder::new();
    let sent = fields(&[(":method", "POST"), (":authority", authority), ("te", "trailers")]);
    let expect = fields(&[(":method", "POST"), (":authority", expect), ("te", "trailers")]);
    // The second head names what the first has put into the table.
    let both: Vec<u8> = [1, 3]
        .iter()
        .flat_map(|stream| frame(HEADERS, END_HEADERS, *stream, &encode(&mut encoder, &sent)))
        .collect();
    for piece in [1, 7, 4096] {
        let found = read(&through(&both, piece).unwrap());
        assert_eq!(found, [(1, HEADERS, expect.clone()), (3, HEADERS, expect.clone())]);
    }
}

/// proves: VOL-08
#[test]
fn a_socket_is_a_local_host_whatever_it_is_called() {
    check("%2Frun%2Fcsi%2Fcsi.sock", "localhost");
    check("/run/csi/csi.sock", "localhost");
    check("unix:/run/csi.sock", "localhost");
    check("", "localhost");
    check("a b\u{e4}", "localhost");
    check("localhost", "localhost");
    check("csi.example:443", "csi.example:443");
}

#[test]
fn other_frames_pass_as_they_are() {
    let frames = [frame(4, 0, 0, &[0; 6]), frame(0, 1, 1, &[7; 40_000]), frame(99, 0, 5, b"x")];
    let frames = frames.concat();
    assert_eq!(through(&frames, 1000).unwrap(), frames);
}

#[test]
fn padding_and_priority_are_left_out() {
    let block = encode(&mut Encoder::new(), &fields(&[(":authority", "/x")]));
    let payload = [&[3][..], &[0, 0, 0, 0, 16], &block, &[0; 3]].concat();
    let sent = frame(HEADERS, PADDED | PRIORITY | END_HEADERS | END_STREAM, 1, &payload);
    let left = through(&sent, 5).unwrap();
    assert_eq!(left[4], END_HEADERS | END_STREAM);
    assert_eq!(read(&left), [(1, HEADERS, fields(&[(":authority", "localhost")]))]);
}

#[track_caller]
fn refused(frames: &[Vec<u8>], why: &str) {
    let said = through(&frames.concat(), 512).unwrap_err();
    assert!(said.to_string().contains(why), "{said}");
}

#[test]
fn what_breaks_the_rules_or_the_bounds_ends_the_connection() {
    refused(&[frame(CONTINUATION, END_HEADERS, 1, b"")], "not in order");
    refused(&[frame(HEADERS, 0, 1, b""), frame(CONTINUATION, 0, 3, b"")], "not in order");
    refused(&[frame(HEADERS, 0, 1, b""), frame(0, 0, 1, b"")], "interrupted");
    refused(&[frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0])], "shorter");
    refused(&[frame(HEADERS, END_HEADERS | PADDED, 1, &[])], "shorter");
    refused(&[frame(HEADERS, END_HEADERS | PRIORITY, 1, &[0; 4])], "shorter");
    refused(&[frame(HEADERS, END_HEADERS, 1, &[0xff; 20_000])], "longer");
    refused(&[frame(HEADERS, END_HEADERS, 1, &[0xff, 0x01])], "cannot be read");
    let more = vec![frame(CONTINUATION, 0, 1, &[0x82; FRAME_MAX_BYTES]); 5];
    refused(&[vec![frame(HEADERS, 0, 1, b"")], more].concat(), "too long");
    // A table of 4 KiB, named again and again: a little that would become very much.
    let mut bomb = encode(&mut Encoder::new(), &fields(&[("x", &"y".repeat(4000))]));
    bomb.extend_from_slice(&[0x80 | 62; 10_000]);
    refused(&[frame(HEADERS, END_HEADERS, 1, &bomb)], "too long");
}

fn head() -> impl Strategy<Value = Fields> {
    let name = prop_oneof![
        Just(b":authority".to_vec()),
        Just(b":path".to_vec()),
        "[a-z-]{1,12}".prop_map(String::into_bytes),
    ];
    let value = prop_oneof![
        "[a-z%/.]{0,40}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..600),
    ];
    prop::collection::vec((name, value), 0..12)
}

proptest! {
    /// However a client codes and cuts its heads, the server reads what was meant.
    #[test]
    fn heads_keep_their_meaning(
        heads in prop::collection::vec((head(), 1..300_usize), 1..20),
        piece in 1..2000_usize,
    ) {
        let (mut encoder, mut sent, mut expect) = (Encoder::new(), Vec::new(), Vec::new());
        for (stream, (head, cut)) in (1..).zip(heads) {
            let block = encode(&mut encoder, &head);
            let parts: Vec<_> = if block.is_empty() { vec![&[][..]] } else { block.chunks(cut).collect() };
            for (at, part) in parts.iter().enumerate() {
                let flags = if at + 1 == parts.len() { END_HEADERS } else { 0 };
                let kind = if at == 0 { HEADERS } else { CONTINUATION };
                sent.extend(frame(kind, flags, stream, part));
            }
            let meant = head.into_iter().map(|(name, value)| {
                let odd = name == b":authority" && Authority::try_from(&value[..]).is_err();
                (name, if odd { LOCAL.to_vec() } else { value })
            });
            expect.push((stream, HEADERS, meant.collect()));
        }
        let left = through(&sent, piece);
        prop_assert_eq!(read(&left.unwrap()), expect);
    }

    /// Whatever comes is passed on or refused; nothing else happens.
    #[test]
    fn anything_may_come(
        kind in 0..12_u8, flags: u8, payload in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        _ = through(&[frame(kind, flags, 1, &payload), payload].concat(), 64);
    }
}
