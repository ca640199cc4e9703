//! Nodes with a network of their own each, as machines have: the same port is free on all of them.
use std::net::Ipv4Addr;
use std::process::Command;

/// A bridge, and namespaces behind it; taken down with the test.
pub struct Network {
    /// Of this test process, so that others run beside it.
    id: u32,
    nodes: usize,
}

impl Network {
    pub fn new(nodes: usize) -> Self {
        let network = Self { id: std::process::id(), nodes };
        let (bridge, host) = (network.bridge(), network.host());
        ip(&format!("link add {bridge} type bridge"));
        ip(&format!("addr add {host}/24 dev {bridge}"));
        ip(&format!("link set {bridge} up"));
        for number in 0..nodes {
            let (space, leg) = (network.space(number), network.leg(number));
            ip(&format!("netns add {space}"));
            ip(&format!("link add {leg} type veth peer name eth0 netns {space}"));
            ip(&format!("link set {leg} master {bridge} up"));
            ip(&format!("-n {space} link set lo up"));
            ip(&format!("-n {space} addr add {}/24 dev eth0", network.node(number)));
            ip(&format!("-n {space} link set eth0 up"));
        }
        network
    }

    /// Of this machine, as the nodes see it.
    pub fn host(&self) -> Ipv4Addr {
        self.address(1)
    }

    pub fn node(&self, number: usize) -> Ipv4Addr {
        self.address(u8::try_from(number + 2).expect("a few nodes"))
    }

    /// The same command, on a node.
    pub fn inside(&self, number: usize, command: &Command) -> Command {
        let mut inside = Command::new("nsenter");
        inside.arg(format!("--net=/run/netns/{}", self.space(number)));
        inside.arg(command.get_program()).args(command.get_args()).env_clear();
        let env = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        inside.envs(env);
        inside
    }

    fn address(&self, last: u8) -> Ipv4Addr {
        let [_, _, high, low] = self.id.to_be_bytes();
        Ipv4Addr::new(10, 128 + high % 64, low, last)
    }

    fn bridge(&self) -> String {
        format!("orst{}", self.id)
    }

    fn leg(&self, number: usize) -> String {
        format!("orst{}x{number}", self.id)
    }

    fn space(&self, number: usize) -> String {
        format!("orrery-sidecars-{}-{number}", self.id)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        let namespaces = (0..self.nodes).map(|number| format!("netns del {}", self.space(number)));
        for arguments in namespaces.chain([format!("link del {}", self.bridge())]) {
            // What is left over is told by the next one that wants the same.
            let _ = Command::new("ip").args(arguments.split(' ')).output();
        }
    }
}

#[track_caller]
fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).output();
    let done = done.expect("run ip; cargo xtask test installs iproute2");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "ip {arguments}: {said}; this test needs root");
}
