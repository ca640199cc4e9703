//! What a proxy says of itself in the metadata of its node, as its bootstrap has it.
use crate::address::{Endpoint, Ip, Placed, Port};
use crate::control::{Connect, Inbound, Sides};
use crate::envoy::{
    CONNECT_KEY, ENDPOINT_PORT_KEY, INBOUND_KEY, INSTANCE_KEY, OUTBOUND_KEY, PORT_ENDPOINT_KEY,
    PORT_INBOUND_KEY, PORT_INSTANCE_KEY, PORTS_KEY,
};
use crate::names::{Destination, PortName, is_label};
use envoy_types::pb::envoy::config::core::v3::Node;
use envoy_types::pb::google::protobuf::Struct;
use envoy_types::pb::google::protobuf::value::Kind as Value;
use std::net::{IpAddr, SocketAddr};

/// Ports of one service, and ports of others that one proxy connects to.
const PORTS_MAX: usize = 64;
const CONNECTS_MAX: usize = 256;

/// Read and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    outbound: Option<SocketAddr>,
    inbound: Vec<Inbound>,
    announced: Vec<(Option<PortName>, Port)>,
    connect: Vec<Connect>,
}

impl Said {
    /// Where the proxy listens; for requests of its own service at `outbound` unless it says otherwise.
    pub fn sides(&self, outbound: SocketAddr) -> Sides {
        Sides {
            outbound: self.outbound.unwrap_or(outbound),
            inbound: self.inbound.clone(),
            connect: self.connect.clone(),
        }
    }

    /// Where others reach the instance that it fronts.
    pub fn endpoints(&self, ip: IpAddr) -> Vec<Placed> {
        let placed = self.announced.iter().map(|(name, port)| Placed {
            endpoint: Endpoint { ip: Ip(ip), port: *port },
            port: name.clone(),
            is_first: name.is_none(),
        });
        placed.collect()
    }
}

/// The error says which part cannot be read. Names without a project are of `project`.
pub fn read(node: Option<&Node>, project: &str) -> Result<Said, String> {
    let Some(metadata) = node.and_then(|node| node.metadata.as_ref()) else {
        return Ok(Said::default());
    };
    let mut said = Said { outbound: socket_address(metadata, OUTBOUND_KEY)?, ..Said::default() };
    said.read_port(metadata, None, [INBOUND_KEY, INSTANCE_KEY, ENDPOINT_PORT_KEY])?;
    for (name, value) in entries(metadata, PORTS_KEY, PORTS_MAX)? {
        let Some(Value::StructValue(port)) = value else {
            return Err(format!("node metadata {PORTS_KEY} must hold an object for each port"));
        };
        if !is_label(name) {
            return Err(format!("node metadata {PORTS_KEY}: {name:?} is no name of a port"));
        }
        let keys = [PORT_INBOUND_KEY, PORT_INSTANCE_KEY, PORT_ENDPOINT_KEY];
        said.read_port(port, Some(name.into()), keys)?;
    }
    for (listen, to) in entries(metadata, CONNECT_KEY, CONNECTS_MAX)? {
        let bad = || {
            format!("node metadata {CONNECT_KEY} must map ip:port to [<project>/]<service>:<port>")
        };
        let listen = listen.parse().map_err(|_| bad())?;
        let Some(Value::StringValue(to)) = to else { return Err(bad()) };
        let to = Destination::within(project, to).map_err(|_| bad())?;
        said.connect.push(Connect { listen, to });
    }
    Ok(said)
}

impl Said {
    /// A proxy fronts its instance for others if it says where both are.
    fn read_port(
        &mut self,
        metadata: &Struct,
        port: Option<PortName>,
        [inbound, instance, announce]: [&str; 3],
    ) -> Result<(), String> {
        match (socket_address(metadata, inbound)?, socket_address(metadata, instance)?) {
            (Some(listen), Some(instance)) => {
                self.inbound.push(Inbound { port: port.clone(), listen, instance });
            }
            (None, None) => {}
            (Some(_), None) | (None, Some(_)) => {
                return Err(format!("node metadata {inbound} and {instance} go together"));
            }
        }
        if let Some(value) = value(metadata, announce) {
            let bad = || format!("node metadata {announce} must be a port");
            self.announced.push((port, number(value).ok_or_else(bad)?));
        }
        Ok(())
    }
}

/// What is in an object of the metadata, in the order of its keys.
fn entries<'a>(
    metadata: &'a Struct,
    key: &str,
    most: usize,
) -> Result<Vec<(&'a str, Option<&'a Value>)>, String> {
    let fields = match value(metadata, key) {
        None => return Ok(Vec::new()),
        Some(Value::StructValue(fields)) => &fields.fields,
        Some(_) => return Err(format!("node metadata {key} must be an object")),
    };
    if most < fields.len() {
        return Err(format!(
            "node metadata {key} has {} entries, at most {most} are allowed",
            fields.len()
        ));
    }
    let all = fields.iter().map(|(name, value)| (name.as_str(), value.kind.as_ref()));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(name, _)| *name);
    Ok(all)
}

