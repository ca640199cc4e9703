//! What the host says before the first connection, and what it is told. Pure.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use std::path::Path;

/// A word that hosts say, so that nobody starts a plugin by mistake. It is no secret.
const COOKIE_NAME: &str = "TF_PLUGIN_MAGIC_COOKIE";
const COOKIE: &str = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";

/// Version of the handshake itself.
const CORE: u32 = 1;
/// Version of the protocol that the provider speaks.
pub const PROTOCOL: u32 = 6;

/// What the host told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// The only certificate that is let in. Hosts that name none get a plain connection.
    pub host: Option<CertificateDer<'static>>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    #[error(
        "this is the Orrery provider of Terraform; Terraform starts it by itself.\n\
         How to use it is told in docs/terraform.md; to try a build of your own, name its folder under \
         dev_overrides in the configuration of Terraform's command line."
    )]
    NoHost,
    #[error(
        "the host speaks protocol {0}, and this provider protocol {PROTOCOL}: use Terraform 1.0 or later"
    )]
    Protocol(String),
    #[error("the host names a certificate that cannot be read (PLUGIN_CLIENT_CERT)")]
    Certificate,
}

impl Handshake {
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, HandshakeError> {
        if variable(COOKIE_NAME).as_deref() != Some(COOKIE) {
            return Err(HandshakeError::NoHost);
        }
        let versions = variable("PLUGIN_PROTOCOL_VERSIONS").unwrap_or_default();
        let speaks = |version: &str| version.trim().parse() == Ok(PROTOCOL);
        if !versions.is_empty() && !versions.split(',').any(speaks) {
            return Err(HandshakeError::Protocol(versions));
        }
        let host = variable("PLUGIN_CLIENT_CERT").filter(|pem| !pem.is_empty());
        let host = host.map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()));
        Ok(Self { host: host.transpose().map_err(|_| HandshakeError::Certificate)? })
    }

    /// The line that tells the host where we are, and which certificate we show.
    pub fn line(socket: &Path, certificate: Option<&CertificateDer<'_>>) -> String {
        let certificate = certificate.map(|der| STANDARD_NO_PAD.encode(der)).unwrap_or_default();
        format!("{CORE}|{PROTOCOL}|unix|{}|grpc|{certificate}\n", socket.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expect: Result<bool, HandshakeError>) {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name);
        let read = Handshake::read(|name| find(name).map(|(_, value)| (*value).to_owned()));
        assert_eq!(read.map(|handshake| handshake.host.is_some()), expect, "{variables:?}");
    }

    #[test]
    fn only_hosts_are_served() {
        let cookie = (COOKIE_NAME, COOKIE);
        check(&[], Err(HandshakeError::NoHost));
        check(&[(COOKIE_NAME, "another")], Err(HandshakeError::NoHost));
        check(&[cookie], Ok(false));
        check(&[cookie, ("PLUGIN_PROTOCOL_VERSIONS", "5,6")], Ok(false));
        let old = ("PLUGIN_PROTOCOL_VERSIONS", "4,5");
        check(&[cookie, old], Err(HandshakeError::Protocol("4,5".into())));
        check(&[cookie, ("PLUGIN_CLIENT_CERT", "x")], Err(HandshakeError::Certificate));
        let pem = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        check(&[cookie, ("PLUGIN_CLIENT_CERT", pem)], Ok(true));
    }

    #[test]
    fn the_line_names_socket_and_certificate() {
        let der = CertificateDer::from(vec![1, 2]);
        let line = Handshake::line(Path::new("/tmp/x/socket"), Some(&der));
        assert_eq!(line, "1|6|unix|/tmp/x/socket|grpc|AQI\n");
        assert_eq!(Handshake::line(Path::new("/s"), None), "1|6|unix|/s|grpc|\n");
    }
}
