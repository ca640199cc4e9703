//! Answers that end with the proof of who asked: a token that is taken back, a certificate that ends.
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use axum::response::Response;
use hyper::body::{Frame, SizeHint};
use orrery_access::Access;
use orrery_pki::{Identity, Subject};
use std::pin::Pin;
use std::task::{Context, Poll};

/// What whoever listens is told in the end; the same for every reason.
pub const GOOD_NO_LONGER: &str = "the proof of who you are is good no longer";

/// By what somebody is known.
#[derive(Clone)]
pub enum Proof {
    /// The text of a token, and whom it stands for.
    Token(String, Subject),
    Certificate(Box<Identity>),
}

impl Proof {
    async fn ends(self, access: Access) {
        match self {
            Self::Token(token, subject) => access.until_logged_out(&token, &subject).await,
            Self::Certificate(identity) => {
                access.until_refused(&identity).await;
            }
        }
    }
}

/// The proof of a request whose work goes on after its answer.
#[derive(Clone)]
pub struct Lasts {
    access: Access,
    proof: Proof,
}

impl Lasts {
    pub fn new(access: &Access, proof: &Proof) -> Self {
        Self { access: access.clone(), proof: proof.clone() }
    }

    /// When it is good no longer.
    pub async fn ended(self) {
        self.proof.ends(self.access).await;
    }
}

/// What a stream says last when it is ended, in its own language; goes with its response.
#[derive(Clone, Debug)]
pub struct LastWords(pub Bytes);

/// A body that ends when a proof does. Most answers are whole at once and never look.
pub struct Ending {
    body: Body,
    over: Over,
    /// Whether a part of it was sent: what comes after it may be a stream.
    begun: bool,
    last: Option<Frame<Bytes>>,
}

enum Over {
    NotAsked(Box<(Access, Proof)>),
    Waiting(Pin<Box<dyn Future<Output = ()> + Send>>),
    Ended,
}

impl Ending {
    pub fn around(response: Response, access: Access, proof: Proof) -> Response {
        let last = last_frame(&response);
        response.map(|body| {
            let over = Over::NotAsked(Box::new((access, proof)));
            Body::new(Self { body, over, begun: false, last })
        })
    }

    /// Whether the proof has ended by now; then there is nothing more of the body.
    fn ends(&mut self, context: &mut Context<'_>) -> bool {
        self.over = match std::mem::replace(&mut self.over, Over::Ended) {
            Over::NotAsked(asked) => {
                let (access, proof) = *asked;
                Over::Waiting(Box::pin(proof.ends(access)))
            }
            asked @ (Over::Waiting(_) | Over::Ended) => asked,
        };
        let Over::Waiting(waiting) = &mut self.over else { return true };
        if waiting.as_mut().poll(context).is_pending() {
            return false;
        }
        self.over = Over::Ended;
        // Whatever makes it learns that nobody listens any more.
        self.body = Body::empty();
        true
    }

    fn last(&mut self) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Poll::Ready(self.last.take().map(Ok))
    }
}

impl HttpBody for Ending {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if matches!(self.over, Over::Ended) {
            return self.last();
        }
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) if frame.is_data() => {
                let looks = std::mem::replace(&mut self.begun, true);
                if looks && self.ends(context) {
                    return self.last();
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Pending if self.ends(context) => self.last(),
            other => other,
        }
    }

    fn is_end_stream(&self) -> bool {
        match self.over {
            Over::Ended => self.last.is_none(),
            Over::NotAsked(_) | Over::Waiting(_) => self.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self.over {
            Over::Ended => SizeHint::default(),
            Over::NotAsked(_) | Over::Waiting(_) => self.body.size_hint(),
        }
    }
}

/// Callers of gRPC read how a call ended behind it; others are told what the answer says itself.
fn last_frame(response: &Response) -> Option<Frame<Bytes>> {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("application/grpc")) {
        let mut trailers = HeaderMap::new();
        let status = tonic::Status::unauthenticated(GOOD_NO_LONGER);
        return status.add_header(&mut trailers).ok().map(|()| Frame::trailers(trailers));
    }
    response.extensions().get().map(|LastWords(words)| Frame::data(words.clone()))
}
