//! Whom listeners let through, decided as Envoy does: a chain by the name that is spoken, the names that the
//! handshake demands, then the filters.
use super::*;
use crate::topology::Revoked;
use envoy_types::pb::envoy::config::core::v3::transport_socket::ConfigType;
use envoy_types::pb::envoy::config::rbac::v3::{Principal, principal::Identifier};
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3::TcpProxy;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls;
use envoy_types::pb::envoy::r#type::matcher::v3::{StringMatcher, string_matcher::MatchPattern};
use envoy_types::pb::google::protobuf::Any;
use prost::Message as _;
use regex::Regex;
use std::sync::Arc;
use tls::common_tls_context::ValidationContextType;

const DOMAIN: &str = "example.org";

fn unpacked<T: prost::Message + Default>(any: Option<&Any>) -> T {
    T::decode(&*any.expect("a configuration").value).expect("the message")
}

fn is_met(matcher: &StringMatcher, text: &str) -> bool {
    match matcher.match_pattern.as_ref().expect("a pattern") {
        MatchPattern::SafeRegex(one) => {
            Regex::new(&format!("^(?:{})$", one.regex)).expect("readable").is_match(text)
        }
        MatchPattern::Prefix(start) => text.starts_with(start),
        MatchPattern::Suffix(end) => text.ends_with(end),
        other => panic!("{other:?} is in no listener"),
    }
}

fn is_principal(principal: &Principal, id: &str) -> bool {
    match principal.identifier.as_ref().expect("an identifier") {
        Identifier::Any(any) => *any,
        Identifier::OrIds(set) => set.ids.iter().any(|one| is_principal(one, id)),
        Identifier::AndIds(set) => set.ids.iter().all(|one| is_principal(one, id)),
        Identifier::NotId(one) => !is_principal(one, id),
        Identifier::Authenticated(one) => is_met(one.principal_name.as_ref().expect("a name"), id),
        other => panic!("{other:?} is in no listener"),
    }
}

fn is_allowed(rules: Option<envoy_types::pb::envoy::config::rbac::v3::Rbac>, id: &str) -> bool {
    let policies = rules.expect("rules").policies;
    policies.values().any(|one| one.principals.iter().any(|one| is_principal(one, id)))
}

/// Whether the handshake of a chain succeeds.
fn is_welcome(chain: &FilterChain, id: &str) -> bool {
    let Some(socket) = &chain.transport_socket else { return true };
    let Some(ConfigType::TypedConfig(config)) = &socket.config_type else { panic!("no TLS") };
    let context: tls::DownstreamTlsContext = unpacked(Some(config));
    assert_eq!(context.require_client_certificate.map(|one| one.value), Some(true));
    let common = context.common_tls_context.expect("what all sides have");
    match common.validation_context_type.expect("certificates are checked") {
        ValidationContextType::ValidationContextSdsSecretConfig(_) => true,
        ValidationContextType::CombinedValidationContext(one) => {
            let names =
                one.default_validation_context.expect("names").match_typed_subject_alt_names;
            names.iter().any(|one| is_met(one.matcher.as_ref().expect("a matcher"), id))
        }
        other => panic!("{other:?} is in no listener"),
    }
}

fn passes(filter: &listener::Filter, id: &str) -> bool {
    let Some(listener::filter::ConfigType::TypedConfig(config)) = &filter.config_type else {
        panic!("{filter:?} has no configuration")
    };
    match filter.name.as_str() {
        "envoy.filters.network.rbac" => {
            is_allowed(unpacked::<ConnectionRbac>(Some(config)).rules, id)
        }
        "envoy.filters.network.tcp_proxy" => {
            let proxy: TcpProxy = unpacked(Some(config));
            matches!(proxy.cluster_specifier, Some(ClusterSpecifier::Cluster(to)) if to != NOBODY)
        }
        "envoy.filters.network.http_connection_manager" => {
            let manager: hcm::HttpConnectionManager = unpacked(Some(config));
            let guard = manager.http_filters[0].config_type.clone();
            let Some(hcm::http_filter::ConfigType::TypedConfig(guard)) = guard else {
                panic!("no guard")
            };
            is_allowed(unpacked::<RequestRbac>(Some(&guard)).rules, id)
        }
        other => panic!("{other} is in no listener"),
    }
}

fn decoded(plan: &InboundPlan) -> listener::Listener {
    let domain: TrustDomain = DOMAIN.parse().unwrap();
    let resource = inbound_listener(([127, 0, 0, 1], 1).into(), None, plan, Some(&domain));
    let any = Any::decode(&*resource.any).expect("an Any");
    unpacked(Some(&any))
}

/// The chain that a name leads to.
fn chain<'a>(listener: &'a listener::Listener, spoken: &str) -> Option<&'a FilterChain> {
    let names = |chain: &FilterChain| {
        chain.filter_chain_match.as_ref().map(|one| one.server_names.clone()).unwrap_or_default()
    };
    let chains = &listener.filter_chains;
    let own = chains.iter().find(|chain| names(chain).iter().any(|name| name == spoken));
    own.or_else(|| chains.iter().find(|chain| names(chain).is_empty()))
}

/// Whether who shows a certificate of this name gets through, having spoken that one.
fn gets_through(plan: &InboundPlan, spoken: &str, name: &str) -> bool {
    is_let_in(plan, spoken, &format!("spiffe://{DOMAIN}/{name}"))
}

