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
mod record;
mod tree;

use crate::{Created, Driver, Error, ErrorCode, Machine, MachineState, Request};
use network::Network;
use record::{Lock, Record, Records};
use serde::Deserialize;
use sha2::Digest;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use tree::Tree;

/// The kind that this driver registers with.
pub const KIND: &str = "ProcessMachine";
const ID_PREFIX: &str = "process:///";
/// Enough of a hash to tell machines apart and still fit into the name of a network device.
const ID_LENGTH: usize = 8;

/// Where machines live.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of all machines. Two drivers with the same folder share the machines in it.
    pub root: PathBuf,
    /// The /24 network of the machines; its .1 is the host.
    pub subnet: Ipv4Addr,
}

/// The fields of `spec` in a class for this driver.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    /// What runs as the first process; without it the user data does, which is a script then.
    #[serde(default)]
    command: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// Read by the library; named here because unknown fields are refused.
    #[serde(default, rename = "secretRef")]
    _secret_ref: Option<serde_json::Value>,
}

/// The driver.
pub struct Process {
    records: Records,
    network: Network,
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
        Ok(Self { records, network: Network::new(&instance, options.subnet) })
    }

    fn tree(&self, id: &str) -> Tree {
        Tree::new(self.network.namespace(id), self.records.folder(id))
    }

    /// Brings a machine from whatever was reached to running; each step can be repeated.
    async fn bring_up(
        &self,
        request: &Request,
        record: &mut Record,
        lock: &Lock,
    ) -> Result<(), Error> {
        let class = request.class().await?;
        let spec: Spec = class.spec()?;
        let user_data = match class.secret_ref() {
            Ok(_) => request.user_data(&class).await?,
            Err(_) => String::new(),
        };
        if spec.command.is_empty() && !user_data.starts_with("#!") {
            return Err(Error::invalid(
                "neither spec.command of the class nor a script (#!) as user data says what to run",
            ));
        }
        self.records.write_user_data(&record.id, &user_data)?;
        self.network.connect(&record.id, record.address).await?;
        let tree = self.tree(&record.id);
        if tree.pids().await?.is_empty() {
            tree.start(record, &spec.command, &spec.env, self.network.gateway()).await?;
        }
        record.started = true;
        self.records.write(record, lock)
    }

    async fn take_down(&self, id: &str, lock: &Lock) -> Result<(), Error> {
        self.tree(id).end().await?;
        self.network.disconnect(id).await?;
        self.records.remove(id, lock)?;
        if self.records.all()?.is_empty() {
            self.network.remove_bridge().await?;
        }
        Ok(())
    }

    async fn machine(&self, record: &Record) -> Result<Machine, Error> {
        let alive = !self.tree(&record.id).pids().await?.is_empty();
        let state = match (alive, record.started) {
            (true, _) => MachineState::Running,
            (false, true) => MachineState::Stopped,
            (false, false) => MachineState::Pending,
        };
        Ok(Machine {
            id: format!("{ID_PREFIX}{}", record.id),
            name: record.name.clone(),
            addresses: vec![record.address.to_string()],
            state,
            idempotency_key: record.key.clone(),
        })
    }
}

#[async_trait::async_trait]
impl Driver for Process {
    async fn create(&self, request: &Request) -> Result<Created, Error> {
        let key = machine_key(request)?;
        let id = short_hash(&key, ID_LENGTH);
        let lock = self.records.lock().await?;
        let known = self.records.read(&id)?;
        let adopted = known.as_ref().is_some_and(|it| it.started);
        let mut record = match known {
            Some(record) => record,
            None => {
                let record = Record {
                    address: free_address(&self.network, &self.records.all()?)?,
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
            addresses: vec![record.address.to_string()],
            last_known_state: String::new(),
            adopted,
        })
    }

    async fn delete(&self, request: &Request) -> Result<(), Error> {
        let id = match request.machine_id.strip_prefix(ID_PREFIX) {
            Some(id) => id.to_owned(),
            None if request.machine_id.is_empty() => short_hash(&machine_key(request)?, ID_LENGTH),
            None => request.machine_id.clone(),
        };
        let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !is_id {
            return Err(Error::invalid(format!("{id:?} is no machine of this driver")));
        }
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

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

fn machine_key(request: &Request) -> Result<String, Error> {
    match (request.idempotency_key.as_str(), request.machine_name.as_str()) {
        ("", "") => Err(Error::invalid("the operation names no machine")),
        ("", name) => Ok(format!("{}#{name}", request.class)),
        (key, _) => Ok(key.to_owned()),
    }
}

fn short_hash(text: &str, length: usize) -> String {
    let mut hash = format!("{:x}", sha2::Sha256::digest(text));
    hash.truncate(length);
    hash
}

fn free_address(network: &Network, records: &[Record]) -> Result<Ipv4Addr, Error> {
    let taken = |address: &Ipv4Addr| records.iter().any(|it| it.address == *address);
    network.addresses().find(|it| !taken(it)).ok_or_else(|| {
        Error::new(ErrorCode::ResourceExhausted, "all addresses of the subnet are taken")
    })
}
