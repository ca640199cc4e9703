//! Requests of either protocol variant, read into ours.
use super::node;
use crate::control::{Admission, Options};
use crate::identity::{Peer, Refusal, admit};
use crate::xds::{Protocol, Request};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DiscoveryRequest};
use envoy_types::pb::google::rpc;
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
        let version = Some(self.version_info).filter(|version| !version.is_empty());
        let request = Request {
            names: self.resource_names,
            version: version.map(|version| version_number(&version)),
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
        let held = self.initial_resource_versions.into_iter();
        let held = held.map(|(name, version)| (name, version_number(&version)));
        let request = Request {
            held: held.collect(),
            version: None,
            names: self.resource_names_subscribe,
            unsubscribe: self.resource_names_unsubscribe,
            nonce: self.response_nonce,
            error: self.error_detail.map(error_text),
        };
        Parts { node: self.node, type_url: self.type_url, request }
    }
}

/// One that is not ours is unlike any of ours: what has it is sent again.
fn version_number(text: &str) -> u64 {
    u64::from_str_radix(text, 16).unwrap_or_default()
}

/// Refuses what would cost too much.
pub fn check(request: &Request) -> Result<(), Status> {
    check_names(request.names.len() + request.unsubscribe.len() + request.held.len())
}

/// Of one request, and of all that a stream has asked for.
pub fn check_names(names: usize) -> Result<(), Status> {
    if names <= NAMES_MAX {
        return Ok(());
    }
    Err(Status::resource_exhausted(format!(
        "a stream names {names} resources, at most {NAMES_MAX} are allowed"
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
    let name = admit(peer, claimed, options.trust_domain.as_ref()).map_err(refused)?;
    let service = name.service();
    let instance = node.map(|node| node.id.as_str()).unwrap_or_default();
    let said = node::read(node, service.project()).map_err(Status::invalid_argument)?;
    let sides = (!endpoints_only).then(|| said.sides(options.outbound));
    let ip = peer.address.map(|address| address.ip());
    Ok(Admission {
        service,
        name,
        instance: instance.chars().take(INSTANCE_CHARS_MAX).collect(),
        address: peer.address,
        protocol,
        sides,
        // The address is the one we see; only ports are taken from what the proxy says.
        endpoints: ip.map(|ip| said.endpoints(ip)).unwrap_or_default(),
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

/// What Envoy says before everything that it was given, if that breaks a rule of its definition.
const DUMP: &str = "goo.gle/debug";

/// The cause of a refusal. Envoy may put all that it refuses before it, which would leave no room for it.
fn error_text(status: rpc::Status) -> String {
    let message = status.message.as_str();
    let (before, cause) = match message.split_once(DUMP) {
        Some((before, dump)) => (before, dump.lines().last().unwrap_or_default()),
        None => ("", message),
    };
    let cause = cause.trim_start_matches([':', ' ']);
    before.chars().chain(cause.chars()).take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(message: &str, expect: &str) {
        let status = rpc::Status { message: message.to_owned(), ..rpc::Status::default() };
        assert_eq!(error_text(status), expect);
    }

    #[test]
    fn the_cause_of_a_refusal_is_kept() {
        check("bad repetition operator: **", "bad repetition operator: **");
        check("one\ntwo", "one\ntwo");
        check("", "");
        let dump = format!("goo.gle/debugproto   \n{}", "routes {\n}\n".repeat(ERROR_CHARS_MAX));
        check(&format!("{dump}: Proto constraint failed (Name)"), "Proto constraint failed (Name)");
        let named = format!("Error updating listener x: {dump}: Proto constraint failed");
        check(&named, "Error updating listener x: Proto constraint failed");
        check(&"x".repeat(ERROR_CHARS_MAX + 1), &"x".repeat(ERROR_CHARS_MAX));
    }
}
