//! Everything that needs the crate from outside: engines under the conformance suite, directories,
//! processes that die and disks that fail.

mod backup;
mod conformance;
mod crash;
mod damage;
mod disk;
mod embedded;
mod etcd;
mod power;
mod worlds;

use orrery_testkit::etcd as etcd_cluster;

/// How much longer the random tests run than they must: 1, or what `ORRERY_SOAK` says.
fn soak() -> usize {
    let asked = std::env::var("ORRERY_SOAK").ok();
    asked.map_or(1, |text| text.parse().expect("ORRERY_SOAK is a number"))
}
