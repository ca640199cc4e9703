//! What is left of a request's body when the request is answered already.
//!
//! A connection that is closed while bytes still come is reset, and a client that was writing then never reads why it
//! was refused. So the rest is read and thrown away before the answer, as far as that is bearable:
//!
//! ```text
//!   client  PUT, 49 MiB ....................... | reads 413
//!   server  413 is certain | throws the rest away | 413, and closes
//! ```
//! HTTP/2 tells a client by itself that nobody wants the rest.
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{Version, header};
use axum::middleware::Next;
use axum::response::Response;
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// The most that is thrown away: a little more than the largest file may have. Who sends more is cut off.
const REST_BYTES_MAX: u64 = 64 << 20;
/// How long that may take, and how long a client may say nothing meanwhile.
const REST_TIME_MAX: Duration = Duration::from_secs(10);
const REST_SILENCE_MAX: Duration = Duration::from_secs(1);

/// Answers a request when nothing of it is on its way any more.
pub async fn thrown_away(request: Request, next: Next) -> Response {
    if request.version() > Version::HTTP_11 || request.body().is_end_stream() {
        return next.run(request).await;
    }
    // Such a client sends nothing before somebody reads.
    let waits = request.headers().contains_key(header::EXPECT);
    let left = Arc::new(Mutex::new(None));
    let request = request
        .map(|body| Body::new(Lent { body, touched: false, is_over: false, left: left.clone() }));
    let response = next.run(request).await;
    let rest = left.lock().take();
    match rest {
        Some(rest) if rest.touched || !waits => throw_away(rest.body).await,
        Some(_) | None => {}
    }
    response
}

async fn throw_away(mut body: Body) {
    let all = async {
        let mut bytes = 0;
        // How much is to come is said before it comes, or not at all.
        while bytes + body.size_hint().lower() <= REST_BYTES_MAX {
            match tokio::time::timeout(REST_SILENCE_MAX, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    bytes += frame.data_ref().map_or(0, |data| data.len() as u64)
                }
                Ok(None | Some(Err(_))) | Err(_) => return,
            }
        }
    };
    // Whoever takes longer, or sends more, finds the connection closed.
    let _ = tokio::time::timeout(REST_TIME_MAX, all).await;
}

struct Rest {
    body: Body,
    /// Somebody has begun to read it.
    touched: bool,
}

/// A body that comes back when its reader lets it go before its end.
struct Lent {
    body: Body,
    touched: bool,
    is_over: bool,
    left: Arc<Mutex<Option<Rest>>>,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.touched = true;
        let polled = Pin::new(&mut self.body).poll_frame(context);
        self.is_over = matches!(polled, Poll::Ready(None | Some(Err(_))));
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if !self.is_over && !self.body.is_end_stream() {
            let (body, touched) = (std::mem::take(&mut self.body), self.touched);
            *self.left.lock() = Some(Rest { body, touched });
        }
    }
}
