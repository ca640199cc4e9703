//! The driver for virtual machines: one QEMU for each, on the machine that the driver runs on.
//!
//! ```text
//!   root/<id>/machine.json   what was asked for, written before anything else
//!   root/<id>/disk.qcow2     its own layer over the image of its class
//!   root/<id>/initramfs      that of its class, with its seed appended
//!   root/<id>/seed/          NoCloud: user-data and meta-data, as a disk labelled CIDATA
//!   root/<id>/qmp            the monitor, by which it is found again and powered down
//!   root/<id>/console        what it has printed
//! ```
//!
//! A virtual machine belongs to nobody: it goes on when the driver ends. With KVM where this machine has
//! it, otherwise emulated. Its network is QEMU's own, in which this machine is 10.0.2.2.
//!
//! Needs Linux, `qemu-system-x86_64`, and `qemu-img` for classes with a disk image.
mod boot;
mod cpio;
mod monitor;
pub mod spec;

use crate::records::{Lock, Record, Records, asked_id, id_of, is_program, machine_key};
use crate::{Created, Driver, Error, ErrorCode, Machine, MachineState, Request};
use serde::{Deserialize, Serialize};
use spec::Spec;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The kind that this driver registers with.
pub const KIND: &str = "QemuMachine";
const ID_PREFIX: &str = "qemu:///";
/// The emulator.
const PROGRAM: &str = "qemu-system-x86_64";
/// How long a virtual machine that was told to end at once may take.
const QUIT_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Where machines live.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of all machines. Two drivers with the same folder share the machines in it.
    pub root: PathBuf,
    /// The server that their agents join, as the machines reach it.
    pub server: String,
}

/// What a machine is remembered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Extra {
    /// How long it may take to power down by itself.
    power_down_seconds: u64,
}

type Virtual = Record<Extra>;

/// The driver.
pub struct Qemu {
    records: Records,
    server: String,
}

impl Qemu {
    /// Checks that this machine can do it, and says what is missing if not.
    pub fn new(options: Options) -> Result<Self, Error> {
        if !is_program(PROGRAM) {
            let text = format!("virtual machines need the program {PROGRAM} (qemu-system-x86)");
            return Err(Error::new(ErrorCode::FailedPrecondition, text));
        }
        Ok(Self { records: Records::open(&options.root)?, server: options.server })
    }

    fn monitor(&self, id: &str) -> PathBuf {
        self.records.folder(id).join(boot::MONITOR)
    }

    /// Brings a machine from whatever was reached to running; each step can be repeated.
    async fn bring_up(
        &self,
        request: &Request,
        spec: &Spec,
        record: &mut Virtual,
        lock: &Lock,
    ) -> Result<(), Error> {
        let class = request.class().await?;
        let user_data = match class.secret_ref() {
            Ok(_) => request.user_data(&class).await?,
            Err(_) => String::new(),
        };
        let boot = boot::Boot {
            folder: self.records.folder(&record.id),
            id: &record.id,
            name: &record.name,
            server: &self.server,
            spec,
            user_data: &user_data,
            join_token: request.join_token().await?.unwrap_or_default(),
        };
        if !monitor::answers(&self.monitor(&record.id)).await {
            boot.prepare().await?;
            boot.start().await?;
        }
        record.started = true;
        self.records.write(record, lock)
    }

    /// Powers it down as a person would, and pulls the plug if that does not help.
    async fn take_down(&self, id: &str, lock: &Lock) -> Result<(), Error> {
        let known: Option<Virtual> = self.records.read(id)?;
        let grace = known.map_or(0, |record| record.extra.power_down_seconds);
        let monitor = self.monitor(id);
        if monitor::command(&monitor, "system_powerdown").await.is_ok() {
            self.until_ended(id, Duration::from_secs(grace)).await;
        }
        // It may have ended meanwhile; then there is nobody to tell.
        let _ = monitor::command(&monitor, "quit").await;
        if !self.until_ended(id, QUIT_TIMEOUT).await {
            boot::kill(&self.records.folder(id), id)?;
        }
        if !self.until_ended(id, QUIT_TIMEOUT).await {
            return Err(Error::unavailable(format!("the virtual machine {id} does not end")));
        }
        self.records.remove(id, lock)
    }

    async fn until_ended(&self, id: &str, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        let folder = self.records.folder(id);
        while boot::is_alive(&folder, id) {
            if Instant::now() >= until {
                return false;
            }
            sleep(LOOK_INTERVAL).await;
        }
        true
    }

    fn machine(&self, record: &Virtual) -> Machine {
        let alive = boot::is_alive(&self.records.folder(&record.id), &record.id);
        let state = match (alive, record.started) {
            (true, _) => MachineState::Running,
            (false, true) => MachineState::Stopped,
            (false, false) => MachineState::Pending,
        };
        Machine {
            id: format!("{ID_PREFIX}{}", record.id),
            name: record.name.clone(),
            addresses: Vec::new(),
            state,
            idempotency_key: record.key.clone(),
        }
    }
}

#[async_trait::async_trait]
impl Driver for Qemu {
    async fn create(&self, request: &Request) -> Result<Created, Error> {
        let key = machine_key(request)?;
        let spec: Spec = request.class().await?.spec()?;
        spec.check()?;
        let lock = self.records.lock().await?;
        let id = id_of(&key);
        let known: Option<Virtual> = self.records.read(&id)?;
        let adopted = known.as_ref().is_some_and(|it| it.started);
        let mut record = known.unwrap_or_else(|| Record {
            extra: Extra { power_down_seconds: spec.power_down_seconds },
            name: request.machine_name.clone(),
            class: request.class.clone(),
            started: false,
            id,
            key,
        });
        if !record.started {
            self.records.write(&record, &lock)?;
            if let Err(error) = self.bring_up(request, &spec, &mut record, &lock).await {
                // Nothing half-made stays behind. If that fails too, the record remembers it.
                if let Err(left) = self.take_down(&record.id, &lock).await {
                    tracing::warn!(machine = record.name, %left, "cannot clean up after a failure");
                }
                return Err(error);
            }
        }
        Ok(Created {
            provider_id: format!("{ID_PREFIX}{}", record.id),
            node_name: record.name,
            adopted,
            ..Created::default()
        })
    }

    async fn delete(&self, request: &Request) -> Result<(), Error> {
        let id = asked_id(request, ID_PREFIX)?;
        let lock = self.records.lock().await?;
        self.take_down(&id, &lock).await
    }

    async fn list(&self, request: &Request) -> Result<Vec<Machine>, Error> {
        let records: Vec<Virtual> = self.records.all()?;
        let of_class = records.iter().filter(|record| record.class == request.class);
        let machines = of_class.map(|record| self.machine(record));
        let wanted = |it: &Machine| request.machine_id.is_empty() || request.machine_id == it.id;
        Ok(machines.filter(wanted).collect())
    }
}
