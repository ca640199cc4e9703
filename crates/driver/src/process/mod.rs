//! The driver for machines that are process trees: each in namespaces of its own (processes, mounts,
//! host name, network) with an address of its own, on the machine that the driver runs on.
//!
//! ```text
//!   bridge (gateway .1) --veth-- netns of machine 1: init -> what the class says, or its user data
//!                       --veth-- netns of machine 2: ...
//!   root/<id>/machine.json  what was asked for, written before anything else
//! ```
//!
//! The network namespace is the machine's identity: whoever is in it belongs to the machine. So a
//! driver that was restarted, or killed in the middle of a create, finds everything again, and a
//! deletion leaves nothing behind. Machines do not end with the driver.
//!
//! Needs Linux, root, `ip` (iproute2), `unshare` and `flock` (util-linux).
mod network;
mod relay;
mod tree;

use crate::records::{
    Lock, Record, Records, USER_DATA, asked_id, id_of, is_program, machine_key, short_hash,
};
use crate::{Created, Driver, Error, ErrorCode, Machine, MachineState, Request};
use network::Network;
use relay::Relay;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use tree::Tree;

/// The kind that this driver registers with.
pub const KIND: &str = "ProcessMachine";
const ID_PREFIX: &str = "process:///";

/// Where machines live.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of all machines. Two drivers with the same folder share the machines in it.
    pub root: PathBuf,
    /// The /24 network of the machines; its .1 is the host.
    pub subnet: Ipv4Addr,
    /// What runs as a machine whose class says nothing else.
    pub agent: Option<Agent>,
}

/// How machines run an agent of their own.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The `orrery` binary.
    pub program: PathBuf,
    /// The server that it joins: `http://HOST:PORT` or `https://HOST:PORT`.
    pub server: String,
    /// Where the server listens if that is this machine's loopback, which machines do not reach.
    pub loopback: Option<SocketAddr>,
}

/// The fields of `spec` in a class for this driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    /// What runs as the first process; without it the user data does, which is a script then, and
    /// without that an agent.
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Read by the library; named here because unknown fields are refused.
    #[serde(default, rename = "secretRef")]
    _secret_ref: Option<serde_json::Value>,
}

/// A machine with its address.
type Placed = Record<Address>;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Address {
    address: Ipv4Addr,
}

/// The driver.
pub struct Process {
    records: Records,
    network: Network,
    agent: Option<Agent>,
    relay: Option<Relay>,
}

impl Process {
    /// Checks that this machine can do it, and says what is missing if not.
    pub fn new(options: Options) -> Result<Self, Error> {
        let missing = |what: &str| {
            Error::new(ErrorCode::FailedPrecondition, format!("process machines need {what}"))
        };
        if !rustix::process::geteuid().is_root() {
            return Err(missing("root, for network and process namespaces"));
        }
        for (program, package) in
            [("ip", "iproute2"), ("unshare", "util-linux"), ("flock", "util-linux")]
        {
            if !is_program(program) {
                return Err(missing(&format!("the program {program} (package {package})")));
            }
        }
        let records = Records::open(&options.root)?;
        let instance = short_hash(&options.root.to_string_lossy(), 4);
        let loopback = options.agent.as_ref().and_then(|agent| agent.loopback);
        Ok(Self {
            records,
            network: Network::new(&instance, options.subnet),
            relay: loopback.map(Relay::to),
            agent: options.agent,
        })
    }

    /// Takes up the machines that an earlier start of this driver left, so that their agents reach the
    /// server again.
    pub async fn resume(&self) -> Result<(), Error> {
        let _lock = self.records.lock().await?;
        for record in self.records.all::<Address>()? {
            // A machine that is not whole is finished or taken away by the next operation on it.
            if let Err(error) = self.open_way(&record.id).await {
                tracing::warn!(machine = record.name, %error, "its agent does not reach the server");
            }
        }
        Ok(())
    }

    async fn open_way(&self, id: &str) -> Result<(), Error> {
        match &self.relay {
            Some(relay) => relay.open(id, &self.network.namespace(id)).await,
            None => Ok(()),
        }
    }

    /// What runs as the machine: what its class says, its user data if that is a script, or an agent.
    fn command(&self, spec: &Spec, record: &Placed, user_data: &str) -> Result<Vec<String>, Error> {
        let script = user_data.starts_with("#!");
        match &self.agent {
            _ if !spec.command.is_empty() => Ok(spec.command.clone()),
            _ if script => {
                let script = self.records.folder(&record.id).join(USER_DATA);
                Ok(vec![script.display().to_string()])
            }
            Some(agent) if user_data.is_empty() => {
                let program = agent.program.display().to_string();
                let data = self.records.folder(&record.id).join("agent").display().to_string();
                let fixed = ["agent", "--name", &record.name, "--stop-workloads", "--data-dir"];
                let fixed = fixed.into_iter().map(str::to_owned);
                Ok(std::iter::once(program).chain(fixed).chain([data]).collect())
            }
            Some(_) | None => Err(Error::invalid(
                "neither spec.command of the class nor a script (#!) as user data says what to run",
            )),
        }
    }

