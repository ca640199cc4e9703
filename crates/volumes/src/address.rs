//! Addresses of storage controllers, in the syntax of gRPC naming.
use std::{fmt, path::PathBuf, sync::Arc};

/// What gRPC clients take when `dns:` names no port.
const DNS_PORT_DEFAULT: u16 = 443;
/// A path longer than this does not fit into `sockaddr_un`.
const UNIX_PATH_LENGTH_MAX: usize = 107;
const SCHEMES: &str =
    "use host:port, dns:///host:port, ipv4:address:port, ipv6:[address]:port or unix:path";

/// An address as it was registered, and what it means. Cheap to clone: every proxied call has one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(Arc<Parts>);

#[derive(Debug, PartialEq, Eq)]
struct Parts {
    text: String,
    target: Target,
}

/// Where to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A name or IP address and a port; names are resolved at every connection.
    Tcp {
        host: String,
        port: u16,
    },
    Unix(PathBuf),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid address {text:?}: {reason}")]
pub struct InvalidAddress {
    text: String,
    reason: &'static str,
}

impl InvalidAddress {
    /// What is wrong with it, without the address.
    pub fn reason(&self) -> &'static str {
        self.reason
    }
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, InvalidAddress> {
        let target = target(text).map_err(|reason| InvalidAddress { text: text.into(), reason })?;
        Ok(Self(Arc::new(Parts { text: text.to_owned(), target })))
    }

    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    pub fn target(&self) -> &Target {
        &self.0.target
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.text)
    }
}

fn target(text: &str) -> Result<Target, &'static str> {
    if text.bytes().any(|byte| byte.is_ascii_control() || byte == b' ' || byte == b',') {
        return Err("it has to be one address, without spaces or commas");
    }
    match text.split_once(':') {
        Some(("dns", rest)) => dns(rest),
        Some(("unix", rest)) => unix(rest),
        Some(("ipv4", rest)) => ip(rest, |address| address.is_ipv4()),
        Some(("ipv6", rest)) => ip(rest, |address| address.is_ipv6()),
        Some((_, rest)) if rest.starts_with("//") => Err(SCHEMES),
        Some(("unix-abstract" | "vsock" | "xds", _)) => Err(SCHEMES),
        Some(_) => tcp(text, None),
        None => Err("a port is missing, as in host:8999"),
    }
}

fn dns(rest: &str) -> Result<Target, &'static str> {
    let endpoint = match rest.strip_prefix("//") {
        Some(with_authority) => with_authority
            .strip_prefix('/')
            .ok_or("a DNS server cannot be chosen here, write dns:///host:port")?,
        None => rest,
    };
    tcp(endpoint, Some(DNS_PORT_DEFAULT))
}

fn unix(rest: &str) -> Result<Target, &'static str> {
    let path = rest.strip_prefix("//").unwrap_or(rest);
    if rest.starts_with("//") && !path.starts_with('/') {
        return Err("unix:// needs an absolute path, as in unix:///run/oim.sock");
    }
    match path.len() {
        0 => Err("the path is empty"),
        1..=UNIX_PATH_LENGTH_MAX => Ok(Target::Unix(path.into())),
        _ => Err("the path is longer than a socket's can be (107 bytes)"),
    }
}

fn ip(rest: &str, right_family: fn(&std::net::IpAddr) -> bool) -> Result<Target, &'static str> {
    let socket: std::net::SocketAddr =
        rest.parse().map_err(|_| "an IP address and a port are expected")?;
    if !right_family(&socket.ip()) {
        return Err("the IP address is of the other family");
    }
    non_zero(socket.port()).map(|port| Target::Tcp { host: socket.ip().to_string(), port })
}

fn tcp(endpoint: &str, port_default: Option<u16>) -> Result<Target, &'static str> {
    let (host, port) = split_port(endpoint)?;
    let port = match (port, port_default) {
        (Some(port), _) => non_zero(port.parse().map_err(|_| "the port is not a number")?)?,
        (None, Some(port)) => port,
        (None, None) => return Err("a port is missing, as in host:8999"),
    };
    Ok(Target::Tcp { host, port })
}

