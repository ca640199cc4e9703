//! A certificate of one's own: the first by a join token, the next ones by the one before.
mod member;
mod renewal;

pub use member::{Joiner, Member, server_on};
pub use renewal::Renewal;

use crate::endpoint::Endpoint;
use crate::error::{ApiError, Error};
use orrery_pki::{AuthorityError, JoinToken, Requested, Role, TlsFiles, TokenError};
use orrery_proto::identity::v1 as wire;
use orrery_proto::identity::v1::identity_client::IdentityClient;
use std::path::PathBuf;
use tonic::transport::Channel;

/// Why a machine has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("cannot join the server at {server}: {cause}")]
    Refused { server: String, cause: String },
    #[error(transparent)]
    Server(#[from] Error),
    #[error("cannot make or keep the certificate: {0}")]
    Certificate(#[from] AuthorityError),
    #[error("the server sent a certificate that cannot be used: {0}")]
    Unusable(#[from] orrery_pki::Error),
    #[error(transparent)]
    Token(#[from] TokenError),
    #[error("nothing has joined yet: give a join token with --token")]
    NoToken,
    #[error(
        "the certificate in {} has ended; give a new join token with --token", .folder.display()
    )]
    Ended { folder: PathBuf },
    #[error(
        "what is kept in {} cannot be used ({problem}); give a new join token with --token",
        .folder.display()
    )]
    Broken { folder: PathBuf, problem: String },
    #[error(
        "{} holds the certificate of {owner}, not of {wanted}; name another folder, or remove it",
        .folder.display()
    )]
    Another { folder: PathBuf, owner: String, wanted: String },
}

/// Joins as a machine of this role and name, and keeps key (never sent anywhere), certificate and
/// root in the files, private. Needs nothing of the server but the token.
pub async fn join(
    server: &str,
    token: &JoinToken,
    role: Role,
    name: &str,
    files: &TlsFiles,
) -> Result<(), JoinError> {
    let endpoint = Endpoint::pinned(server, token.authority())?;
    let requested = Requested::generate(name)?;
    let request = wire::JoinRequest {
        token: token.id().to_owned(),
        secret: token.secret().to_vec(),
        role: role.as_str().to_owned(),
        name: name.to_owned(),
        request: requested.der().to_vec(),
    };
    let mut client = IdentityClient::new(endpoint.connect().await?);
    let answer = client.join(request).await;
    let answer = answer.map_err(|status| refused(&endpoint, &status))?.into_inner();
    // What cannot be used must not take the place of anything.
    orrery_pki::TlsMaterial::from_pem(
        answer.roots.as_bytes(),
        answer.certificate.as_bytes(),
        requested.key_pem().as_bytes(),
    )?;
    files.write(&answer.roots, &answer.certificate, Some(requested.key_pem()))?;
    Ok(())
}

/// Whom the server trusts, and whether it takes machines in.
pub async fn trust(endpoint: &Endpoint) -> Result<wire::TrustResponse, Error> {
    let answer = client(endpoint).await?.trust(endpoint.request(wire::TrustRequest {})).await;
    let answer = answer.map_err(|status| endpoint.failed(&status))?;
    Ok(answer.into_inner())
}

/// Puts a new authority in the place of the old one, or trusts the old one no longer. Answers with the
/// certificates that are trusted now, PEM.
pub async fn rotate(endpoint: &Endpoint, finish: bool, force: bool) -> Result<String, Error> {
    let request = endpoint.request(wire::RotateRequest { finish, force });
    let answer = client(endpoint).await?.rotate(request).await;
    let answer = answer.map_err(|status| {
        if status.code() != tonic::Code::FailedPrecondition {
            return endpoint.failed(&status);
        }
        // Somebody would be locked out; of other calls this code means another version.
        let (reason, message) = ("Conflict".to_owned(), status.message().to_owned());
        Error::Api(ApiError { reason, message, violations: Vec::new() })
    })?;
    Ok(answer.into_inner().roots)
}

/// Who the server takes us for.
pub async fn who_am_i(endpoint: &Endpoint) -> Result<wire::WhoAmIResponse, Error> {
    let request = endpoint.request(wire::WhoAmIRequest {});
    let answer = client(endpoint).await?.who_am_i(request).await;
    let answer = answer.map_err(|status| endpoint.failed(&status))?;
    Ok(answer.into_inner())
}

/// Whether we may do something, or everything that we may do.
pub async fn can_i(
    endpoint: &Endpoint,
    asked: wire::CanIRequest,
) -> Result<wire::CanIResponse, Error> {
    let answer = client(endpoint).await?.can_i(endpoint.request(asked)).await;
    let answer = answer.map_err(|status| endpoint.failed(&status))?;
    Ok(answer.into_inner())
}

async fn client(endpoint: &Endpoint) -> Result<IdentityClient<Channel>, Error> {
    Ok(IdentityClient::new(endpoint.connect().await?))
}

fn refused(endpoint: &Endpoint, status: &tonic::Status) -> JoinError {
    let cause = match endpoint.failed(status) {
        Error::Refused { message, .. } => message,
        _ => status.message().to_owned(),
    };
    JoinError::Refused { server: endpoint.server(), cause }
}
