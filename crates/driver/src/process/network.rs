//! The network of the machines: a bridge, and for each machine a namespace with one leg on it.
//! Every step can be repeated, so that what was broken off can be finished.
use crate::Error;
use std::net::Ipv4Addr;
use tokio::process::Command;

pub(super) struct Network {
    /// Tells the machines of one folder from those of another.
    instance: String,
    subnet: Ipv4Addr,
}

impl Network {
    pub fn new(instance: &str, subnet: Ipv4Addr) -> Self {
        Self { instance: instance.to_owned(), subnet }
    }

    pub fn namespace(&self, id: &str) -> String {
        format!("orrery-{}-{id}", self.instance)
    }

    fn bridge(&self) -> String {
        format!("ob{}", self.instance)
    }

    /// The host's end of a machine's leg; names of devices have at most 15 characters.
    fn leg(&self, id: &str) -> String {
        format!("o{}v{id}", self.instance)
    }

    fn host(&self, number: u8) -> Ipv4Addr {
        let [a, b, c, _] = self.subnet.octets();
        Ipv4Addr::new(a, b, c, number)
    }

    pub fn gateway(&self) -> Ipv4Addr {
        self.host(1)
    }

    /// Addresses for machines.
    pub fn addresses(&self) -> impl Iterator<Item = Ipv4Addr> {
        (2..=254).map(|number| self.host(number))
    }

    pub async fn connect(&self, id: &str, address: Ipv4Addr) -> Result<(), Error> {
        self.make_bridge().await?;
        let (namespace, leg, bridge) = (self.namespace(id), self.leg(id), self.bridge());
        let inside = |arguments: &str| format!("-n {namespace} {arguments}");
        ensure(&format!("netns add {namespace}")).await?;
        if !exists(&inside("link show dev eth0")).await? {
            // A leg whose other end is not in the namespace is left over from a broken attempt.
            remove(&format!("link del dev {leg}")).await?;
            ip(&format!("link add {leg} type veth peer name eth0 netns {namespace}")).await?;
        }
        ip(&format!("link set {leg} master {bridge} up")).await?;
        ip(&inside("link set lo up")).await?;
        ip(&inside(&format!("addr replace {address}/24 dev eth0"))).await?;
        ip(&inside("link set eth0 up")).await?;
        ip(&inside(&format!("route replace default via {}", self.gateway()))).await
    }

    pub async fn disconnect(&self, id: &str) -> Result<(), Error> {
        remove(&format!("link del dev {}", self.leg(id))).await?;
        remove(&format!("netns del {}", self.namespace(id))).await
    }

    async fn make_bridge(&self) -> Result<(), Error> {
        let bridge = self.bridge();
        ensure(&format!("link add {bridge} type bridge")).await?;
        ip(&format!("addr replace {}/24 dev {bridge}", self.gateway())).await?;
        ip(&format!("link set {bridge} up")).await
    }

    pub async fn remove_bridge(&self) -> Result<(), Error> {
        remove(&format!("link del dev {}", self.bridge())).await
    }
}

async fn run(arguments: &str) -> Result<Result<String, String>, Error> {
    let output = Command::new("ip").args(arguments.split(' ')).output().await;
    let output = output.map_err(|error| Error::internal(format!("run ip: {error}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let done = output.status.success();
    Ok(if done { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) })
}

fn failed(arguments: &str, said: &str) -> Error {
    Error::internal(format!("ip {arguments}: {said}"))
}

async fn ip(arguments: &str) -> Result<(), Error> {
    run(arguments).await?.map(|_| ()).map_err(|said| failed(arguments, &said))
}

/// Something that may be there already.
async fn ensure(arguments: &str) -> Result<(), Error> {
    match run(arguments).await? {
        Err(said) if said.contains("File exists") => Ok(()),
        outcome => outcome.map(|_| ()).map_err(|said| failed(arguments, &said)),
    }
}

/// Something that may be gone already.
async fn remove(arguments: &str) -> Result<(), Error> {
    match run(arguments).await? {
        Err(said) if is_absent(&said) => Ok(()),
        outcome => outcome.map(|_| ()).map_err(|said| failed(arguments, &said)),
    }
}

async fn exists(arguments: &str) -> Result<bool, Error> {
    match run(arguments).await? {
        Err(said) if is_absent(&said) => Ok(false),
        outcome => outcome.map(|_| true).map_err(|said| failed(arguments, &said)),
    }
}

fn is_absent(said: &str) -> bool {
    said.contains("Cannot find device")
        || said.contains("No such file or directory")
        || said.contains("does not exist")
}

/// The processes in a namespace; none if there is no such namespace.
pub(super) async fn pids(namespace: &str) -> Result<Vec<i32>, Error> {
    let arguments = format!("netns pids {namespace}");
    match run(&arguments).await? {
        Ok(said) => Ok(said.split_whitespace().filter_map(|it| it.parse().ok()).collect()),
        Err(said) if is_absent(&said) => Ok(Vec::new()),
        Err(said) => Err(failed(&arguments, &said)),
    }
}
