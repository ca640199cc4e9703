//! Between the library's words and the wire's.
use crate::data::secret_ref;
use crate::model::{Created, Driver, Machine, Request};
use crate::{DataProvider, Error};
use orrery_proto::infragrpc as pb;
use pb::driver_side::{
    CreateResp, DeleteResp, ListResp, Machine as WireMachine, Response, StatusResp,
};
use std::time::Duration;
use tokio::time::Instant;

/// The protocol that this library speaks; the first contract is 0.
pub(crate) const PROTOCOL_VERSION: i32 = 1;
/// What it can do beyond the first contract.
pub(crate) const CAPABILITIES: [&str; 2] = ["status", "cancel"];

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Create,
    Delete,
    List,
    Status,
}

impl Kind {
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "create" => Some(Self::Create),
            "delete" => Some(Self::Delete),
            "list" => Some(Self::List),
            "status" => Some(Self::Status),
            _ => None,
        }
    }

    /// Does the operation, and says it as the wire does.
    pub async fn perform(self, driver: &dyn Driver, request: &Request) -> Result<Response, Error> {
        match self {
            Self::Create => driver.create(request).await.map(created),
            Self::Delete => {
                driver.delete(request).await.map(|()| Response::Deleteresponse(Default::default()))
            }
            Self::List => driver.list(request).await.map(listed),
            Self::Status => driver.status(request).await.map(status),
        }
    }

    /// The answer that says that the operation failed.
    pub fn failed(self, error: Error) -> Response {
        let Error { code, message: error, retry_after, last_known_state } = error;
        let code = code.into();
        let retry_after_ms = retry_after.map_or(0, millis);
        match self {
            Self::Create => Response::Createresponse(CreateResp {
                error,
                code,
                retry_after_ms,
                last_known_state,
                ..Default::default()
            }),
            Self::Delete => Response::Deleteresponse(DeleteResp {
                error,
                code,
                retry_after_ms,
                last_known_state,
            }),
            Self::List => {
                Response::Listresponse(ListResp { list: Vec::new(), error, code, retry_after_ms })
            }
            Self::Status => {
                Response::Statusresponse(StatusResp { machine: None, error, code, retry_after_ms })
            }
        }
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Whether an answer is worth remembering: what failed should be tried again.
pub(crate) fn succeeded(response: &Response) -> bool {
    match response {
        Response::Createresponse(it) => it.error.is_empty() && it.code == 0,
        Response::Deleteresponse(it) => it.error.is_empty() && it.code == 0,
        Response::Listresponse(_)
        | Response::Statusresponse(_)
        | Response::RegisterResp(_)
        | Response::Heartbeat(_) => false,
    }
}

fn created(made: Created) -> Response {
    Response::Createresponse(CreateResp {
        provider_id: made.provider_id,
        nodename: made.node_name,
        addresses: made.addresses,
        last_known_state: made.last_known_state,
        adopted: made.adopted,
        ..Default::default()
    })
}

fn listed(machines: Vec<Machine>) -> Response {
    let list = machines.into_iter().map(machine).collect();
    Response::Listresponse(ListResp { list, ..Default::default() })
}

fn status(found: Machine) -> Response {
    Response::Statusresponse(StatusResp { machine: Some(machine(found)), ..Default::default() })
}

fn machine(it: Machine) -> WireMachine {
    WireMachine {
        machine_id: it.id,
        machine_name: it.name,
        addresses: it.addresses,
        state: it.state.name().into(),
        idempotency_key: it.idempotency_key,
    }
}

pub(crate) fn request(message: pb::McMside, data: DataProvider, now: Instant) -> Request {
    let params = message.operationparams.unwrap_or_default();
    let class = params.machine_class_meta_data.unwrap_or_default();
    let left = u64::try_from(message.deadline_ms).ok().filter(|ms| *ms > 0);
    Request {
        class: class.name,
        class_revision: class.revision,
        machine_id: params.machine_id,
        machine_name: params.machine_name,
        idempotency_key: message.idempotency_key,
        last_known_state: params.last_known_state,
        bootstrap: params.bootstrap_secret.as_ref().map(secret_ref),
        trace_parent: message.trace_parent,
        deadline: left.and_then(|ms| now.checked_add(Duration::from_millis(ms))),
        data,
    }
}
