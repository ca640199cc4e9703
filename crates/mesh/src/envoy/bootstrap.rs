//! The file an Envoy is started with.
//!
//! It says who the proxy is, where the control plane is and how to prove it, and asks for the rest.
use super::files::FollowedFiles;
use super::{
    CONNECT_KEY, ENDPOINT_PORT_KEY, INBOUND_KEY, INSTANCE_KEY, OUTBOUND_KEY, PORT_ENDPOINT_KEY,
    PORT_INBOUND_KEY, PORT_INSTANCE_KEY, PORTS_KEY,
};
use crate::names::{Destination, PortName, ServiceName};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// Envoy refuses expressions whose programs have more than 100 steps, unless told otherwise, and everything along
/// with them: a list of a dozen paths, or the names of a caller and its project. RE2 itself stops before this.
const REGEX_STEPS_MAX: u32 = 100_000;
/// The cluster of the control plane, in the bootstrap only.
const CONTROL_PLANE: &str = "orrery";
const ADS_API: [&str; 2] = ["GRPC", "DELTA_GRPC"];

/// How the proxy asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything on one stream: clusters, endpoints, listeners, routes. Whole states.
    Aggregated,
    /// The same, differences only.
    AggregatedDelta,
    /// Only endpoints are asked for; the listener forwards to one port of a service, by this file alone.
    EndpointsOnly { destination: Destination },
}

/// Where the control plane listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlane {
    /// An address, or a name that is looked up again and again.
    pub host: String,
    pub port: u16,
}

impl From<SocketAddr> for ControlPlane {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

/// PEM files as the proxy finds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsPaths {
    pub root: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Files that name the three, so that the proxy notices when they are replaced; without them it reads
    /// the three when it starts, and never again.
    pub followed: Option<FollowedFiles>,
    /// What the certificate of the control plane must say: a SPIFFE id, an address or a DNS name; or what its
    /// SPIFFE id must begin with, up to a slash.
    pub server_name: String,
}

/// What a proxy does for one port of the service it fronts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortBootstrap {
    /// Where the traffic of others is taken, and where the instance is that it goes to; `None` if the
    /// proxy does not front the instance there.
    pub inbound: Option<(SocketAddr, SocketAddr)>,
    /// The port under which others reach the instance; announced while the stream lives.
    pub announce: Option<u16>,
}

/// What a bootstrap is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The service that the proxy fronts; its certificate must say the same.
    pub service: ServiceName,
    /// Tells the proxies of one service apart, in the status and in logs. When empty, the proxy is told by
    /// its command line (`--service-node`).
    pub instance: String,
    pub control_plane: ControlPlane,
    /// `None` only where the control plane listens in plain on loopback.
    pub tls: Option<TlsPaths>,
    /// Where the service's own requests to others are taken.
    pub outbound: SocketAddr,
    /// What it does for the first port of its service.
    pub first: PortBootstrap,
    /// What it does for the others.
    pub ports: BTreeMap<PortName, PortBootstrap>,
    /// Where the service's own connections to others are taken, and where they go.
    pub connect: BTreeMap<SocketAddr, Destination>,
    pub admin: Option<SocketAddr>,
    pub mode: Mode,
}

impl Bootstrap {
    /// As JSON, which Envoy reads as well as YAML.
    pub fn to_json(&self) -> Value {
        let mut clusters = vec![self.control_plane_cluster()];
        let mut listeners = Vec::new();
        if let Mode::EndpointsOnly { destination } = &self.mode {
            clusters.push(endpoints_cluster(destination));
            listeners.push(self.static_listener(destination));
        }
        let mut whole = json!({
            "node": self.node(),
            "static_resources": { "clusters": clusters, "listeners": listeners },
            "layered_runtime": { "layers": [{ "name": "expressions", "static_layer": {
                "re2.max_program_size.error_level": REGEX_STEPS_MAX,
            } }] },
        });
        if let Some(admin) = self.admin {
            whole["admin"] = json!({ "address": socket_address(admin) });
        }
        match self.mode {
            Mode::Aggregated => whole["dynamic_resources"] = dynamic_resources(ADS_API[0]),
            Mode::AggregatedDelta => whole["dynamic_resources"] = dynamic_resources(ADS_API[1]),
            Mode::EndpointsOnly { .. } => {}
        }
        whole
    }

    fn node(&self) -> Value {
        let mut metadata = json!({ OUTBOUND_KEY: self.outbound.to_string() });
        let keys = [INBOUND_KEY, INSTANCE_KEY, ENDPOINT_PORT_KEY];
        self.first.write(&mut metadata, keys);
        for (name, port) in &self.ports {
            let keys = [PORT_INBOUND_KEY, PORT_INSTANCE_KEY, PORT_ENDPOINT_KEY];
            let mut written = json!({});
            port.write(&mut written, keys);
            metadata[PORTS_KEY][name.0.as_str()] = written;
        }
        for (at, to) in &self.connect {
            metadata[CONNECT_KEY][at.to_string()] = to.to_string().into();
        }
        let mut node = json!({ "cluster": self.service.as_str(), "metadata": metadata });
        if !self.instance.is_empty() {
            node["id"] = self.instance.as_str().into();
        }
        node
    }

