//! Which registered drivers a request speaks for. What those may read, the request may read.
//!
//! A driver of the first contract can show nothing with `GetMachineClass` and `GetSecret`, so it is
//! known by its connection, by its certificate, or, on plain loopback, by the drivers registered
//! from there: whoever can open a loopback connection could register as any of them anyway.
use super::peer::Peer;

/// The metadata key under which newer drivers send their session token.
pub const SESSION_METADATA: &str = "orrery-driver-session";

/// Who asks.
pub(super) struct Asker<'a> {
    pub peer: &'a Peer,
    pub token: Option<&'a str>,
}

/// A registered driver, as far as access is concerned.
pub(super) struct Holder<'a> {
    pub peer: &'a Peer,
    pub token: &'a str,
}

/// Whether the request speaks for this driver.
pub(super) fn speaks_for(asker: &Asker<'_>, holder: &Holder<'_>) -> bool {
    if asker.peer.identity != holder.peer.identity {
        return false;
    }
    if let Some(token) = asker.token {
        return token == holder.token;
    }
    asker.peer.same_connection(holder.peer)
        || asker.peer.identity.is_some()
        || (asker.peer.is_plain_loopback() && holder.peer.is_plain_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_peer(address: &str, identity: &str) -> Peer {
        let identity = (!identity.is_empty()).then(|| identity.to_owned());
        Peer { address: Some(address.parse().expect("an address")), identity }
    }

    #[track_caller]
    fn check(asker: (&str, &str), token: Option<&str>, holder: (&str, &str), expect: bool) {
        let asking = mk_peer(asker.0, asker.1);
        let holding = mk_peer(holder.0, holder.1);
        let found =
            speaks_for(&Asker { peer: &asking, token }, &Holder { peer: &holding, token: "t1" });
        assert_eq!(found, expect, "{asker:?} {token:?} {holder:?}");
    }

    /// proves: MCH-04. Defect 9: any driver could read any secret.
    #[test]
    fn a_request_speaks_for_its_own_driver_only() {
        let (here, here2) = ("127.0.0.1:1", "127.0.0.1:2");
        let (there, there2) = ("10.0.0.1:1", "10.0.0.1:2");
        check((there, ""), None, (there, ""), true);
        check((there2, ""), None, (there, ""), false);
        check((here2, ""), None, (here, ""), true);
        check((there, ""), None, (here, ""), false);
        check((there2, "aws"), None, (there, "aws"), true);
        check((there2, "gcp"), None, (there, "aws"), false);
        check((there, ""), None, (there, "aws"), false);
        check((here2, ""), None, (here, "aws"), false);
        check((there2, ""), Some("t1"), (there, ""), true);
        check((here, ""), Some("t2"), (here, ""), false);
        check((there, "gcp"), Some("t1"), (there, "aws"), false);
    }
}
