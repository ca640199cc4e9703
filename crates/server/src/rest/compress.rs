//! Large answers are compressed for clients that can read that; streams never are, because their
//! events must not wait for each other.
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http_body_util::BodyExt as _;
use hyper::body::Body as _;
use std::io::{self, Write as _};

/// Smaller answers cost more to compress than to send; the same as in the reference.
const BYTES_MIN: u64 = 128 << 10;
/// What is compressed at once, so that other requests have their turn in between: about a
/// millisecond's work.
const SLICE_BYTES: usize = 64 << 10;

/// Compresses what is worth it.
pub async fn large(request: Request, next: Next) -> Response {
    let wanted = takes_gzip(request.headers());
    let response = next.run(request).await;
    let known = response.body().size_hint().exact();
    if !wanted || known.is_none_or(|bytes| bytes < BYTES_MIN) || is_encoded(response.headers()) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    // Its size is known, so it is in memory already.
    let Ok(whole) = body.collect().await else { return Response::from_parts(head, Body::empty()) };
    head.headers.remove(header::CONTENT_LENGTH);
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    Response::from_parts(head, Body::from_stream(compressed(whole.to_bytes())))
}

/// Whether gzip is among what a client takes, and not refused by a quality of zero.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::ACCEPT_ENCODING).iter();
    let each = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
    let mut each = each.map(|coding| {
        let (name, rest) = coding.split_once(';').unwrap_or((coding, ""));
        let quality = rest.trim().strip_prefix("q=").map(|text| text.trim().parse::<f32>());
        (name.trim().eq_ignore_ascii_case("gzip"), !matches!(quality, Some(Ok(0.0))))
    });
    each.any(|(gzip, wanted)| gzip && wanted)
}

fn is_encoded(headers: &HeaderMap) -> bool {
    headers.contains_key(header::CONTENT_ENCODING)
}

/// The whole in pieces, each made when the connection has room for it.
fn compressed(whole: Bytes) -> impl stream::Stream<Item = io::Result<Bytes>> {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    stream::try_unfold((whole, Some(encoder)), |(mut rest, encoder)| async move {
        let Some(mut encoder) = encoder else { return Ok(None) };
        while !rest.is_empty() {
            let slice = rest.split_to(rest.len().min(SLICE_BYTES));
            encoder.write_all(&slice)?;
            let made = std::mem::take(encoder.get_mut());
            if !made.is_empty() {
                return Ok(Some((made.into(), (rest, Some(encoder)))));
            }
        }
        Ok(Some((encoder.finish()?.into(), (rest, None))))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use proptest::prelude::*;
    use std::io::Read as _;

    #[test]
    fn clients_say_whether_they_take_it() {
        let cases = [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
            ("gzipped", false),
        ];
        for (text, expect) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(text));
            assert_eq!(takes_gzip(&headers), expect, "{text}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn what_is_compressed_can_be_read_again(byte: u8, times in 0..300_000_usize) {
            let whole: Vec<u8> = (0..times).map(|at| byte.wrapping_mul((at % 251) as u8)).collect();
            let parts: Vec<_> = futures::executor::block_on(
                Box::pin(compressed(whole.clone().into())).collect::<Vec<_>>(),
            );
            let bytes: Vec<u8> = parts.into_iter().flat_map(|part| part.expect("a part")).collect();
            let mut read = Vec::new();
            flate2::read::GzDecoder::new(bytes.as_slice()).read_to_end(&mut read).expect("gzip");
            prop_assert_eq!(read, whole);
        }
    }
}