fn non_zero(port: u16) -> Result<u16, &'static str> {
    if port == 0 { Err("port 0 cannot be connected to") } else { Ok(port) }
}

/// Takes `host`, `host:port`, `[v6]` and `[v6]:port` apart.
fn split_port(endpoint: &str) -> Result<(String, Option<&str>), &'static str> {
    if let Some(rest) = endpoint.strip_prefix('[') {
        let (literal, after) = rest.split_once(']').ok_or("the bracket is not closed")?;
        literal.parse::<std::net::Ipv6Addr>().map_err(|_| "brackets hold an IPv6 address")?;
        return match (after, after.strip_prefix(':')) {
            ("", _) => Ok((literal.to_owned(), None)),
            (_, Some(port)) => Ok((literal.to_owned(), Some(port))),
            (_, None) => Err("after the bracket only a port may follow"),
        };
    }
    let (host, port) = match endpoint.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (endpoint, None),
    };
    if !host_like(host) {
        return Err("the host is not a host name or an IP address (IPv6 needs brackets)");
    }
    Ok((host.to_owned(), port))
}

fn host_like(host: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= 63
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    host.len() <= 253 && host.strip_suffix('.').unwrap_or(host).split('.').all(label)
}

#[cfg(test)]
mod tests {
    use super::{Address, Target};
    use proptest::prelude::*;

    fn target(text: &str) -> Result<Target, String> {
        let address = Address::parse(text).map_err(|error| error.to_string())?;
        assert_eq!(address.as_str(), text, "an address is kept as it was given");
        Ok(address.target().clone())
    }

    #[track_caller]
    fn tcp(text: &str, host: &str, port: u16) {
        assert_eq!(target(text), Ok(Target::Tcp { host: host.into(), port }), "{text:?}");
    }

    #[track_caller]
    fn unix(text: &str, path: &str) {
        assert_eq!(target(text), Ok(Target::Unix(path.into())), "{text:?}");
    }

    #[track_caller]
    fn refused(text: &str) {
        assert!(target(text).is_err(), "{text:?}");
    }

    /// proves: VOL-02
    #[test]
    fn the_forms_of_grpc_naming_are_understood() {
        tcp("host:8999", "host", 8999);
        tcp("host.example.:1", "host.example.", 1);
        tcp("127.0.0.1:65535", "127.0.0.1", 65535);
        tcp("[::1]:8999", "::1", 8999);
        tcp("dns:///host:8999", "host", 8999);
        tcp("dns:host:8999", "host", 8999);
        tcp("dns:///host", "host", 443);
        tcp("dns:///[2001:db8::1]:5", "2001:db8::1", 5);
        tcp("ipv4:10.0.0.1:5", "10.0.0.1", 5);
        tcp("ipv6:[::1]:5", "::1", 5);
        unix("unix:/run/oim.sock", "/run/oim.sock");
        unix("unix:///run/oim.sock", "/run/oim.sock");
        unix("unix:oim.sock", "oim.sock");
    }

    /// proves: VOL-02
    #[test]
    fn everything_else_is_refused() {
        refused("");
        refused("host");
        refused(":8999");
        refused("host:");
        refused("host:0");
        refused("host:65536");
        refused("host:http");
        refused("ho st:1");
        refused("a:1,b:1");
        refused("::1:8999");
        refused("[::1]");
        refused("[::1:5");
        refused("[host]:5");
        refused("dns://8.8.8.8/host:1");
        refused("http://host:1");
        refused("xds:///service");
        refused("unix:");
        refused("unix://run/oim.sock");
        refused("unix-abstract:name");
        refused("ipv4:host:5");
        refused("ipv4:[::1]:5");
        refused("ipv6:127.0.0.1:5");
        refused(&format!("unix:/{}", "a".repeat(107)));
    }

    proptest! {
        /// Whatever is registered, parsing ends and never invents a port.
        #[test]
        fn parsing_never_panics(text in "\\PC{0,40}") {
            if let Ok(address) = Address::parse(&text)
                && let Target::Tcp { port, .. } = address.target()
            {
                prop_assert!(*port != 0);
            }
        }
    }
}
