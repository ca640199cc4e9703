//! The file an Envoy is started with.
//!
//! It says who the proxy is, where the control plane is and how to prove it, and asks for the rest.
use super::{ENDPOINT_PORT_KEY, INBOUND_KEY, INSTANCE_KEY, OUTBOUND_KEY};
use crate::names::ServiceName;
use serde_json::{Value, json};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

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
    /// Only endpoints are asked for; the listener forwards to one service, by this file alone.
    EndpointsOnly { destination: ServiceName },
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
    /// What the certificate of the control plane must say: a SPIFFE id, an address or a DNS name.
    pub server_name: String,
    /// Files that hold what [`TlsPaths::secrets`] says. With them, the proxy notices when the PEM files
    /// change; without them, it reads them once.
    pub secrets: Option<SecretPaths>,
}

/// Files that say which PEM files there are. A proxy takes one secret from each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPaths {
    pub own: PathBuf,
    pub trust: PathBuf,
}

/// Names of the secrets in those files.
const OWN: &str = "own";
const TRUST: &str = "trust";
const SECRET_TYPE: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// What a bootstrap is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bootstrap {
    /// The service that the proxy fronts; its certificate must say the same.
    pub service: ServiceName,
    /// Tells the proxies of one service apart, in the status and in logs.
    pub instance: String,
    pub control_plane: ControlPlane,
    /// `None` only where the control plane listens in plain on loopback.
    pub tls: Option<TlsPaths>,
    /// Where the service's own requests to others are taken.
    pub outbound: SocketAddr,
    /// Where the requests of others are taken, and where the instance is that they go to; `None` if
    /// the proxy does not front the instance.
    pub inbound: Option<(SocketAddr, SocketAddr)>,
    /// The port under which others reach this instance; announced while the stream lives.
    pub endpoint_port: Option<u16>,
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
        if let Some((listen, instance)) = self.inbound {
            metadata[INBOUND_KEY] = listen.to_string().into();
            metadata[INSTANCE_KEY] = instance.to_string().into();
        }
        if let Some(port) = self.endpoint_port {
            metadata[ENDPOINT_PORT_KEY] = port.into();
        }
        json!({ "id": self.instance, "cluster": self.service.as_str(), "metadata": metadata })
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

    fn static_listener(&self, destination: &ServiceName) -> Value {
        json!({
            "name": super::OUTBOUND,
            "address": socket_address(self.outbound),
            "filter_chains": [{ "filters": [{
                "name": "envoy.filters.network.http_connection_manager",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                    "stat_prefix": super::OUTBOUND,
                    "route_config": { "virtual_hosts": [{
                        "name": destination.as_str(),
                        "domains": ["*"],
                        "routes": [{
                            "match": { "prefix": "/" },
                            "route": { "cluster": destination.as_str() },
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

impl TlsPaths {
    fn transport_socket(&self) -> Value {
        let mut context = json!({
            "alpn_protocols": ["h2"],
            // Without this Envoy, as a client, goes no further than TLS 1.2.
            "tls_params": { "tls_maximum_protocol_version": "TLSv1_3" },
        });
        match &self.secrets {
            None => {
                context["tls_certificates"] = json!([self.certificate()]);
                context["validation_context"] = self.validation();
            }
            Some(SecretPaths { own, trust }) => {
                context["tls_certificate_sds_secret_configs"] = json!([secret_source(OWN, own)]);
                context["validation_context_sds_secret_config"] = secret_source(TRUST, trust);
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

    /// The contents of the files with secrets: which PEM files there are, and that their folder is
    /// watched.
    pub fn secrets(&self) -> Vec<(&Path, Value)> {
        let Some(SecretPaths { own, trust }) = &self.secrets else { return Vec::new() };
        let folder = self.certificate.parent().map(|folder| json!({ "path": folder }));
        let (mut certificate, mut validation) = (self.certificate(), self.validation());
        if let Some(folder) = folder {
            certificate["watched_directory"] = folder.clone();
            validation["watched_directory"] = folder;
        }
        let file = |secret: Value| json!({ "resources": [secret] });
        let certificate =
            json!({ "@type": SECRET_TYPE, "name": OWN, "tls_certificate": certificate });
        let validation =
            json!({ "@type": SECRET_TYPE, "name": TRUST, "validation_context": validation });
        vec![(own, file(certificate)), (trust, file(validation))]
    }

    fn certificate(&self) -> Value {
        json!({
            "certificate_chain": { "filename": self.certificate },
            "private_key": { "filename": self.key },
        })
    }

    fn validation(&self) -> Value {
        let kind = match self.server_name.parse::<IpAddr>() {
            Ok(_) => "IP_ADDRESS",
            Err(_) if self.server_name.starts_with("spiffe://") => "URI",
            Err(_) => "DNS",
        };
        json!({
            "trusted_ca": { "filename": self.root },
            "match_typed_subject_alt_names": [{
                "san_type": kind,
                "matcher": { "exact": self.server_name },
            }],
        })
    }
}

fn secret_source(name: &str, file: &Path) -> Value {
    let source = json!({ "resource_api_version": "V3", "path_config_source": { "path": file } });
    json!({ "name": name, "sds_config": source })
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

fn endpoints_cluster(destination: &ServiceName) -> Value {
    let source = json!({
        "resource_api_version": "V3",
        "api_config_source": grpc_source(ADS_API[0]),
    });
    json!({
        "name": destination.as_str(),
        "type": "EDS",
        "connect_timeout": "5s",
        "eds_cluster_config": { "service_name": destination.as_str(), "eds_config": source },
    })
}

fn socket_address(address: SocketAddr) -> Value {
    json!({ "socket_address": {
        "address": address.ip().to_string(),
        "port_value": address.port(),
    } })
}
