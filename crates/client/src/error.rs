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
            | tonic::Code::Unimplemented => {
                let silent = message.is_empty();
                let message = if silent { NOT_OURS.to_owned() } else { message };
                Self::Refused { server, message }
            }
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
                Self::lost(server, cause)
            }
        }
    }

    /// A connection that was made and is over.
    pub(crate) fn lost(server: String, cause: String) -> Self {
        match about_certificates(&cause) {
            Some(message) => Self::Refused { server, message },
            None if is_tls(&server, &cause) => {
                Self::ConnectionLost { server, cause: ENCRYPTED.into() }
            }
            None => Self::ConnectionLost { server, cause },
        }
    }

    /// A connection that could not be made.
    pub(crate) fn not_connected(server: String, cause: String) -> Self {
        match about_certificates(&cause) {
            Some(message) => Self::Refused { server, message },
            None if is_tls(&server, &cause) => {
                Self::ConnectionLost { server, cause: ENCRYPTED.into() }
            }
            None => Self::NotAvailable { server, cause },
        }
    }
}

/// What a server of gRPC means that knows nothing of us and says no more.
const NOT_OURS: &str = "it does not serve commands or agents there; is it the right port?";

const ENCRYPTED: &str = "it speaks TLS there; write its address with https://";

/// Whether an alert of TLS was read as a frame of HTTP/2.
fn is_tls(server: &str, cause: &str) -> bool {
    server.starts_with("http://") && cause.contains("frame with invalid size")
}

/// Alerts of TLS and judgements of our own about certificates, and what they mean for a person.
const MEANINGS: [(&str, &str); 10] = [
    ("alert: CertificateExpired", "your certificate has expired, or is not valid yet"),
    ("alert: UnknownCA", "it does not trust the authority of your certificate"),
    ("alert: CertificateRevoked", "your certificate or your identity is revoked"),
    ("alert: CertificateRequired", "it demands a certificate"),
    ("alert: UnsupportedCertificate", "your certificate is not made for clients"),
    ("alert: CertificateUnknown", "your certificate is not taken"),
    (
        "certificate: UnknownIssuer",
        "its certificate is not of an authority that you trust (--root)",
    ),
    ("certificate: certificate expired", "its certificate has expired"),
    (
        "certificate: certificate not valid yet",
        "its certificate is not valid yet; is the clock of this machine right?",
    ),
    ("certificate: certificate not valid for name", "its certificate is not for this name"),
];

/// What is wrong with a certificate, if that is it.
fn about_certificates(cause: &str) -> Option<String> {
    let (_, meaning) = MEANINGS.iter().find(|(words, _)| cause.contains(words))?;
    Some(format!("{meaning} ({cause})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_certificate_is_said_in_words() {
        let made = |cause: &str| Error::not_connected("s".into(), cause.into());
        let said = made("received fatal alert: CertificateExpired").to_string();
        assert!(
            said.contains("your certificate has expired") && said.contains("refused"),
            "{said}"
        );
        let said = made("invalid peer certificate: UnknownIssuer").to_string();
        assert!(said.contains("--root"), "{said}");
        let said = made("invalid peer certificate: certificate not valid yet: verification time 1");
        assert!(said.to_string().contains("is the clock of this machine right?"), "{said}");
        assert!(matches!(said, Error::Refused { .. }), "it is running");
        assert!(matches!(made("Connection refused"), Error::NotAvailable { .. }));
    }

    #[test]
    fn a_wrong_port_or_scheme_is_said_in_words() {
        let cause = "http2 error: frame with invalid size";
        let lost = |server: &str| Error::lost(server.into(), cause.into()).to_string();
        assert!(lost("http://h:1").contains("https://"), "{}", lost("http://h:1"));
        assert!(lost("https://h:1").contains(cause));
        let silent = Error::from_status("http://h:1", &tonic::Status::unimplemented(""));
        assert!(silent.to_string().contains("right port"), "{silent}");
    }
}
