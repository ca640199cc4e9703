//! Ports beside the main one: for machine drivers, and for storage controllers and hosts.
use crate::error::Error;
use crate::port;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use tokio::net::TcpListener;

/// Where a server listens on one of its side ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// On the port that peers look for, on the host of the main port; on a free port if the main
    /// port is a free one too.
    Beside {
        /// Whether a server without it is of no use. If not, a port that is taken is warned of.
        needed: bool,
    },
    At(SocketAddr),
    Off,
}

impl std::str::FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse().map(Self::At).map_err(|_| "write ADDRESS:PORT, or off".to_owned())
    }
}

/// A side port, for messages and decisions.
#[derive(Clone, Copy, Debug)]
pub struct SidePort {
    /// Whom it is for.
    pub peers: &'static str,
    /// How the command line names it.
    pub option: &'static str,
    /// The port that they look for.
    pub port: u16,
    /// What everybody who reaches it could do if there were no certificates.
    pub danger: &'static str,
}

pub const DRIVERS: SidePort = SidePort {
    peers: "machine drivers",
    option: "--drivers-listen",
    port: 5000,
    danger: "read the secrets of machine classes",
};

pub const STORAGE: SidePort = SidePort {
    peers: "storage controllers",
    option: "--storage-listen",
    port: 8999,
    danger: "read and write every volume",
};

/// What to do about a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Listen {
        address: SocketAddr,
        needed: bool,
    },
    Nothing,
    /// Not without certificates.
    Refuse(SocketAddr),
}

/// Decides where to listen. Plain connections are for this machine only.
fn plan(port: u16, listen: Listen, main: SocketAddr, encrypted: bool) -> Plan {
    match listen {
        Listen::Off => Plan::Nothing,
        Listen::At(address) if encrypted || address.ip().is_loopback() => {
            Plan::Listen { address, needed: true }
        }
        Listen::At(address) => Plan::Refuse(address),
        Listen::Beside { needed } => {
            let port = if main.port() == 0 { 0 } else { port };
            let safe = encrypted || main.ip().is_loopback();
            let host = if safe { main.ip() } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
            Plan::Listen { address: SocketAddr::new(host, port), needed }
        }
    }
}

impl SidePort {
    /// Opens it; `None` if it is off, or taken and not needed.
    pub fn bind(
        self,
        listen: Listen,
        main: SocketAddr,
        encrypted: bool,
    ) -> Result<Option<(TcpListener, SocketAddr)>, Error> {
        let (address, needed) = match plan(self.port, listen, main, encrypted) {
            Plan::Listen { address, needed } => (address, needed),
            Plan::Nothing => return Ok(None),
            Plan::Refuse(address) => return Err(Error::PlainSide { side: self, address }),
        };
        let opened = port::open(address).and_then(|listener| {
            let address = listener.local_addr()?;
            Ok((listener, address))
        });
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(cause) if needed => Err(Error::SideListen { side: self, address, cause }),
            Err(cause) => {
                let Self { peers, option, .. } = self;
                tracing::warn!(
                    %address, %cause,
                    "no port for {peers}: it cannot be opened; {option} names another one"
                );
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(listen: &str, main: &str, encrypted: bool, expect: &str) {
        let listen = match listen {
            "beside" => Listen::Beside { needed: false },
            text => text.parse().expect("it is well-formed"),
        };
        let found = match plan(8999, listen, main.parse().expect("an address"), encrypted) {
            Plan::Listen { address, needed } => {
                format!("{address}{}", if needed { " needed" } else { "" })
            }
            Plan::Nothing => "nothing".to_owned(),
            Plan::Refuse(address) => format!("refuse {address}"),
        };
        assert_eq!(found, expect);
    }

    #[test]
    fn the_port_is_beside_the_main_one() {
        check("beside", "127.0.0.1:7443", false, "127.0.0.1:8999");
        check("beside", "127.0.0.1:0", false, "127.0.0.1:0");
        check("beside", "10.0.0.1:7443", true, "10.0.0.1:8999");
        check("beside", "[::1]:7443", false, "[::1]:8999");
        check("127.0.0.1:7", "127.0.0.1:7443", false, "127.0.0.1:7 needed");
        check("off", "127.0.0.1:7443", true, "nothing");
    }

    /// proves: VOL-09
    #[test]
    fn plain_connections_stay_on_this_machine() {
        check("beside", "0.0.0.0:7443", false, "127.0.0.1:8999");
        check("0.0.0.0:8999", "127.0.0.1:7443", false, "refuse 0.0.0.0:8999");
        check("0.0.0.0:8999", "0.0.0.0:7443", true, "0.0.0.0:8999 needed");
    }

    #[test]
    fn where_to_listen_is_said_in_words() {
        assert_eq!("off".parse(), Ok(Listen::Off));
        assert_eq!("127.0.0.1:5001".parse(), Ok(Listen::At(([127, 0, 0, 1], 5001).into())));
        for bad in ["5001", "", "Off", "host:1"] {
            assert!(bad.parse::<Listen>().is_err(), "{bad}");
        }
    }

    /// A port that is taken is told of where a server can do without, and ends it where not.
    #[tokio::test]
    async fn a_taken_port() {
        let taken = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = taken.local_addr().expect("it is bound");
        for side in [DRIVERS, STORAGE] {
            let side = SidePort { port: address.port(), ..side };
            let main = SocketAddr::new(address.ip(), 1);
            let can_do_without = side.bind(Listen::Beside { needed: false }, main, false);
            assert!(can_do_without.expect("it goes on").is_none());
            for listen in [Listen::Beside { needed: true }, Listen::At(address)] {
                let refused = side.bind(listen, main, false).expect_err("it is taken");
                let said = refused.to_string();
                assert!(said.contains(side.option) && said.contains(side.peers), "{said}");
            }
        }
    }
}
