//! The connection to an upstream.
use super::errors::{Question, answered};
use super::proof::{Proof, Way};
use orrery_client::Endpoint;
use orrery_hub::Error;
use orrery_proto::hub::v1::hub_client::HubClient;
use parking_lot::Mutex;
use std::error::Error as _;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, ConnectError, Request, Response, Status};

/// How long an upstream has to answer one question; that it is there is known sooner.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer: a list of large objects, with room to spare.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// An upstream, asked when there is something to ask. A connection that is lost is opened again by the next question,
/// and a proof that is refused is read again.
pub struct Link {
    address: String,
    proof: Proof,
    state: Mutex<State>,
}

struct State {
    way: Way,
    client: Option<HubClient<Channel>>,
    /// How often the proof was read again.
    proven: u64,
}

impl Link {
    pub fn new(proof: Proof, way: Way) -> Self {
        let address = way.endpoint.server();
        Self { address, proof, state: Mutex::new(State { way, client: None, proven: 0 }) }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// Asks, and waits for the answer.
    pub async fn ask<Q: Clone, A, F>(
        &self,
        question: &Question<'_>,
        request: Q,
        call: impl Fn(HubClient<Channel>, Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let asking = async {
            let (proven, answer) = self.attempt(question, request.clone(), &call).await?;
            let answer = match answer {
                Err(status)
                    if status.code() == Code::Unauthenticated && self.prove_anew(proven) =>
                {
                    self.attempt(question, request, &call).await?.1
                }
                answer => answer,
            };
            answer.map_err(|status| self.failed(question, &status))
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => {
                let seconds = ANSWER_TIMEOUT.as_secs();
                Err(question.unanswered(format!("it did not answer within {seconds} s")))
            }
        }
    }

    /// Asks once, and says with which proof.
    async fn attempt<Q, A, F>(
        &self,
        question: &Question<'_>,
        request: Q,
        call: &impl Fn(HubClient<Channel>, Request<Q>) -> F,
    ) -> Result<(u64, Result<Response<A>, Status>), Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let (proven, endpoint, client) =
            self.client().await.map_err(|error| question.away(cause(error)))?;
        Ok((proven, call(client, endpoint.request(request)).await))
    }

    /// What a status means: an answer of the hub there, or that there was none.
    pub fn failed(&self, question: &Question<'_>, status: &Status) -> Error {
        if let Some(error) = answered(question, status) {
            return error;
        }
        match status.code() {
            Code::Unauthenticated => {
                let why = status.message();
                question.away(format!(
                    "it does not know this server ({why}); see --upstream-certificate and --upstream-token-file"
                ))
            }
            _ => match self.endpoint().failed(status) {
                lost @ orrery_client::Error::ConnectionLost { .. } if !was_not_sent(status) => {
                    question.unanswered(cause(lost))
                }
                error => question.away(cause(error)),
            },
        }
    }

    /// Whether there is another proof than the one that was refused; somebody else may have read it meanwhile.
    fn prove_anew(&self, refused: u64) -> bool {
        let mut state = self.state.lock();
        if state.proven != refused {
            return true;
        }
        let Some(way) = self.proof.read_again(&state.way) else { return false };
        *state = State { way, client: None, proven: refused + 1 };
        true
    }

    fn endpoint(&self) -> Endpoint {
        self.state.lock().way.endpoint.clone()
    }

    async fn client(&self) -> Result<(u64, Endpoint, HubClient<Channel>), orrery_client::Error> {
        let (proven, endpoint, client) = {
            let state = self.state.lock();
            (state.proven, state.way.endpoint.clone(), state.client.clone())
        };
        if let Some(client) = client {
            return Ok((proven, endpoint, client));
        }
        let made = HubClient::new(endpoint.connect().await?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        let mut state = self.state.lock();
        if state.proven != proven {
            // It is of no use to those who come later.
            return Ok((proven, endpoint, made));
        }
        let client = state.client.get_or_insert(made).clone();
        Ok((proven, endpoint, client))
    }
}

/// Whether the question certainly never reached the upstream.
fn was_not_sent(status: &Status) -> bool {
    let mut cause = status.source();
    while let Some(error) = cause {
        if error.is::<ConnectError>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Why there was no answer, for one who knows already whose answer that is.
fn cause(error: orrery_client::Error) -> String {
    use orrery_client::Error as Failed;
    match error {
        Failed::NotAvailable { cause, .. } | Failed::ConnectionLost { cause, .. } => cause,
        Failed::Refused { message, .. } => format!("it refused the connection: {message}"),
        other => other.to_string(),
    }
}
