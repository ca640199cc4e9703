//! The thin loop bodies of the machine controllers: read, plan, write, act.
//!
//! Each takes a name and not an event, and does what the plan says; queues, retries and who is
//! leader are the runtime's. What they read and write is behind a trait per kind, so that tests hand
//! them a world and the server the hub. Each trait says what the store has to guarantee for the
//! plans' promises to hold.
pub mod deployment;
pub mod machine;
pub mod orphans;
pub mod set;

use crate::drivers::{Call, Created, DriverKey, Drivers, Found, MachineArgs, OpError, Target};
use crate::plan::Time;
use std::time::Duration;

/// When to look at the same name again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When something changes.
    AwaitChange,
    After(Duration),
    /// At once: there is more to do.
    Now,
}

/// Reading or writing the world failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorldError {
    /// Someone else was faster. Nothing was written: look again.
    #[error("{0} was changed by someone else meanwhile")]
    Conflict(String),
    #[error("cannot reach the store: {0}")]
    Unavailable(String),
}

/// Where points in time come from.
pub trait Clock: Send + Sync {
    fn now(&self) -> Time;
}

/// What makes machines. In the server that is [`Drivers`].
#[async_trait::async_trait]
pub trait Provider: Send + Sync {
    /// Whether there is anybody to ask for machines of this driver.
    fn serves(&self, key: &DriverKey) -> bool;

    async fn create(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<Created, OpError>;

    async fn delete(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<(), OpError>;

    async fn list(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<Vec<Found>, OpError>;
}

#[async_trait::async_trait]
impl Provider for Drivers {
    fn serves(&self, key: &DriverKey) -> bool {
        Drivers::serves(self, key)
    }

    async fn create(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<Created, OpError> {
        Drivers::create(self, target, machine, call).await
    }

    async fn delete(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<(), OpError> {
        Drivers::delete(self, target, machine, call).await
    }

    async fn list(
        &self,
        target: &Target,
        machine: &MachineArgs,
        call: &Call,
    ) -> Result<Vec<Found>, OpError> {
        Drivers::list(self, target, machine, call).await
    }
}
