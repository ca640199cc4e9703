//! Holds `oim.v0` to the contract that peers were built with: every message, field and number.
use prost::Message;
use prost_types::{DescriptorProto, FileDescriptorSet};

/// What was published, one message a line. New fields are added to the end of a line.
const PUBLISHED: &str = "\
RegisterControllerRequest controller_id=1 address=2 backend=100 capacity_bytes=101 available_bytes=102 refresh_seconds=103 books=104
RegisterControllerReply
GetControllerRequest
GetControllerReply entries=1
DBEntry controller_id=1 address=2
MapVolumeRequest volume_id=1 malloc=2 ceph=3
MallocParams
CephParams secret=1 user_id=2 monitors=3 pool=4 image=5
MapVolumeReply device=1 scsi=2
UnmapVolumeRequest volume_id=1
UnmapVolumeReply
ProvisionMallocBDevRequest bdev_name=1 size=2
ProvisionMallocBDevReply
CheckMallocBDevRequest bdev_name=1
CheckMallocBDevReply
";

const METHODS: &str = "\
Registry RegisterController(RegisterControllerRequest) RegisterControllerReply
Registry GetControllers(GetControllerRequest) GetControllerReply
Controller MapVolume(MapVolumeRequest) MapVolumeReply
Controller UnmapVolume(UnmapVolumeRequest) UnmapVolumeReply
Controller ProvisionMallocBDev(ProvisionMallocBDevRequest) ProvisionMallocBDevReply
Controller CheckMallocBDev(CheckMallocBDevRequest) CheckMallocBDevReply
";

fn line(message: &DescriptorProto) -> String {
    let fields = message.field.iter().map(|field| format!(" {}={}", field.name(), field.number()));
    format!("{}{}\n", message.name(), fields.collect::<String>())
}

/// proves: VOL-01
#[test]
fn the_specification_yields_the_published_contract() {
    let set = FileDescriptorSet::decode(crate::STORAGE_DESCRIPTOR_SET).expect("descriptors decode");
    let file =
        set.file.iter().find(|file| file.package() == "oim.v0").expect("oim.v0 is in the set");
    assert_eq!(file.message_type.iter().map(line).collect::<String>(), PUBLISHED);

    let short = |name: &str| name.trim_start_matches(".oim.v0.").to_owned();
    let methods = file.service.iter().flat_map(|service| {
        service.method.iter().map(move |method| {
            let (input, output) = (short(method.input_type()), short(method.output_type()));
            format!("{} {}({input}) {output}\n", service.name(), method.name())
        })
    });
    assert_eq!(methods.collect::<String>(), METHODS);
}
