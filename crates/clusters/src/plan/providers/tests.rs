use super::*;

fn mk_qemu(disk: &str, memory: Option<i32>) -> QemuMachines {
    let disk = (!disk.is_empty()).then(|| disk.to_owned());
    QemuMachines { disk, memory_mib: memory, ..QemuMachines::default() }
}

fn mk_spec(provider: cluster_spec::Provider) -> ClusterSpec {
    ClusterSpec { provider: Some(provider), ..ClusterSpec::default() }
}

fn mk_pool(machines: Option<node_pool::Machines>) -> NodePool {
    NodePool { machines, ..NodePool::default() }
}

/// A class in a line: `provider secret field=value`.
fn shown(machines: &Machines) -> String {
    let class = machines.class();
    let fields = class.provider_spec.clone().unwrap_or_default();
    format!("{} {} {}", class.provider(), class.secret(), value(&Kind::StructValue(fields)))
}

fn value(kind: &Kind) -> String {
    match kind {
        Kind::NullValue(_) => "null".to_owned(),
        Kind::NumberValue(number) => number.to_string(),
        Kind::StringValue(text) => text.clone(),
        Kind::BoolValue(flag) => flag.to_string(),
        Kind::ListValue(list) => {
            let each = list.values.iter().filter_map(|it| it.kind.as_ref()).map(value);
            format!("[{}]", each.collect::<Vec<_>>().join(" "))
        }
        Kind::StructValue(fields) => {
            let each = fields
                .fields
                .iter()
                .filter_map(|(name, it)| Some(format!("{name}={}", value(it.kind.as_ref()?))));
            format!("{{{}}}", each.collect::<Vec<_>>().join(" "))
        }
    }
}

#[track_caller]
fn check(
    provider: cluster_spec::Provider,
    pool: Option<node_pool::Machines>,
    expect: Result<&str, (&str, &str)>,
) {
    let found = machines(&mk_spec(provider), &mk_pool(pool));
    let found = found.map(|it| it.as_ref().map(shown).unwrap_or_default());
    let expect = expect.map(str::to_owned);
    assert_eq!(found.map_err(|it| (it.cluster, it.pool)), expect);
}

#[test]
fn a_pool_says_what_differs_from_its_cluster() {
    use cluster_spec::Provider;
    use node_pool::Machines as Own;
    let base = || Provider::Qemu(mk_qemu("/base", Some(512)));
    check(base(), None, Ok("QemuMachine  {disk=/base memoryMib=512}"));
    let own = Own::Qemu(mk_qemu("", Some(4096)));
    check(base(), Some(own), Ok("QemuMachine  {disk=/base memoryMib=4096}"));
    let own = Own::Qemu(mk_qemu("/other", None));
    check(base(), Some(own), Ok("QemuMachine  {disk=/other memoryMib=512}"));
    check(base(), Some(Own::Class("mine".into())), Ok(""));
    check(base(), Some(Own::Process(<_>::default())), Err(("qemu", "process")));
}

#[test]
fn variables_and_tags_are_added() {
    use cluster_spec::Provider;
    use node_pool::Machines as Own;
    let env = |pairs: &[(&str, &str)]| ProcessMachines {
        env: pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        ..ProcessMachines::default()
    };
    let base = Provider::Process(env(&[("A", "1"), ("B", "1")]));
    let own = Own::Process(env(&[("B", "2"), ("C", "2")]));
    check(base, Some(own), Ok("ProcessMachine  {env={A=1 B=2 C=2}}"));
    check(Provider::Process(<_>::default()), None, Ok("ProcessMachine  {}"));
}

/// Two branches have a field of one name: a file for one, a disk that is made for the other. Each reaches its driver in
/// the driver's own words.
///
/// proves: HUB-20
#[test]
fn a_disk_is_what_its_provider_takes_it_for() {
    use cluster_spec::Provider;
    check(Provider::Qemu(mk_qemu("/image", None)), None, Ok("QemuMachine  {disk=/image}"));
    let text = |text: &str| Some(text.to_owned());
    let disk = AwsDisk { size_gib: Some(20), encrypted: Some(true), ..AwsDisk::default() };
    let network = AwsNetwork {
        subnet_id: text("subnet-1"),
        security_group_ids: vec!["sg-1".to_owned()],
        public_address: Some(false),
    };
    let aws = AwsMachines {
        ami: text("ami-1"),
        region: text("eu-west-1"),
        machine_type: text("t3.small"),
        secret: text("cloud"),
        iam: Some(AwsProfile { profile: Some(aws_profile::Profile::Name("node".to_owned())) }),
        network: Some(network),
        disk: Some(disk),
        ..AwsMachines::default()
    };
    let expect = "AWSMachineClass cloud {ami=ami-1 \
        blockDevices=[{ebs={encrypted=true volumeSize=20}}] iam={name=node} machineType=t3.small \
        networkInterfaces=[{associatePublicIPAddress=false securityGroupIDs=[sg-1] subnetID=subnet-1}] \
        region=eu-west-1}";
    check(Provider::Aws(aws), None, Ok(expect));
}