    fn env(&self, spec: &Spec, token: Option<String>) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        if let Some(agent) = &self.agent {
            env.insert("ORRERY_PROGRAM".to_owned(), agent.program.display().to_string());
            env.insert("ORRERY_SERVER".to_owned(), agent.server.clone());
        }
        env.extend(token.map(|token| ("ORRERY_JOIN_TOKEN".to_owned(), token)));
        env.extend(spec.env.clone());
        env
    }

    fn tree(&self, id: &str) -> Tree {
        Tree::new(self.network.namespace(id), self.records.folder(id))
    }

    /// Brings a machine from whatever was reached to running; each step can be repeated.
    async fn bring_up(
        &self,
        request: &Request,
        record: &mut Placed,
        lock: &Lock,
    ) -> Result<(), Error> {
        let class = request.class().await?;
        let spec: Spec = class.spec()?;
        let user_data = match class.secret_ref() {
            Ok(_) => request.user_data(&class).await?,
            Err(_) => String::new(),
        };
        let command = self.command(&spec, record, &user_data)?;
        self.records.write_user_data(&record.id, &user_data)?;
        self.network.connect(&record.id, record.extra.address).await?;
        self.open_way(&record.id).await?;
        let token = request.join_token().await?;
        let tree = self.tree(&record.id);
        if tree.pids().await?.is_empty() {
            tree.start(record, &command, &self.env(&spec, token), self.network.gateway()).await?;
        }
        record.started = true;
        self.records.write(record, lock)
    }

    async fn take_down(&self, id: &str, lock: &Lock) -> Result<(), Error> {
        if let Some(relay) = &self.relay {
            relay.close(id).await;
        }
        self.tree(id).end().await?;
        self.network.disconnect(id).await?;
        self.records.remove(id, lock)?;
        if self.records.all::<Address>()?.is_empty() {
            self.network.remove_bridge().await?;
        }
        Ok(())
    }

    async fn machine(&self, record: &Placed) -> Result<Machine, Error> {
        let alive = !self.tree(&record.id).pids().await?.is_empty();
        let state = match (alive, record.started) {
            (true, _) => MachineState::Running,
            (false, true) => MachineState::Stopped,
            (false, false) => MachineState::Pending,
        };
        Ok(Machine {
            id: format!("{ID_PREFIX}{}", record.id),
            name: record.name.clone(),
            addresses: vec![record.extra.address.to_string()],
            state,
            idempotency_key: record.key.clone(),
        })
    }
}

#[async_trait::async_trait]
impl Driver for Process {
    async fn create(&self, request: &Request) -> Result<Created, Error> {
        let key = machine_key(request)?;
        let id = id_of(&key);
        let lock = self.records.lock().await?;
        let known = self.records.read(&id)?;
        let adopted = known.as_ref().is_some_and(|it| it.started);
        let mut record = match known {
            Some(record) => record,
            None => {
                let address = free_address(&self.network, &self.records.all()?)?;
                let record = Record {
                    extra: Address { address },
                    name: request.machine_name.clone(),
                    class: request.class.clone(),
                    started: false,
                    id,
                    key,
                };
                self.records.write(&record, &lock)?;
                record
            }
        };
        if !record.started
            && let Err(error) = self.bring_up(request, &mut record, &lock).await
        {
            // Nothing half-made stays behind. If that fails too, the record remembers it.
            if let Err(left) = self.take_down(&record.id, &lock).await {
                tracing::warn!(machine = record.name, %left, "cannot clean up after a failure");
            }
            return Err(error);
        }
        Ok(Created {
            provider_id: format!("{ID_PREFIX}{}", record.id),
            node_name: record.name,
            addresses: vec![record.extra.address.to_string()],
            last_known_state: String::new(),
            adopted,
        })
    }

    async fn delete(&self, request: &Request) -> Result<(), Error> {
        let id = asked_id(request, ID_PREFIX)?;
        let lock = self.records.lock().await?;
        self.take_down(&id, &lock).await
    }

    async fn list(&self, request: &Request) -> Result<Vec<Machine>, Error> {
        let mut machines = Vec::new();
        for record in self.records.all()? {
            let machine = self.machine(&record).await?;
            let wanted = request.machine_id.is_empty() || request.machine_id == machine.id;
            if wanted && record.class == request.class {
                machines.push(machine);
            }
        }
        Ok(machines)
    }
}

fn free_address(network: &Network, records: &[Placed]) -> Result<Ipv4Addr, Error> {
    let taken = |address: &Ipv4Addr| records.iter().any(|it| it.extra.address == *address);
    network.addresses().find(|it| !taken(it)).ok_or_else(|| {
        Error::new(ErrorCode::ResourceExhausted, "all addresses of the subnet are taken")
    })
}
