//! From what a cluster and a pool say of their machines to the class that a driver reads: pure.
use orrery_proto::infra::v1::{
    AwsDisk, AwsMachines, AwsNetwork, AwsProfile, ClusterSpec, MachineClassSpec, NodePool,
    ProcessMachines, QemuMachines, aws_profile, cluster_spec, node_pool,
};
use prost_types::{ListValue, Struct, Value, value::Kind};
use std::collections::{BTreeMap, HashMap};

/// What the machines of a pool are like.
#[derive(Clone, Debug, PartialEq)]
pub enum Machines {
    Process(ProcessMachines),
    Qemu(QemuMachines),
    Aws(AwsMachines),
}

/// A pool that says something of another provider than its cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherProvider {
    pub cluster: &'static str,
    pub pool: &'static str,
}

/// The branch of a cluster, as its spec names it; empty when it has none.
pub fn provider(spec: &ClusterSpec) -> &'static str {
    match &spec.provider {
        Some(cluster_spec::Provider::Process(_)) => "process",
        Some(cluster_spec::Provider::Qemu(_)) => "qemu",
        Some(cluster_spec::Provider::Aws(_)) => "aws",
        None => "",
    }
}

/// What the machines of a pool are like, from both. `None` for a pool that names a class, and for a cluster without a
/// provider, which is refused before it is stored.
pub fn machines(spec: &ClusterSpec, pool: &NodePool) -> Result<Option<Machines>, OtherProvider> {
    use cluster_spec::Provider;
    use node_pool::Machines as Own;
    let merged = match (&spec.provider, &pool.machines) {
        (None, _) | (_, Some(Own::Class(_))) => return Ok(None),
        (Some(Provider::Process(base)), None) => Machines::Process(base.clone()),
        (Some(Provider::Qemu(base)), None) => Machines::Qemu(base.clone()),
        (Some(Provider::Aws(base)), None) => Machines::Aws(base.clone()),
        (Some(Provider::Process(base)), Some(Own::Process(own))) => {
            Machines::Process(process(base, own))
        }
        (Some(Provider::Qemu(base)), Some(Own::Qemu(own))) => Machines::Qemu(qemu(base, own)),
        (Some(Provider::Aws(base)), Some(Own::Aws(own))) => Machines::Aws(aws(base, own)),
        (Some(_), Some(own)) => {
            return Err(OtherProvider { cluster: provider(spec), pool: branch(own) });
        }
    };
    Ok(Some(merged))
}

fn branch(own: &node_pool::Machines) -> &'static str {
    match own {
        node_pool::Machines::Class(_) => "class",
        node_pool::Machines::Process(_) => "process",
        node_pool::Machines::Qemu(_) => "qemu",
        node_pool::Machines::Aws(_) => "aws",
    }
}

/// The pool's value where it has one.
fn over<T: Clone>(base: &Option<T>, own: &Option<T>) -> Option<T> {
    own.as_ref().or(base.as_ref()).cloned()
}

fn process(base: &ProcessMachines, own: &ProcessMachines) -> ProcessMachines {
    let command = if own.command.is_empty() { &base.command } else { &own.command };
    ProcessMachines {
        command: command.clone(),
        env: added(&base.env, &own.env),
        secret: over(&base.secret, &own.secret),
    }
}

fn qemu(base: &QemuMachines, own: &QemuMachines) -> QemuMachines {
    QemuMachines {
        kernel: over(&base.kernel, &own.kernel),
        initramfs: over(&base.initramfs, &own.initramfs),
        append: over(&base.append, &own.append),
        disk: over(&base.disk, &own.disk),
        disk_format: over(&base.disk_format, &own.disk_format),
        memory_mib: over(&base.memory_mib, &own.memory_mib),
        cpus: over(&base.cpus, &own.cpus),
        accelerator: over(&base.accelerator, &own.accelerator),
        nic: over(&base.nic, &own.nic),
        power_down_seconds: over(&base.power_down_seconds, &own.power_down_seconds),
        secret: over(&base.secret, &own.secret),
    }
}

fn aws(base: &AwsMachines, own: &AwsMachines) -> AwsMachines {
    AwsMachines {
        ami: over(&base.ami, &own.ami),
        region: over(&base.region, &own.region),
        machine_type: over(&base.machine_type, &own.machine_type),
        key_name: over(&base.key_name, &own.key_name),
        iam: over(&base.iam, &own.iam),
        network: over(&base.network, &own.network),
        disk: over(&base.disk, &own.disk),
        tags: added(&base.tags, &own.tags),
        secret: over(&base.secret, &own.secret),
    }
}

