use super::*;
use regex::Regex;

fn revoked(names: &[&str]) -> Revoked {
    names.iter().map(|name| name.parse::<ProxyName>().unwrap()).collect()
}

#[track_caller]
fn check(service: &str, gone: &[&str], met: &[&str], others: &[&str]) {
    let domain: TrustDomain = "example.org".parse().unwrap();
    let service: ServiceName = service.parse().unwrap();
    let expression = identity_regex(Some(&domain), &service, &revoked(gone));
    assert_eq!(crate::expression::problem(&expression), None, "{expression}");
    let whole = Regex::new(&format!("^(?:{expression})$")).unwrap();
    let is_met = |name: &str| whole.is_match(&format!("spiffe://example.org/proxy/{name}"));
    for name in met {
        assert!(is_met(name), "{name} is not met by {expression}");
    }
    for name in others {
        assert!(!is_met(name), "{name} is met by {expression}");
    }
}

/// proves: MSH-07
#[test]
fn a_service_is_all_its_proxies_that_are_not_disabled() {
    let strangers = ["bank.shop", "web", "web.office", "web.shop.", "xweb.shop", "web.shopx"];
    check("shop/web", &[], &["web.shop", "web.shop.i-1", "web.shop.a.b"], &strangers);
    check("shop/web", &["bank.shop", "web"], &["web.shop", "web.shop.i-1"], &strangers);
    check("shop/web", &["web.shop"], &["web.shop.i-1"], &[&strangers[..], &["web.shop"]].concat());
    let met = ["web.shop", "web.shop.i-2", "web.shop.i-", "web.shop.i-11"];
    check("shop/web", &["web.shop.i-1"], &met, &[&strangers[..], &["web.shop.i-1"]].concat());
    let gone = ["web.shop", "web.shop.i-1", "web.shop.i-2"];
    check("shop/web", &gone, &["web.shop.i-3"], &[&strangers[..], &gone].concat());
}

/// proves: MSH-07
#[test]
fn names_without_a_project_are_names_of_their_own() {
    check("web", &[], &["web", "web.default", "web.default.i"], &["web.shop", "web.i"]);
    check("web", &["web"], &["web.default", "web.default.i"], &["web"]);
    check("web", &["web.default"], &["web", "web.default.i"], &["web.default"]);
    check("web", &["web", "web.default"], &["web.default.i"], &["web", "web.default"]);
}

/// What was given out stays as it was, so that nobody's connections are drained for nothing.
#[test]
fn whom_no_revocation_concerns_is_written_as_ever() {
    let web: ServiceName = "shop/web".parse().unwrap();
    let plain = identity_regex(None, &web, &Revoked::default());
    assert_eq!(plain, r"spiffe://[^/]+/proxy/web\.shop(?:\..+)?");
    assert_eq!(identity_regex(None, &web, &revoked(&["bank.shop"])), plain);
    assert_eq!(all_but_revoked(&Revoked::default()), Some(Vec::new()));
}
