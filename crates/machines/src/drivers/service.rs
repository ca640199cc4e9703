//! The gRPC service: decode, ask, encode.
use super::access::{Asker, Holder, SESSION_METADATA, speaks_for};
use super::conversation::{self, Outgoing};
use super::peer::Peer;
use super::session::Session;
use super::source::{Class, ClassRef, SecretRef, SecretValue, SourceError};
use super::{Inner, wire};
use orrery_proto::infragrpc as pb;
use pb::ErrorCode;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// What `Infragrpc` does; made by [`super::Drivers::service`].
pub struct Infra(pub(super) Arc<Inner>);

/// Why a read gives no data, in the words of the reply.
struct NoData(ErrorCode, String);

impl From<SourceError> for NoData {
    fn from(error: SourceError) -> Self {
        Self(ErrorCode::Unavailable, error.to_string())
    }
}

#[tonic::async_trait]
impl pb::infragrpc_server::Infragrpc for Infra {
    type RegisterStream = Outgoing;

    async fn register(
        &self,
        request: Request<Streaming<pb::DriverSide>>,
    ) -> Result<Response<Outgoing>, Status> {
        let peer = Peer::of(request.extensions());
        let stream = conversation::open(&self.0, peer, request.into_inner())?;
        Ok(Response::new(stream))
    }

    async fn get_machine_class(
        &self,
        request: Request<pb::MachineClassMeta>,
    ) -> Result<Response<pb::MachineClass>, Status> {
        let drivers = self.asking(&request)?;
        let asked = request.into_inner();
        let reply = match self.class(&drivers, &asked).await? {
            Ok(class) => pb::MachineClass {
                data: class.json,
                revision: wire::narrow(class.revision),
                ..Default::default()
            },
            Err(NoData(code, error)) => {
                pb::MachineClass { error, code: code.into(), ..Default::default() }
            }
        };
        Ok(Response::new(reply))
    }

    async fn get_secret(
        &self,
        request: Request<pb::SecretMeta>,
    ) -> Result<Response<pb::Secret>, Status> {
        let drivers = self.asking(&request)?;
        let asked = request.into_inner();
        let at = SecretRef { project: asked.name_space, name: asked.secret_name };
        let reply = match self.secret(&drivers, &at).await? {
            Ok(secret) => pb::Secret {
                data: secret.json,
                revision: wire::narrow(secret.revision),
                ..Default::default()
            },
            Err(NoData(code, error)) => {
                pb::Secret { error, code: code.into(), ..Default::default() }
            }
        };
        Ok(Response::new(reply))
    }
}

impl Infra {
    /// The registered drivers that a request speaks for; never none.
    fn asking<T>(&self, request: &Request<T>) -> Result<Vec<Arc<Session>>, Status> {
        let peer = Peer::of(request.extensions());
        let token = request.metadata().get(SESSION_METADATA).and_then(|it| it.to_str().ok());
        let asker = Asker { peer: &peer, token };
        let mut sessions = self.0.sessions();
        sessions.retain(|it| speaks_for(&asker, &Holder { peer: &it.peer, token: &it.token }));
        if sessions.is_empty() {
            return Err(Status::permission_denied(format!(
                "{peer} has not registered as a driver"
            )));
        }
        Ok(sessions)
    }

    /// Denial is an error of the call; that there is nothing to read is said in the reply.
    async fn class(
        &self,
        drivers: &[Arc<Session>],
        asked: &pb::MachineClassMeta,
    ) -> Result<Result<Class, NoData>, Status> {
        let name = &asked.name;
        let at = match ClassRef::parse(name) {
            Ok(at) => at,
            Err(bad) => return Ok(Err(NoData(ErrorCode::InvalidArgument, bad.to_string()))),
        };
        let found = match self.0.classes.class(&at, asked.revision).await {
            Ok(found) => found,
            Err(error) => return Ok(Err(error.into())),
        };
        let missing = || NoData(ErrorCode::NotFound, format!("there is no class {name}"));
        let Some(class) = found else { return Ok(Err(missing())) };
        if !drivers.iter().any(|it| it.hello.key == class.key) {
            let key = &class.key;
            let denied = format!("the class {name} is for drivers of {key}, which this is not");
            return Err(Status::permission_denied(denied));
        }
        Ok(Ok(class))
    }

    async fn secret(
        &self,
        drivers: &[Arc<Session>],
        at: &SecretRef,
    ) -> Result<Result<SecretValue, NoData>, Status> {
        if at.name.is_empty() || at.project.is_empty() {
            let message = "a secret is named by its name and its namespace".to_owned();
            return Ok(Err(NoData(ErrorCode::InvalidArgument, message)));
        }
        match self.may_read(drivers, at).await {
            Ok(true) => {}
            Ok(false) => {
                let denied = format!("no class of this driver names the secret {at}");
                return Err(Status::permission_denied(denied));
            }
            Err(error) => return Ok(Err(error.into())),
        }
        Ok(match self.0.secrets.secret(at).await {
            Ok(Some(secret)) => Ok(secret),
            Ok(None) => Err(NoData(ErrorCode::NotFound, format!("there is no secret {at}"))),
            Err(error) => Err(error.into()),
        })
    }

    async fn may_read(
        &self,
        drivers: &[Arc<Session>],
        at: &SecretRef,
    ) -> Result<bool, SourceError> {
        if drivers.iter().any(|it| it.grants(at)) {
            return Ok(true);
        }
        for driver in drivers {
            if self.0.classes.names_secret(&driver.hello.key, at).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
