//! Compiles every contract in `proto/` to Rust and keeps the descriptor set beside it, without an
//! installed protoc.
use prost::Message as _;
use protox::prost_reflect::{DescriptorPool, DynamicMessage, Value};
use std::path::{Path, PathBuf};

#[path = "src/markdown.rs"]
mod markdown;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    compile_storage(&root)?;
    compile_smi(&root)?;
    let mut files = Vec::new();
    collect(&root.join("orrery"), &mut files)?;
    collect(&root.join("infra"), &mut files)?;
    files.sort();

    // Comments travel with the descriptors: explain, OpenAPI and the reference are made of them.
    let mut compiler = protox::Compiler::new([&root])?;
    compiler.include_imports(true).include_source_info(true).open_files(&files)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("orrery.fds"), descriptors(&compiler)?)?;
    // Type names let a caller say `scheme.kind_of::<Workload>()` instead of spelling the name.
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .codec_path("crate::codec::Frugal")
        .bytes(".orrery.hub.v1.Resource")
        .bytes(".orrery.meta.v1.ManagedFieldsEntry")
        .skip_debug([
            ".orrery.core.v1.SecretSpec",
            ".orrery.fleet.v1.FileContent",
            ".orrery.hub.v1.Resource",
            ".orrery.volumes.v1.CheckCephRequest",
        ])
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}

/// The descriptors, with the comments above things as the only word about their sources. Every server keeps them
/// in memory, and most of what a compiler says is where in a file each thing begins and ends.
fn descriptors(compiler: &protox::Compiler) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let set = DescriptorPool::global().get_message_by_name("google.protobuf.FileDescriptorSet");
    let bytes = compiler.encode_file_descriptor_set();
    // By reflection, because options of our own are unknown to the types of prost, which drop them.
    let mut set = DynamicMessage::decode(set.ok_or("no descriptors of descriptors")?, &*bytes)?;
    for file in messages(&mut set, "file") {
        let Some(Value::Message(source)) = file.get_field_by_name_mut("source_code_info") else {
            continue;
        };
        if let Some(Value::List(locations)) = source.get_field_by_name_mut("location") {
            locations.retain(is_commented);
        }
        for location in messages(source, "location") {
            for part in ["span", "trailing_comments", "leading_detached_comments"] {
                location.clear_field_by_name(part);
            }
        }
    }
    Ok(set.encode_to_vec())
}

fn is_commented(location: &Value) -> bool {
    location.as_message().is_some_and(|location| location.has_field_by_name("leading_comments"))
}

/// The messages of a repeated field.
fn messages<'a>(
    of: &'a mut DynamicMessage,
    field: &str,
) -> impl Iterator<Item = &'a mut DynamicMessage> {
    let list = of.get_field_by_name_mut(field).and_then(Value::as_list_mut);
    list.into_iter().flatten().filter_map(Value::as_message_mut)
}

/// The storage contracts stand apart from the rest: `oim.v0` is taken out of its specification, and
/// `csi.v1` is somebody else's. Messages that carry secrets get their `Debug` in `src/redact.rs`.
fn compile_storage(root: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let document = root.join("../docs/spec/oim.md");
    println!("cargo:rerun-if-changed={}", document.display());
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let extracted = out.join("oim.proto");
    let text = markdown::contract(&std::fs::read_to_string(&document)?)
        .map_err(|error| format!("{}: {error}", document.display()))?;
    std::fs::write(&extracted, text)?;

    let mut compiler = protox::Compiler::new([out.as_path(), root])?;
    compiler.include_imports(true).include_source_info(true);
    compiler.open_files([extracted, root.join("csi/v1/csi.proto")])?;
    std::fs::write(out.join("storage.fds"), descriptors(&compiler)?)?;
    tonic_prost_build::configure()
        .skip_debug([".oim.v0.CephParams"])
        .skip_debug(CARRY_SECRETS.map(|message| format!(".csi.v1.{message}")))
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}

/// The kinds of the Service Mesh Interface stand apart too: most of them are older versions that need a
/// convertor, which only the mesh has.
fn compile_smi(root: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let mut files = Vec::new();
    collect(&root.join("smi"), &mut files)?;
    files.sort();
    let mut compiler = protox::Compiler::new([root])?;
    compiler.include_imports(true).include_source_info(true).open_files(&files)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("smi.fds"), descriptors(&compiler)?)?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .extern_path(".orrery.meta.v1", "crate::orrery::meta::v1")
        .extern_path(".orrery.options.v1", "crate::orrery::options::v1")
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}

/// Every message of `csi.v1` with a field `secrets`.
const CARRY_SECRETS: [&str; 14] = [
    "ControllerExpandVolumeRequest",
    "ControllerModifyVolumeRequest",
    "ControllerPublishVolumeRequest",
    "ControllerUnpublishVolumeRequest",
    "CreateSnapshotRequest",
    "CreateVolumeRequest",
    "DeleteSnapshotRequest",
    "DeleteVolumeRequest",
    "GetSnapshotRequest",
    "ListSnapshotsRequest",
    "NodeExpandVolumeRequest",
    "NodePublishVolumeRequest",
    "NodeStageVolumeRequest",
    "ValidateVolumeCapabilitiesRequest",
];

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|ending| ending == "proto") {
            files.push(path);
        }
    }
    Ok(())
}
