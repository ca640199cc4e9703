//! The connection to an upstream.
use super::errors::{Question, answered};
use orrery_client::Endpoint;
use orrery_hub::Error;
use orrery_proto::hub::v1::hub_client::HubClient;
use parking_lot::Mutex;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status};

/// How long an upstream has to answer one question; that it is there is known sooner.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest answer: a list of large objects, with room to spare.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// An upstream, asked when there is something to ask. A connection that is lost is opened again by the next question.
pub struct Link {
    endpoint: Endpoint,
    client: Mutex<Option<HubClient<Channel>>>,
}

impl Link {
    pub fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, client: Mutex::new(None) }
    }

    pub fn address(&self) -> String {
        self.endpoint.server()
    }

    /// Asks, and waits for the answer.
    pub async fn ask<Q, A, F>(
        &self,
        question: &Question<'_>,
        request: Q,
        call: impl FnOnce(HubClient<Channel>, Request<Q>) -> F,
    ) -> Result<A, Error>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let asking = async {
            let client = self.client().await.map_err(|error| question.away(cause(error)))?;
            let answer = call(client, self.endpoint.request(request)).await;
            answer.map_err(|status| self.failed(question, &status))
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, asking).await {
            Ok(answer) => answer.map(Response::into_inner),
            Err(_) => {
                let seconds = ANSWER_TIMEOUT.as_secs();
                Err(question.away(format!("it did not answer within {seconds} s")))
            }
        }
    }

    /// What a status means: an answer of the hub there, or that there was none.
    pub fn failed(&self, question: &Question<'_>, status: &Status) -> Error {
        if let Some(error) = answered(question, status) {
            return error;
        }
        match status.code() {
            Code::Unauthenticated => {
                let why = status.message();
                question.away(format!("it does not know this server ({why}); see --upstream-certificate and --upstream-token-file"))
            }
            _ => question.away(cause(self.endpoint.failed(status))),
        }
    }

    async fn client(&self) -> Result<HubClient<Channel>, orrery_client::Error> {
        if let Some(client) = self.client.lock().clone() {
            return Ok(client);
        }
        let client = HubClient::new(self.endpoint.connect().await?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(self.client.lock().get_or_insert(client).clone())
    }
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