    fn control_plane_cluster(&self) -> Value {
        let ControlPlane { host, port } = &self.control_plane;
        let is_address = host.parse::<IpAddr>().is_ok();
        let mut cluster = json!({
            "name": CONTROL_PLANE,
            "type": if is_address { "STATIC" } else { "STRICT_DNS" },
            "connect_timeout": "5s",
            "typed_extension_protocol_options": {
                "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                    "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions",
                    "explicit_http_config": { "http2_protocol_options": {
                        // A control plane that vanished without a word is noticed.
                        "connection_keepalive": { "interval": "30s", "timeout": "5s" },
                    } },
                },
            },
            "load_assignment": {
                "cluster_name": CONTROL_PLANE,
                "endpoints": [{ "lb_endpoints": [{
                    "endpoint": { "address": { "socket_address": { "address": host, "port_value": port } } },
                }] }],
            },
        });
        if let Some(tls) = &self.tls {
            cluster["transport_socket"] = tls.transport_socket();
        }
        cluster
    }

    fn static_listener(&self, destination: &Destination) -> Value {
        json!({
            "name": super::OUTBOUND,
            "address": socket_address(self.outbound),
            "filter_chains": [{ "filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                    "stat_prefix": super::OUTBOUND,
                    "route_config": { "virtual_hosts": [{
                        "name": destination.to_string(),
                        "domains": ["*"],
                        "routes": [{
                            "match": { "prefix": "/" },
                            "route": { "cluster": destination.to_string() },
                        }],
                    }] },
                    "http_filters": [{
                        "name": "envoy.filters.http.router",
                        "typed_config": {
                            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
                        },
                    }],
                },
            }] }],
        })
    }
}

impl PortBootstrap {
    fn write(&self, metadata: &mut Value, [inbound, instance, announce]: [&str; 3]) {
        if let Some((listen, app)) = self.inbound {
            metadata[inbound] = listen.to_string().into();
            metadata[instance] = app.to_string().into();
        }
        if let Some(port) = self.announce {
            metadata[announce] = port.into();
        }
    }
}

impl TlsPaths {
    fn transport_socket(&self) -> Value {
        let kind = match self.server_name.parse::<IpAddr>() {
            Ok(_) => "IP_ADDRESS",
            Err(_) if self.server_name.starts_with("spiffe://") => "URI",
            Err(_) => "DNS",
        };
        let how = if kind == "URI" && self.server_name.ends_with('/') { "prefix" } else { "exact" };
        let names = json!({
            "match_typed_subject_alt_names": [{
                "san_type": kind,
                "matcher": { how: self.server_name },
            }],
        });
        let mut context = json!({
            "alpn_protocols": ["h2"],
            // Without this Envoy, as a client, goes no further than TLS 1.2.
            "tls_params": { "tls_maximum_protocol_version": "TLSv1_3" },
        });
        match &self.followed {
            Some(files) => {
                context["tls_certificate_sds_secret_configs"] = json!([files.certificate_source()]);
                context["combined_validation_context"] = json!({
                    "default_validation_context": names,
                    "validation_context_sds_secret_config": files.roots_source(),
                });
            }
            None => {
                context["tls_certificates"] = json!([self.certificate()]);
                context["validation_context"] = names;
                context["validation_context"]["trusted_ca"] = json!({ "filename": self.root });
            }
        }
        json!({
            "name": "envoy.transport_sockets.tls",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
                "common_tls_context": context,
            },
        })
    }

    pub(super) fn certificate(&self) -> Value {
        json!({
            "certificate_chain": { "filename": self.certificate },
            "private_key": { "filename": self.key },
        })
    }
}

fn grpc_source(api_type: &str) -> Value {
    json!({
        "api_type": api_type,
        "transport_api_version": "V3",
        "set_node_on_first_message_only": true,
        "grpc_services": [{ "envoy_grpc": { "cluster_name": CONTROL_PLANE } }],
    })
}

fn dynamic_resources(api_type: &str) -> Value {
    let source = json!({ "resource_api_version": "V3", "ads": {} });
    json!({ "ads_config": grpc_source(api_type), "cds_config": source, "lds_config": source })
}

fn endpoints_cluster(destination: &Destination) -> Value {
    let source = json!({
        "resource_api_version": "V3",
        "api_config_source": grpc_source(ADS_API[0]),
    });
    json!({
        "name": destination.to_string(),
        "type": "EDS",
        "connect_timeout": "5s",
        "eds_cluster_config": { "service_name": destination.to_string(), "eds_config": source },
    })
}

fn socket_address(address: SocketAddr) -> Value {
    json!({ "socket_address": {
        "address": address.ip().to_string(),
        "port_value": address.port(),
    } })
}
