//! What the head of a request says: which controller it is for, and by when.
use crate::ControllerId;
use http::{HeaderMap, Request, Uri, header, uri::Scheme};
use std::time::Duration;
use tonic::Status;

/// The metadata key that names the controller.
pub const CONTROLLER_ID_KEY: &str = "controllerid";

/// Headers that are about one connection. HTTP/2 forbids them all, so they can only come from a peer
/// that does not know better, and must not go any further.
const HOP_BY_HOP: [header::HeaderName; 5] = [
    header::CONNECTION,
    header::HeaderName::from_static("keep-alive"),
    header::HeaderName::from_static("proxy-connection"),
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The controller that a request is for.
pub fn controller(path: &str, headers: &HeaderMap) -> Result<ControllerId, Status> {
    let mut values = headers.get_all(CONTROLLER_ID_KEY).iter();
    let Some(value) = values.next() else {
        return Err(Status::unimplemented(format!(
            "{path} is not served here, and no metadata {CONTROLLER_ID_KEY:?} says who serves it"
        )));
    };
    if values.next().is_some() {
        return Err(Status::invalid_argument(format!(
            "the metadata {CONTROLLER_ID_KEY:?} may be given only once"
        )));
    }
    let text = value.to_str().map_err(|_| {
        Status::invalid_argument(format!("the metadata {CONTROLLER_ID_KEY:?} is not plain text"))
    })?;
    ControllerId::parse(text).map_err(|error| Status::invalid_argument(error.to_string()))
}

/// The caller's `grpc-timeout`; what cannot be read is left to the controller to refuse.
pub fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let amount: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(amount * 3600)),
        "M" => Some(Duration::from_secs(amount * 60)),
        "S" => Some(Duration::from_secs(amount)),
        "m" => Some(Duration::from_millis(amount)),
        "u" => Some(Duration::from_micros(amount)),
        "n" => Some(Duration::from_nanos(amount)),
        _ => None,
    }
}

/// The request as it goes to the controller: the same, with the scheme of that connection.
pub fn upstream<B>(mut request: Request<B>, scheme: &Scheme) -> Result<Request<B>, Status> {
    for name in &HOP_BY_HOP {
        request.headers_mut().remove(name);
    }
    if request.uri().scheme() == Some(scheme) {
        return Ok(request);
    }
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = parts.authority.is_some().then(|| scheme.clone());
    let uri = Uri::from_parts(parts)
        .map_err(|error| Status::invalid_argument(format!("the request's target: {error}")))?;
    *request.uri_mut() = uri;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use super::{controller, deadline, upstream};
    use http::{HeaderMap, HeaderName, HeaderValue, Request, uri::Scheme};
    use std::time::Duration;
    use tonic::Code;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::try_from(*value).unwrap())
        };
        let mut map = HeaderMap::new();
        pairs.iter().map(pair).for_each(|(name, value)| _ = map.append(name, value));
        map
    }

    #[track_caller]
    fn check(pairs: &[(&str, &str)], expect: Result<&str, Code>) {
        let found = controller("/a.B/C", &headers(pairs));
        let found = found.as_ref().map(|id| id.as_str()).map_err(|status| status.code());
        assert_eq!(found, expect, "{pairs:?}");
    }

    /// proves: VOL-04
    #[test]
    fn the_metadata_names_the_controller() {
        check(&[("controllerid", "host-1")], Ok("host-1"));
        check(&[("other", "host-1")], Err(Code::Unimplemented));
        check(&[], Err(Code::Unimplemented));
        check(&[("controllerid", "")], Err(Code::InvalidArgument));
        check(&[("controllerid", "a/b")], Err(Code::InvalidArgument));
        check(&[("controllerid", "a"), ("controllerid", "a")], Err(Code::InvalidArgument));
    }

    #[test]
    fn deadlines_have_units() {
        let read = |text| deadline(&headers(&[("grpc-timeout", text)]));
        assert_eq!(read("1H"), Some(Duration::from_secs(3600)));
        assert_eq!(read("2M"), Some(Duration::from_secs(120)));
        assert_eq!(read("3S"), Some(Duration::from_secs(3)));
        assert_eq!(read("99999999m"), Some(Duration::from_millis(99_999_999)));
        assert_eq!(read("5u"), Some(Duration::from_micros(5)));
        assert_eq!(read("6n"), Some(Duration::from_nanos(6)));
        for text in ["", "5", "S", "-1S", "+1S", "123456789S", "1s", "1 S"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }

    #[test]
    fn only_the_scheme_and_what_belongs_to_one_connection_change() {
        let request = Request::builder()
            .uri("http://registry:8999/a.B/C")
            .header("te", "trailers")
            .header("keep-alive", "5")
            .header("key-bin", "AAE=")
            .body(())
            .unwrap();
        let sent = upstream(request, &Scheme::HTTPS).unwrap();
        assert_eq!(sent.uri(), "https://registry:8999/a.B/C");
        assert_eq!(*sent.headers(), headers(&[("te", "trailers"), ("key-bin", "AAE=")]));
    }
}
