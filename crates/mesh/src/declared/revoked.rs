//! Whom a Revocation disables, if that is a proxy.
use crate::names::ProxyName;
use orrery_pki::Role;
use orrery_proto::core::v1::Revocation;

/// `None` if it is about somebody else, or about one certificate: proxies know each other by name.
pub fn revoked(revocation: &Revocation) -> Option<ProxyName> {
    let spec = revocation.spec.as_ref()?;
    let is_proxy = spec.role() == Role::Proxy.as_str() && spec.certificate().is_empty();
    spec.peer().parse().ok().filter(|_| is_proxy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::core::v1::RevocationSpec;

    #[track_caller]
    fn check(role: &str, peer: &str, certificate: &str, expect: Option<&str>) {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let spec = RevocationSpec {
            role: text(role),
            peer: text(peer),
            certificate: text(certificate),
            reason: None,
        };
        let found = revoked(&Revocation { spec: Some(spec), ..Revocation::default() });
        assert_eq!(found.as_ref().map(ProxyName::as_str), expect);
    }

    #[test]
    fn names_of_proxies_are_meant() {
        check("proxy", "web.shop", "", Some("web.shop"));
        check("proxy", "web.shop.i-1", "", Some("web.shop.i-1"));
        check("proxy", "web", "", Some("web"));
        check("agent", "web.shop", "", None);
        check("proxy", "Web!", "", None);
        check("", "", "ab", None);
        check("", "", "", None);
        assert_eq!(revoked(&Revocation::default()), None);
    }
}
