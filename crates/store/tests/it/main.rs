//! Everything that needs the crate from outside: engines under the conformance suite, directories,
//! processes that die and disks that fail.

mod backup;
mod conformance;
mod damage;
mod embedded;
mod etcd;
mod etcd_cluster;
mod worlds;
