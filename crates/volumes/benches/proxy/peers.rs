//! The proxies that are measured, each set up as its manual says for gRPC.
use crate::children::{self, CONTROLLER, Ports, Running, files, listening, ourselves};
use orrery_pki::Role;
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// No proxy at all.
    Direct,
    Ours,
    Nginx,
    Envoy,
}

/// The paths of a role's root, certificate and key.
fn paths(folder: &Path, role: Role) -> [String; 3] {
    let files = files(folder, role);
    [files.root, files.certificate, files.key].map(|path| path.unwrap().display().to_string())
}

impl Peer {
    pub fn shown(self) -> &'static str {
        match self {
            Self::Direct => "none",
            Self::Ours => "ours",
            Self::Nginx => "nginx",
            Self::Envoy => "Envoy",
        }
    }

    pub fn port(self, ports: &Ports) -> u16 {
        match self {
            Self::Direct => ports.echo,
            Self::Ours => ports.ours,
            Self::Nginx => ports.nginx,
            Self::Envoy => ports.envoy,
        }
    }

    /// The name that its certificate has.
    pub fn name(self) -> &'static str {
        if self == Self::Direct { "controller.host-1" } else { "component.registry" }
    }

    pub async fn start(self, ports: &Ports, folder: &Path, encrypted: bool) -> Option<Running> {
        let running = match self {
            Self::Direct => return None,
            Self::Ours => {
                let place = if encrypted { folder.to_str().unwrap() } else { "-" };
                let (port, echo) = (ports.ours.to_string(), ports.echo.to_string());
                ourselves(&["serve-proxy", &port, &echo, place])
            }
            Self::Nginx => {
                let config = folder.join("nginx.conf");
                std::fs::write(&config, nginx(ports, folder, encrypted)).unwrap();
                let mut command = Command::new("/usr/sbin/nginx");
                children::spawn(command.arg("-p").arg(folder).arg("-c").arg(config))
            }
            Self::Envoy => {
                let config = folder.join("envoy.yaml");
                std::fs::write(&config, envoy(ports, folder, encrypted)).unwrap();
                let mut command = Command::new(tools().join("venv/bin/envoy"));
                command.args(["--disable-hot-restart", "--log-level", "off", "-c"]).arg(config);
                children::spawn(&mut command)
            }
        };
        listening(self.port(ports)).await;
        Some(running)
    }
}

fn tools() -> PathBuf {
    match std::env::var_os("ORRERY_TOOLS") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools"),
    }
}

fn nginx(ports: &Ports, folder: &Path, encrypted: bool) -> String {
    let (listen, pass, tls) = if encrypted {
        let [root, certificate, key] = paths(folder, Role::Server);
        let tls = format!(
            "ssl_certificate {certificate}; ssl_certificate_key {key}; ssl_verify_client on;
             ssl_client_certificate {root};
             grpc_ssl_certificate {certificate}; grpc_ssl_certificate_key {key};
             grpc_ssl_trusted_certificate {root}; grpc_ssl_verify on; grpc_ssl_server_name on;
             grpc_ssl_name controller.{CONTROLLER};"
        );
        ("ssl http2", "grpcs", tls)
    } else {
        ("http2", "grpc", String::new())
    };
    format!(
        "daemon off; master_process off; pid nginx.pid; error_log /dev/null;
         events {{ worker_connections 1024; }}
         http {{
           access_log off; client_body_temp_path body; proxy_temp_path proxy;
           fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
           upstream echo {{ server 127.0.0.1:{}; keepalive 128; keepalive_requests 100000000; }}
           server {{
             listen 127.0.0.1:{} {listen}; keepalive_requests 100000000; client_max_body_size 0;
             {tls}
             location / {{ grpc_pass {pass}://echo; grpc_buffer_size 64k; }}
           }}
         }}",
        ports.echo, ports.nginx
    )
}

fn envoy(ports: &Ports, folder: &Path, encrypted: bool) -> String {
    let common = || {
        let [root, certificate, key] = paths(folder, Role::Server);
        format!(
            "alpn_protocols: [h2], tls_certificates: [{{certificate_chain: {{filename: {certificate}}}, private_key: {{filename: {key}}}}}], validation_context: {{trusted_ca: {{filename: {root}}}}}"
        )
    };
    let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3";
    let (down, up) = if encrypted {
        let common = common();
        (
            format!(
                "transport_socket: {{name: tls, typed_config: {{'@type': {kind}.DownstreamTlsContext, require_client_certificate: true, common_tls_context: {{{common}}}}}}}"
            ),
            format!(
                "transport_socket: {{name: tls, typed_config: {{'@type': {kind}.UpstreamTlsContext, sni: controller.{CONTROLLER}, common_tls_context: {{{common}}}}}}}"
            ),
        )
    } else {
        (String::new(), String::new())
    };
    format!(
        "
static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}
    filter_chains:
    - filters:
      - name: http
        typed_config:
          '@type': type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: bench
          codec_type: HTTP2
          route_config:
            virtual_hosts:
            - {{name: all, domains: ['*'], routes: [{{match: {{prefix: /}}, route: {{cluster: echo, timeout: 0s}}}}]}}
          http_filters:
          - {{name: router, typed_config: {{'@type': type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}}}
      {down}
  clusters:
  - name: echo
    type: STATIC
    load_assignment: {{cluster_name: echo, endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}}}}}]}}]}}
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        '@type': type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}
    {up}
",
        ports.envoy, ports.echo
    )
    .replace("      \n", "\n")
}
