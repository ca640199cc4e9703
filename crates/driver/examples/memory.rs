//! A whole driver: machines that exist only in the memory of this process.
//!
//! ```sh
//! cargo run -p orrery-driver --example memory -- 127.0.0.1:5000
//! ```
use orrery_driver::{Created, Driver, Error, Machine, MachineState, Options, Request};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

/// The fields of `spec` in a class of this driver.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    size: String,
}

/// The "provider": machines by the idempotency key they were made with.
#[derive(Default)]
pub struct Memory {
    machines: Mutex<HashMap<String, Machine>>,
}

impl Memory {
    fn machines(&self) -> MutexGuard<'_, HashMap<String, Machine>> {
        self.machines.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

#[async_trait::async_trait]
impl Driver for Memory {
    async fn create(&self, request: &Request) -> Result<Created, Error> {
        let class = request.class().await?;
        let Spec { size } = class.spec()?;
        if size != "small" {
            return Err(Error::invalid(format!("spec.size is {size:?}; there is only \"small\"")));
        }
        let first_words = request.user_data(&class).await?;
        tracing::info!(machine = request.machine_name, bytes = first_words.len(), "starting");

        let mut machines = self.machines();
        let next_id = format!("memory-{}", machines.len() + 1);
        let key = request.idempotency_key.clone();
        let adopted = machines.contains_key(&key);
        let machine = machines.entry(key.clone()).or_insert_with(|| Machine {
            id: next_id,
            name: request.machine_name.clone(),
            addresses: vec!["127.0.0.1".into()],
            state: MachineState::Running,
            idempotency_key: key,
        });
        Ok(Created {
            provider_id: machine.id.clone(),
            node_name: machine.name.clone(),
            addresses: machine.addresses.clone(),
            adopted,
            ..Created::default()
        })
    }

    async fn delete(&self, request: &Request) -> Result<(), Error> {
        self.machines().retain(|_, machine| machine.id != request.machine_id);
        Ok(())
    }

    async fn list(&self, _request: &Request) -> Result<Vec<Machine>, Error> {
        Ok(self.machines().values().cloned().collect())
    }
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:5000".into());
    let channel = orrery_driver::channel(&address, None)?;
    let options = Options::new("memory", "infra.orrery.dev", "MemoryMachine", "v1");
    let stop = CancellationToken::new();
    let running = orrery_driver::run(options, channel, Arc::new(Memory::default()), stop.clone());
    tokio::pin!(running);
    tokio::select! {
        _ = &mut running => return Ok(()),
        pressed = tokio::signal::ctrl_c() => pressed?,
    }
    stop.cancel();
    running.await;
    Ok(())
}