/// `id` is what Envoy compares: the SPIFFE id, or the subject of a certificate that has none.
fn is_let_in(plan: &InboundPlan, spoken: &str, id: &str) -> bool {
    chain(&decoded(plan), spoken).is_some_and(|chain| {
        is_welcome(chain, id) && chain.filters.iter().all(|filter| passes(filter, id))
    })
}

fn name(text: &str) -> ServiceName {
    text.parse().unwrap()
}

fn mk(protocol: AppProtocol, sources: Option<&[&str]>, revoked: &[&str]) -> InboundPlan {
    let services = |names: &[&str]| names.iter().map(|one| name(one)).collect::<BTreeSet<_>>();
    let admittance = match sources {
        None => Admittance::Anyone,
        Some(names) => Admittance::Only(vec![Grant { sources: services(names), rules: None }]),
    };
    let neighbours = match (protocol, sources) {
        (AppProtocol::Tcp, None) => services(&["shop/bank", "shop/web"]),
        (_, _) => BTreeSet::new(),
    };
    let revoked: Revoked = revoked.iter().map(|one| one.parse().unwrap()).collect();
    let revoked = Arc::new(revoked);
    InboundPlan { encrypted: true, protocol, admittance, neighbours, revoked }
}

#[track_caller]
fn check(plan: &InboundPlan, spoken: &str, name: &str, expect: bool) {
    let name = format!("proxy/{name}");
    assert_eq!(gets_through(plan, spoken, &name), expect, "{name} as {spoken} at {plan:?}");
}

/// proves: MSH-07
#[test]
fn a_proxy_that_is_disabled_gets_through_nowhere_whatever_it_says() {
    let open: &[Option<&[&str]>] = &[None, Some(&["shop/web", "shop/bank"])];
    for protocol in [AppProtocol::Http, AppProtocol::Http2, AppProtocol::Tcp] {
        for sources in open {
            let before = mk(protocol, *sources, &[]);
            let after = mk(protocol, *sources, &["web.shop", "bank.shop.i-1"]);
            for own in ["web.shop", "bank.shop", "web.shop.i-1", "bank.shop.i-1"] {
                check(&before, &own[..own.find(".shop").unwrap() + 5], own, true);
            }
            for spoken in ["web.shop", "bank.shop", "books.shop", ""] {
                check(&after, spoken, "web.shop", false);
                check(&after, spoken, "bank.shop.i-1", false);
            }
            check(&after, "web.shop", "web.shop.i-1", true);
            check(&after, "bank.shop", "bank.shop", true);
            check(&after, "bank.shop", "bank.shop.i-11", true);
        }
    }
}

/// proves: MSH-07
#[test]
fn strangers_that_are_not_disabled_get_through_where_nothing_governs() {
    for protocol in [AppProtocol::Http, AppProtocol::Tcp] {
        let plan = mk(protocol, None, &["web.shop"]);
        check(&plan, "", "books.office", true);
        assert!(gets_through(&plan, "", "agent/edge-1"), "no proxy, and a certificate of ours");
        assert!(gets_through(&plan, "", "agent/web.shop"), "the name of another role");
        check(&mk(protocol, Some(&["shop/web"]), &[]), "", "books.office", false);
    }
}

/// The server takes a common name for the name of a proxy too.
///
/// proves: MSH-07
#[test]
fn while_somebody_is_disabled_nobody_gets_through_without_a_spiffe_id() {
    for protocol in [AppProtocol::Http, AppProtocol::Http2, AppProtocol::Tcp] {
        for subject in ["CN=web.shop", "CN=web.shop,O=Orrery", "CN=monitor"] {
            let is_let_in = |revoked: &[&str]| is_let_in(&mk(protocol, None, revoked), "", subject);
            assert!(is_let_in(&[]), "{subject} at {protocol:?}");
            assert!(!is_let_in(&["web.shop"]), "{subject} at {protocol:?}");
        }
    }
}

/// Envoy drains the chains that differ, and no others.
///
/// proves: MSH-07
#[test]
fn only_the_chain_of_who_is_disabled_differs() {
    let web_only: &[&str] = &["shop/bank", "shop/web"];
    for (sources, changes) in [(Some(web_only), vec!["shop/web"]), (None, vec!["shop/web", ""])] {
        let before = decoded(&mk(AppProtocol::Tcp, sources, &[]));
        let after = decoded(&mk(AppProtocol::Tcp, sources, &["web.shop", "books.office"]));
        assert_eq!(before.listener_filters, after.listener_filters);
        let differ = after.filter_chains.iter().filter(|one| !before.filter_chains.contains(one));
        let differ: Vec<&str> = differ.map(|one| one.name.as_str()).collect();
        assert_eq!(
            differ, changes,
            "those without a chain of their own share the one without a name"
        );
    }
    let guarded = |revoked: &[&str]| decoded(&mk(AppProtocol::Http, Some(&["shop/bank"]), revoked));
    assert_eq!(guarded(&[]), guarded(&["web.shop"]), "it was not let in anyhow");
}

/// proves: MSH-07
#[test]
fn where_there_are_too_many_to_tell_strangers_are_kept_out_and_nobody_else() {
    let names: Vec<String> = (0..3000).map(|number| format!("service-{number}.shop")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let plan = mk(AppProtocol::Tcp, None, &names);
    check(&plan, "", "books.office", false);
    check(&plan, "", "service-7.shop", false);
    check(&plan, "web.shop", "web.shop", true);
}
