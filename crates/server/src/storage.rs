//! The storage registry's port, beside the main one: there every service that is not the registry's
//! own is passed on to a storage controller.
use crate::options::StorageListen;
use crate::server::Error;
use orrery_access::Access;
use orrery_hub::Hub;
use orrery_pki::{ClientAuth, LiveTls};
use orrery_runtime::{OnEnd, Tasks};
use orrery_volumes::{HubDirectory, ProxyConfig, ServeConfig};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpListener;

/// Where controllers and hosts expect a registry.
const PORT: u16 = 8999;

/// A port that is open, and answered as soon as it is spawned.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<LiveTls>,
}

/// What to do about the port.
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

/// Decides where to listen. Plain connections are for this machine only: whoever reaches the port
/// can read and write every volume.
fn plan(storage: StorageListen, main: SocketAddr, encrypted: bool) -> Plan {
    match storage {
        StorageListen::Off => Plan::Nothing,
        StorageListen::At(address) if encrypted || address.ip().is_loopback() => {
            Plan::Listen { address, needed: true }
        }
        StorageListen::At(address) => Plan::Refuse(address),
        StorageListen::Default { needed } => {
            let port = if main.port() == 0 { 0 } else { PORT };
            let safe = encrypted || main.ip().is_loopback();
            let host = if safe { main.ip() } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
            Plan::Listen { address: SocketAddr::new(host, port), needed }
        }
    }
}

/// Opens the port, unless it is off, or taken and not needed.
pub async fn bind(
    storage: StorageListen,
    main: SocketAddr,
    tls: Option<LiveTls>,
) -> Result<Option<Bound>, Error> {
    let (address, needed) = match plan(storage, main, tls.is_some()) {
        Plan::Listen { address, needed } => (address, needed),
        Plan::Nothing => return Ok(None),
        Plan::Refuse(address) => return Err(Error::PlainStorage { address }),
    };
    let opened = TcpListener::bind(address).await.and_then(|listener| {
        let address = listener.local_addr()?;
        Ok((listener, address))
    });
    match opened {
        Ok((listener, address)) => Ok(Some(Bound { listener, address, tls })),
        Err(cause) if needed => Err(Error::StorageListen { address, cause }),
        Err(cause) => {
            tracing::warn!(
                %address, %cause,
                "no storage registry: its port cannot be opened; --storage-listen names another one"
            );
            Ok(None)
        }
    }
}

impl Bound {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How storage controllers are reached.
    pub fn proxy_config(&self) -> ProxyConfig {
        let tls = self.tls.as_ref().map(LiveTls::client_config);
        ProxyConfig { tls, ..ProxyConfig::default() }
    }

    /// Serves registry and proxy on the store of the hub.
    pub fn spawn(
        self,
        hub: &Hub,
        access: Access,
        tasks: &mut Tasks,
    ) -> Result<(), orrery_hub::Error> {
        let directory = HubDirectory::spawn(hub, tasks)?;
        let config = ServeConfig {
            tls: self.tls.as_ref().map(|tls| tls.server_config(ClientAuth::Required)),
            proxy: self.proxy_config(),
            refused: Some(Arc::new(move |identity| {
                let access = access.clone();
                Box::pin(async move { access.until_refused(&identity).await })
            })),
        };
        let (listener, address, stop) = (self.listener, self.address, tasks.stop_token());
        tracing::info!("storage registry on {address}");
        tasks.spawn("storage-registry", OnEnd::StopAll, async move {
            orrery_volumes::serve(listener, config, directory, stop).await;
            Ok::<(), std::convert::Infallible>(())
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, plan};
    use crate::options::StorageListen;

    #[track_caller]
    fn check(storage: &str, main: &str, encrypted: bool, expect: &str) {
        let storage = match storage {
            "off" => StorageListen::Off,
            "default" => StorageListen::Default { needed: false },
            address => StorageListen::At(address.parse().expect("an address")),
        };
        let found = match plan(storage, main.parse().expect("an address"), encrypted) {
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
        check("default", "127.0.0.1:7443", false, "127.0.0.1:8999");
        check("default", "127.0.0.1:0", false, "127.0.0.1:0");
        check("default", "10.0.0.1:7443", true, "10.0.0.1:8999");
        check("default", "[::1]:7443", false, "[::1]:8999");
        check("127.0.0.1:7", "127.0.0.1:7443", false, "127.0.0.1:7 needed");
        check("off", "127.0.0.1:7443", true, "nothing");
    }

    /// proves: VOL-09
    #[test]
    fn plain_connections_stay_on_this_machine() {
        check("default", "0.0.0.0:7443", false, "127.0.0.1:8999");
        check("0.0.0.0:8999", "127.0.0.1:7443", false, "refuse 0.0.0.0:8999");
        check("0.0.0.0:8999", "0.0.0.0:7443", true, "0.0.0.0:8999 needed");
    }
}
