//! The storage controller and the CSI driver on this machine's own loop devices and mounts. They need
//! root and the kernel's loop driver; where those are missing, the first test of the file says so and
//! fails, because a run that skipped everything would prove nothing.
#![allow(clippy::unwrap_used)]

mod ceph;
mod controller;
mod csi;
mod guest;
mod machine;
mod qemu;
mod run;
mod secrets;
mod spdk;
mod through_proxy;
mod tls;
mod world;
