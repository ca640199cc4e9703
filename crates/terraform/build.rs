//! Compiles the contracts between Terraform and its providers, without an installed protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors =
        protox::compile(["tfplugin5.proto", "tfplugin6.proto", "plugin.proto"], ["proto"])?;
    // The client's side is what the tests play.
    tonic_prost_build::configure()
        .skip_debug([".tfplugin6.DynamicValue", ".tfplugin6.RawState"])
        .compile_fds(descriptors)?;
    Ok(())
}
