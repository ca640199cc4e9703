//! Compiles the test kinds in the way in which our own kinds are compiled.
use std::path::{Path, PathBuf};

const FILES: [&str; 5] = [
    "orrery/testkit/v1/bundle.proto",
    "orrery/testkit/v1/gadget.proto",
    "orrery/testkit/v1/shelf.proto",
    "orrery/testkit/v1beta1/gadget.proto",
    "orrery/testkit/v2alpha1/gadget.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [here.join("proto"), here.join("../../proto")];
    for folder in &folders {
        println!("cargo:rerun-if-changed={}", folder.display());
    }
    let mut compiler = protox::Compiler::new(&folders)?;
    compiler.include_imports(true).include_source_info(true).open_files(FILES)?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("testkit.fds"), compiler.encode_file_descriptor_set())?;
    let mut config = tonic_prost_build::Config::new();
    config.enable_type_names();
    tonic_prost_build::configure()
        .extern_path(".orrery.meta.v1", "::orrery_proto::meta::v1")
        .extern_path(".orrery.options.v1", "::orrery_proto::options::v1")
        .compile_fds_with_config(compiler.file_descriptor_set(), config)?;
    Ok(())
}
