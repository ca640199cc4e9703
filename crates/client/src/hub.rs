//! The hub for programs: one call for each question, and a way back after a lost connection.
use crate::endpoint::Endpoint;
use crate::error::{ApiError, Error};
use orrery_proto::hub::v1 as hub;
use orrery_proto::hub::v1::hub_client::HubClient;
use tonic::transport::Channel;
use tonic_types::StatusExt as _;

/// A page of a list, with room to spare.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// A server, asked by a program. Calls run side by side; after a lost connection the next call opens another.
#[derive(Clone, Debug)]
pub struct Hub {
    endpoint: Endpoint,
    client: HubClient<Channel>,
}

/// The changes of a watch.
#[derive(Debug)]
pub struct Changes {
    endpoint: Endpoint,
    stream: tonic::Streaming<hub::WatchResponse>,
}

impl Hub {
    /// Connects, or says why that cannot be done.
    pub async fn connect(endpoint: &Endpoint) -> Result<Self, Error> {
        let channel = endpoint.connect().await?;
        let client = HubClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES_MAX)
            .max_encoding_message_size(MESSAGE_BYTES_MAX);
        Ok(Self { endpoint: endpoint.clone(), client })
    }

    pub async fn discover(&self) -> Result<hub::DiscoverResponse, Error> {
        let request = self.endpoint.request(hub::DiscoverRequest {});
        self.answer(self.client.clone().discover(request).await)
    }

    pub async fn get(&self, request: hub::GetRequest) -> Result<hub::GetResponse, Error> {
        self.answer(self.client.clone().get(self.endpoint.request(request)).await)
    }

    pub async fn apply(&self, request: hub::ApplyRequest) -> Result<hub::ApplyResponse, Error> {
        self.answer(self.client.clone().apply(self.endpoint.request(request)).await)
    }

    pub async fn delete(&self, request: hub::DeleteRequest) -> Result<hub::DeleteResponse, Error> {
        self.answer(self.client.clone().delete(self.endpoint.request(request)).await)
    }

    pub async fn watch(&self, request: hub::WatchRequest) -> Result<Changes, Error> {
        let stream =
            self.answer(self.client.clone().watch(self.endpoint.request(request)).await)?;
        Ok(Changes { endpoint: self.endpoint.clone(), stream })
    }

    fn answer<T>(&self, answer: Result<tonic::Response<T>, tonic::Status>) -> Result<T, Error> {
        answer.map(tonic::Response::into_inner).map_err(|status| failed(&self.endpoint, &status))
    }
}

impl Changes {
    /// The next change; `None` when the server ends them.
    pub async fn next(&mut self) -> Result<Option<hub::WatchResponse>, Error> {
        self.stream.message().await.map_err(|status| failed(&self.endpoint, &status))
    }
}

/// An answer of the hub has a reason; everything else is about the connection.
fn failed(endpoint: &Endpoint, status: &tonic::Status) -> Error {
    let details = status.get_error_details();
    let Some(info) = details.error_info() else { return endpoint.failed(status) };
    let violations = details.bad_request().map(|bad| bad.field_violations.as_slice());
    let violations = violations.unwrap_or_default().iter().map(|violation| hub::Violation {
        field: violation.field.clone(),
        message: violation.description.clone(),
    });
    Error::Api(ApiError {
        reason: info.reason.clone(),
        message: status.message().to_owned(),
        violations: violations.collect(),
    })
}
