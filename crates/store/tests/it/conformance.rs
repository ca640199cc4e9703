//! Every engine, alone and behind the cache, keeps every promise.

use orrery_store::conformance::{self, Cached, World};

use crate::worlds::{Embedded, Etcd, Memory, Sealed};

/// How many seeds the random checks run with here; a soak run uses more.
const SEEDS: u64 = 2;

async fn concurrency(world: impl World) {
    for seed in 0..SEEDS * crate::soak() as u64 {
        conformance::concurrency(&world, seed).await;
    }
}

async fn model(world: impl World) {
    for seed in 0..SEEDS * crate::soak() as u64 {
        conformance::model(&world, seed).await;
    }
}

/// One test per area for one world.
macro_rules! conforms {
    ($name:ident, $world:expr) => {
        mod $name {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn writes() {
                conformance::writes(&$world).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn reads() {
                conformance::reads(&$world).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn watches() {
                conformance::watches(&$world).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn leases() {
                conformance::leases(&$world).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn concurrency() {
                super::concurrency($world).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn model() {
                super::model($world).await;
            }
        }
    };
}

conforms!(memory, Memory);
conforms!(memory_cached, Cached::new(Memory));
conforms!(memory_sealed, Sealed::new(Memory));
conforms!(embedded_sealed_cached, Cached::new(Sealed::new(Embedded::new())));
conforms!(embedded, Embedded::new());
conforms!(embedded_cached, Cached::new(Embedded::new()));
conforms!(etcd, Etcd::new(1));
conforms!(etcd_cached, Cached::new(Etcd::new(1)));
conforms!(etcd_of_three_cached, Cached::new(Etcd::new(3)));