fn added(base: &HashMap<String, String>, own: &HashMap<String, String>) -> HashMap<String, String> {
    base.iter().chain(own).map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Machines {
    /// The class that machines like these are made from. The names of its fields are those that the driver reads.
    pub fn class(&self) -> MachineClassSpec {
        let (provider, secret, fields) = match self {
            Self::Process(it) => ("ProcessMachine", &it.secret, of_process(it)),
            Self::Qemu(it) => ("QemuMachine", &it.secret, of_qemu(it)),
            Self::Aws(it) => ("AWSMachineClass", &it.secret, of_aws(it)),
        };
        MachineClassSpec {
            provider: Some(provider.to_owned()),
            provider_version: None,
            provider_spec: Some(fields.into()),
            secret: secret.clone(),
        }
    }
}

fn of_process(of: &ProcessMachines) -> Fields {
    Fields::default().list("command", &of.command).map("env", &of.env)
}

fn of_qemu(of: &QemuMachines) -> Fields {
    Fields::default()
        .text("kernel", &of.kernel)
        .text("initramfs", &of.initramfs)
        .text("append", &of.append)
        .text("disk", &of.disk)
        .text("diskFormat", &of.disk_format)
        .number("memoryMib", of.memory_mib)
        .number("cpus", of.cpus)
        .text("accelerator", &of.accelerator)
        .text("nic", &of.nic)
        .number("powerDownSeconds", of.power_down_seconds)
}

fn of_aws(of: &AwsMachines) -> Fields {
    Fields::default()
        .text("ami", &of.ami)
        .text("region", &of.region)
        .text("machineType", &of.machine_type)
        .text("keyName", &of.key_name)
        .object("iam", of.iam.as_ref().map(of_profile))
        .only("networkInterfaces", of.network.as_ref().map(of_network))
        .only("blockDevices", of.disk.as_ref().map(of_disk))
        .map("tags", &of.tags)
}

fn of_profile(of: &AwsProfile) -> Fields {
    match &of.profile {
        Some(aws_profile::Profile::Name(name)) => {
            Fields::default().text("name", &Some(name.clone()))
        }
        Some(aws_profile::Profile::Arn(arn)) => Fields::default().text("arn", &Some(arn.clone())),
        None => Fields::default(),
    }
}

fn of_network(of: &AwsNetwork) -> Fields {
    Fields::default()
        .text("subnetID", &of.subnet_id)
        .list("securityGroupIDs", &of.security_group_ids)
        .flag("associatePublicIPAddress", of.public_address)
}

fn of_disk(of: &AwsDisk) -> Fields {
    let ebs = Fields::default()
        .number("volumeSize", of.size_gib)
        .text("volumeType", &of.r#type)
        .flag("encrypted", of.encrypted)
        .number("iops", of.iops);
    Fields::default().text("deviceName", &of.device).object("ebs", Some(ebs))
}

/// The fields of an opaque object; those that nobody gave are left out.
#[derive(Default)]
struct Fields(BTreeMap<String, Value>);

impl Fields {
    fn with(mut self, name: &str, kind: Option<Kind>) -> Self {
        let value = kind.map(|kind| (name.to_owned(), Value { kind: Some(kind) }));
        self.0.extend(value);
        self
    }

    fn text(self, name: &str, text: &Option<String>) -> Self {
        self.with(name, text.clone().map(Kind::StringValue))
    }

    fn number(self, name: &str, number: Option<i32>) -> Self {
        self.with(name, number.map(|number| Kind::NumberValue(number.into())))
    }

    fn flag(self, name: &str, flag: Option<bool>) -> Self {
        self.with(name, flag.map(Kind::BoolValue))
    }

    fn list(self, name: &str, texts: &[String]) -> Self {
        let text = |text: &String| Value { kind: Some(Kind::StringValue(text.clone())) };
        let values: Vec<Value> = texts.iter().map(text).collect();
        self.with(name, (!values.is_empty()).then_some(Kind::ListValue(ListValue { values })))
    }

    fn map(self, name: &str, texts: &HashMap<String, String>) -> Self {
        let inner = texts
            .iter()
            .fold(Self::default(), |inner, (key, value)| inner.text(key, &Some(value.clone())));
        self.object(name, (!texts.is_empty()).then_some(inner))
    }

    fn object(self, name: &str, fields: Option<Self>) -> Self {
        self.with(name, fields.map(|fields| Kind::StructValue(fields.into())))
    }

    /// A list with this one object in it.
    fn only(self, name: &str, fields: Option<Self>) -> Self {
        let list = |fields: Self| {
            let values = vec![Value { kind: Some(Kind::StructValue(fields.into())) }];
            Kind::ListValue(ListValue { values })
        };
        self.with(name, fields.map(list))
    }
}

impl From<Fields> for Struct {
    fn from(fields: Fields) -> Self {
        Self { fields: fields.0.into_iter().collect() }
    }
}

#[cfg(test)]
mod tests;
