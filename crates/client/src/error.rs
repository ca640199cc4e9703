//! What can go wrong between a client and its server, in words for the person who asked.
use orrery_proto::hub::v1::Violation;

/// The server answered, and the answer is no.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiError {
    /// One word: "NotFound", "Conflict", "Invalid".
    pub reason: String,
    pub message: String,
    pub violations: Vec<Violation>,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "the server at {server} is not available: {cause}\nIs it running? Start one with: orrery up"
    )]
    NotAvailable { server: String, cause: String },
    #[error("the connection to the server at {server} was lost: {cause}")]
    ConnectionLost { server: String, cause: String },
    /// A version that the server does not talk to.
    #[error("the server at {server} does not talk to this version ({}): {message}", crate::VERSION)]
    Version { server: String, message: String },
    #[error("the server at {server} refused the connection: {message}")]
    Refused { server: String, message: String },
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(
        "{address:?} is no server address: {problem}; write it as http://HOST:PORT or https://HOST:PORT"
    )]
    BadAddress { address: String, problem: String },
    #[error("the access token holds letters that no token has; make one with: orrery token create")]
    BadToken,
    #[error(
        "the server answered with something else than was asked for; is it of another version?"
    )]
    Unexpected,
}

impl Error {
    /// The innermost cause of an error, which says what a person can act on.
    pub(crate) fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
        let mut current = error;
        while let Some(source) = current.source() {
            current = source;
        }
        current.to_string()
    }

    /// A status that a connection attempt or a stream ended with.
    pub(crate) fn from_status(server: &str, status: &tonic::Status) -> Self {
        let server = server.to_owned();
        let message = status.message().to_owned();
        match status.code() {
            tonic::Code::FailedPrecondition => Self::Version { server, message },
            tonic::Code::InvalidArgument
            | tonic::Code::PermissionDenied
            | tonic::Code::Unauthenticated
            | tonic::Code::AlreadyExists
            | tonic::Code::ResourceExhausted
            | tonic::Code::Unimplemented => Self::Refused { server, message },
            tonic::Code::Ok
            | tonic::Code::Cancelled
            | tonic::Code::Unknown
            | tonic::Code::DeadlineExceeded
            | tonic::Code::NotFound
            | tonic::Code::Aborted
            | tonic::Code::OutOfRange
            | tonic::Code::Internal
            | tonic::Code::Unavailable
            | tonic::Code::DataLoss => {
                let cause = match std::error::Error::source(status) {
                    Some(source) => Self::root_cause(source),
                    None => message,
                };
                Self::ConnectionLost { server, cause }
            }
        }
    }
}