fn socket_address(metadata: &Struct, key: &str) -> Result<Option<SocketAddr>, String> {
    let Some(value) = value(metadata, key) else { return Ok(None) };
    let parsed = match value {
        Value::StringValue(text) => text.parse().ok(),
        _ => None,
    };
    parsed.map(Some).ok_or_else(|| format!("node metadata {key} must be ip:port"))
}

fn number(value: &Value) -> Option<Port> {
    let Value::NumberValue(number) = value else { return None };
    // Numbers are floating in protobuf's Struct; the cast saturates and the comparison finds out.
    let port = *number as u16;
    if f64::from(port) == *number { Port::new(port) } else { None }
}

fn value<'a>(metadata: &'a Struct, key: &str) -> Option<&'a Value> {
    metadata.fields.get(key)?.kind.as_ref()
}

#[cfg(test)]
mod tests {
    use super::*;
    use envoy_types::pb::google::protobuf::Value as Wrapped;
    use serde_json::json;

    fn wrapped(value: &serde_json::Value) -> Wrapped {
        let kind = match value {
            serde_json::Value::String(text) => Value::StringValue(text.clone()),
            serde_json::Value::Number(number) => Value::NumberValue(number.as_f64().unwrap()),
            serde_json::Value::Object(_) => Value::StructValue(fields(value)),
            other => panic!("{other} is not in any test"),
        };
        Wrapped { kind: Some(kind) }
    }

    fn fields(value: &serde_json::Value) -> Struct {
        let fields = value.as_object().unwrap().iter();
        Struct { fields: fields.map(|(name, value)| (name.clone(), wrapped(value))).collect() }
    }

    fn said(metadata: &serde_json::Value) -> Result<Said, String> {
        let node = Node { metadata: Some(fields(metadata)), ..Node::default() };
        read(Some(&node), "shop")
    }

    /// proves: MSH-02
    #[test]
    fn every_port_is_read_and_announced_under_the_address_we_see() {
        let read = said(&json!({
            OUTBOUND_KEY: "127.0.0.1:1", INBOUND_KEY: "127.0.0.1:2", INSTANCE_KEY: "127.0.0.1:3",
            ENDPOINT_PORT_KEY: 2,
            PORTS_KEY: {"5432": {"inbound": "127.0.0.1:4", "instance": "127.0.0.1:5", "announce": 4}},
            CONNECT_KEY: {"127.0.0.1:6": "db:5432", "127.0.0.1:7": "office/db:pg"},
        }));
        let read = read.expect("readable");
        let sides = read.sides(([127, 0, 0, 1], 15001).into());
        assert_eq!(sides.outbound.port(), 1);
        let inbound: Vec<_> =
            sides.inbound.iter().map(|one| (&one.port, one.listen.port())).collect();
        assert_eq!(inbound, [(&None, 2), (&Some("5432".into()), 4)]);
        let connect: Vec<_> = sides.connect.iter().map(|one| one.to.to_string()).collect();
        assert_eq!(connect, ["shop/db:5432", "office/db:pg"]);
        let endpoints = read.endpoints([10, 0, 0, 9].into());
        let endpoints: Vec<_> = endpoints.iter().map(|one| one.endpoint.to_string()).collect();
        assert_eq!(endpoints, ["10.0.0.9:2", "10.0.0.9:4"]);
        assert_eq!(super::read(None, "shop"), Ok(Said::default()));
    }

    #[track_caller]
    fn check_bad(metadata: serde_json::Value, says: &str) {
        let error = said(&metadata).expect_err("not readable");
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        check_bad(json!({OUTBOUND_KEY: 7}), "must be ip:port");
        check_bad(json!({INBOUND_KEY: "127.0.0.1:1"}), "go together");
        check_bad(json!({ENDPOINT_PORT_KEY: 70000}), "must be a port");
        check_bad(json!({PORTS_KEY: "x"}), "must be an object");
        check_bad(json!({PORTS_KEY: {"A B": {}}}), "no name of a port");
        check_bad(json!({PORTS_KEY: {"a": 1}}), "an object for each");
        check_bad(json!({CONNECT_KEY: {"127.0.0.1": "db:1"}}), "must map ip:port");
        check_bad(json!({CONNECT_KEY: {"127.0.0.1:1": "Db:1"}}), "must map ip:port");
        let many: serde_json::Map<_, _> =
            (0..=PORTS_MAX).map(|number| (number.to_string(), json!({}))).collect();
        check_bad(json!({PORTS_KEY: many}), "at most");
    }
}
