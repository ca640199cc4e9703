//! Mutual TLS between proxies, with certificates that come on the same stream.
use super::{CERTIFICATE_NAME, ROOTS_NAME, from_ads, regex_string};
use crate::names::{PROJECT_DEFAULT, ServiceName};
use envoy_types::pb::envoy::config::core::v3::{TransportSocket, transport_socket};
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;
use envoy_types::pb::google::protobuf::BoolValue;
use envoy_types::util::pack_any;
use orrery_pki::{Role, TrustDomain};
use tls::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};

/// An expression for the SPIFFE ids of all proxies of a service: the form that
/// [`crate::admit`] reads, the other way round.
pub fn identity_regex(trust_domain: Option<&TrustDomain>, service: &ServiceName) -> String {
    // Without a trust domain of our own, the authority alone decides whom to believe.
    let domain = trust_domain.map_or_else(|| "[^/]+".to_owned(), |one| regex::escape(one.as_str()));
    let (name, project) = (regex::escape(service.name()), regex::escape(service.project()));
    let long = format!(r"\.{project}(?:\..+)?");
    let tail = if service.project() == PROJECT_DEFAULT { format!("(?:{long})?") } else { long };
    format!("spiffe://{domain}/{}/{name}{tail}", Role::Proxy)
}

/// By this a caller says who it is before the handshake; its certificate has to prove it.
pub fn spoken_name(service: &ServiceName) -> String {
    format!("{}.{}", service.name(), service.project())
}

/// For connections to `service`: we show who we are, and insist that it is the service. Where the other side
/// tells callers apart before the handshake, we are `caller`.
pub fn upstream(
    trust_domain: Option<&TrustDomain>,
    service: &ServiceName,
    caller: Option<&ServiceName>,
) -> TransportSocket {
    let validation = combined(vec![name_matcher(trust_domain, service)]);
    let context = tls::UpstreamTlsContext {
        common_tls_context: Some(common(validation)),
        sni: caller.map(spoken_name).unwrap_or_default(),
        ..Default::default()
    };
    socket(pack_any(context))
}

fn name_matcher(
    trust_domain: Option<&TrustDomain>,
    service: &ServiceName,
) -> tls::SubjectAltNameMatcher {
    tls::SubjectAltNameMatcher {
        san_type: tls::subject_alt_name_matcher::SanType::Uri.into(),
        matcher: Some(regex_string(identity_regex(trust_domain, service))),
        ..Default::default()
    }
}

/// A certificate of our roots that has one of these names.
fn combined(names: Vec<tls::SubjectAltNameMatcher>) -> ValidationContextType {
    ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
        default_validation_context: Some(tls::CertificateValidationContext {
            match_typed_subject_alt_names: names,
            ..Default::default()
        }),
        validation_context_sds_secret_config: Some(secret(ROOTS_NAME)),
        ..Default::default()
    })
}

/// For connections from others: nobody without a certificate of our roots, and only this one where one is
/// given.
pub fn downstream(
    trust_domain: Option<&TrustDomain>,
    caller: Option<&ServiceName>,
) -> TransportSocket {
    let validation = match caller {
        None => ValidationContextType::ValidationContextSdsSecretConfig(secret(ROOTS_NAME)),
        Some(caller) => combined(vec![name_matcher(trust_domain, caller)]),
    };
    let context = tls::DownstreamTlsContext {
        common_tls_context: Some(common(validation)),
        require_client_certificate: Some(BoolValue { value: true }),
        ..Default::default()
    };
    socket(pack_any(context))
}

fn common(validation: ValidationContextType) -> tls::CommonTlsContext {
    tls::CommonTlsContext {
        tls_params: Some(tls::TlsParameters {
            tls_minimum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv12.into(),
            tls_maximum_protocol_version: tls::tls_parameters::TlsProtocol::TlSv13.into(),
            ..Default::default()
        }),
        tls_certificate_sds_secret_configs: vec![secret(CERTIFICATE_NAME)],
        validation_context_type: Some(validation),
        ..Default::default()
    }
}

fn secret(name: &str) -> tls::SdsSecretConfig {
    tls::SdsSecretConfig { name: name.to_owned(), sds_config: Some(from_ads()) }
}

fn socket(config: envoy_types::pb::google::protobuf::Any) -> TransportSocket {
    TransportSocket {
        name: "envoy.transport_sockets.tls".to_owned(),
        config_type: Some(transport_socket::ConfigType::TypedConfig(config)),
    }
}
