//! Compiles the part of etcd's contract that the etcd engine speaks, without an installed protoc.

#[cfg(feature = "etcd")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["etcd.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_server(false)
        .bytes(".etcdserverpb")
        .compile_fds(descriptors)?;
    Ok(())
}

#[cfg(not(feature = "etcd"))]
fn main() {}
