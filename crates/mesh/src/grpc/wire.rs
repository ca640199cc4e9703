//! Requests of either protocol variant, read into ours.
use crate::address::{Endpoint, Ip, Port};
use crate::control::{Admission, Inbound, Options, Sides};
use crate::envoy::{ENDPOINT_PORT_KEY, INBOUND_KEY, INSTANCE_KEY, OUTBOUND_KEY};
use crate::identity::{Peer, Refusal, admit};
use crate::xds::{Protocol, Request};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::google::protobuf::value::Kind as Value;
use envoy_types::pb::google::rpc;
use std::net::SocketAddr;
use tonic::Status;

/// Resource names in one request. A mesh of that many services has other problems first.
const NAMES_MAX: usize = 10_000;
/// Of an error text that a proxy sends; Envoy's own are far shorter.
const ERROR_CHARS_MAX: usize = 4096;
/// Of the name a proxy gives itself.
const INSTANCE_CHARS_MAX: usize = 256;

/// What both variants have.
pub struct Parts {
    pub node: Option<Node>,
    pub type_url: String,
    pub request: Request,
}

/// A request as it comes off the wire.
pub trait WireRequest: prost::Message + Default + Send + 'static {
    const PROTOCOL: Protocol;

    fn into_parts(self) -> Parts;
}

impl WireRequest for DiscoveryRequest {
    const PROTOCOL: Protocol = Protocol::StateOfTheWorld;

    fn into_parts(self) -> Parts {
        let request = Request {
            names: self.resource_names,
            nonce: self.response_nonce,
            error: self.error_detail.map(error_text),
            ..Request::default()
        };
        Parts { node: self.node, type_url: self.type_url, request }
    }
}

impl WireRequest for DeltaDiscoveryRequest {
    const PROTOCOL: Protocol = Protocol::Delta;

    fn into_parts(self) -> Parts {
        // A version that is not one of ours is unlike any of ours: the resource is sent again.
        let held = self.initial_resource_versions.into_iter().map(|(name, version)| {
            let version = u64::from_str_radix(&version, 16).unwrap_or_default();
            (name, version)
        });
        let request = Request {
            held: held.collect(),
            names: self.resource_names_subscribe,
            unsubscribe: self.resource_names_unsubscribe,
            nonce: self.response_nonce,
            error: self.error_detail.map(error_text),
        };
        Parts { node: self.node, type_url: self.type_url, request }
    }
}

/// Refuses what would cost too much.
pub fn check(request: &Request) -> Result<(), Status> {
    let names = request.names.len() + request.unsubscribe.len() + request.held.len();
    if names <= NAMES_MAX {
        return Ok(());
    }
    Err(Status::resource_exhausted(format!(
        "a request names {names} resources, at most {NAMES_MAX} are allowed"
    )))
}

/// Who a stream belongs to, from its transport and its first request.
pub fn admission(
    peer: &Peer,
    node: Option<&Node>,
    protocol: Protocol,
    options: &Options,
    endpoints_only: bool,
) -> Result<Admission, Status> {
    let claimed = node.map(|node| node.cluster.as_str()).unwrap_or_default();
    let service = admit(peer, claimed, options.trust_domain.as_ref()).map_err(refused)?;
    let instance = node.map(|node| node.id.as_str()).unwrap_or_default();
    let sides = match endpoints_only {
        true => None,
        false => Some(sides(node, options)?),
    };
    Ok(Admission {
        service,
        instance: instance.chars().take(INSTANCE_CHARS_MAX).collect(),
        address: peer.address,
        protocol,
        sides,
        endpoint: endpoint(peer, node)?,
    })
}

fn refused(refusal: Refusal) -> Status {
    let text = refusal.to_string();
    tracing::warn!(reason = text, "a proxy is not served");
    match refusal {
        Refusal::NoCertificate => Status::unauthenticated(text),
        Refusal::NoClaim => Status::invalid_argument(text),
        Refusal::NotAProxy(_)
        | Refusal::OtherTrustDomain(_)
        | Refusal::BadName(_)
        | Refusal::Mismatch { .. } => Status::permission_denied(text),
    }
}

/// A proxy fronts its instance for others if it says where both are.
fn sides(node: Option<&Node>, options: &Options) -> Result<Sides, Status> {
    let outbound = socket_address(node, OUTBOUND_KEY)?.unwrap_or(options.outbound);
    let inbound = match (socket_address(node, INBOUND_KEY)?, socket_address(node, INSTANCE_KEY)?) {
        (Some(listen), Some(instance)) => Some(Inbound { listen, instance }),
        (None, None) => None,
        (Some(_), None) | (None, Some(_)) => {
            return Err(Status::invalid_argument(format!(
                "node metadata {INBOUND_KEY} and {INSTANCE_KEY} go together"
            )));
        }
    };
    Ok(Sides { outbound, inbound })
}

fn socket_address(node: Option<&Node>, key: &str) -> Result<Option<SocketAddr>, Status> {
    let Some(value) = metadata(node, key) else { return Ok(None) };
    let parsed = match value {
        Value::StringValue(text) => text.parse().ok(),
        _ => None,
    };
    let bad = || Status::invalid_argument(format!("node metadata {key} must be ip:port"));
    parsed.map(Some).ok_or_else(bad)
}

/// The address is the one we see; only the port is taken from what the proxy says.
fn endpoint(peer: &Peer, node: Option<&Node>) -> Result<Option<Endpoint>, Status> {
    let Some(value) = metadata(node, ENDPOINT_PORT_KEY) else { return Ok(None) };
    let bad =
        || Status::invalid_argument(format!("node metadata {ENDPOINT_PORT_KEY} must be a port"));
    let port = port(value).ok_or_else(bad)?;
    Ok(peer.address.map(|address| Endpoint { ip: Ip(address.ip()), port }))
}

fn port(value: &Value) -> Option<Port> {
    let Value::NumberValue(number) = value else { return None };
    // Numbers are floating in protobuf's Struct; the cast saturates and the comparison finds out.
    let port = *number as u16;
    if f64::from(port) == *number { Port::new(port) } else { None }
}

fn metadata<'a>(node: Option<&'a Node>, key: &str) -> Option<&'a Value> {
    node?.metadata.as_ref()?.fields.get(key)?.kind.as_ref()
}

fn error_text(status: rpc::Status) -> String {
    status.message.chars().take(ERROR_CHARS_MAX).collect()
}
