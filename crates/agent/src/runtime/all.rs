//! All runtimes of an agent as one: each instance is with the runtime that ran it last.
use super::exec::{ExecRequest, Executing};
use super::podman::PodmanRuntime;
use super::process::ProcessRuntime;
use super::{Runtime, RuntimeError, StartRequest, StopRequest};
use crate::model::{InstanceId, Run};
use orrery_proto::apps::v1::workload_instance_spec;
use std::net::IpAddr;

/// The runtimes of one agent.
pub(crate) struct Runtimes {
    process: ProcessRuntime,
    podman: PodmanRuntime,
}

impl Runtimes {
    pub(crate) fn new(process: ProcessRuntime, podman: PodmanRuntime) -> Self {
        Self { process, podman }
    }

    /// Podman leaves a note in the folder of an instance before it makes a container.
    fn of(&self, id: &InstanceId) -> &dyn Runtime {
        if self.podman.has(id) { &self.podman } else { &self.process }
    }
}

#[async_trait::async_trait]
impl Runtime for Runtimes {
    async fn start(&self, request: &StartRequest) -> Result<Run, RuntimeError> {
        match &request.spec.runtime {
            Some(workload_instance_spec::Runtime::Podman(_)) => self.podman.start(request).await,
            Some(workload_instance_spec::Runtime::Process(_)) => {
                if self.podman.has(&request.id) {
                    self.podman.remove(&request.id).await?;
                }
                self.process.start(request).await
            }
            None => Err(RuntimeError::Unsupported),
        }
    }

    async fn inspect(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        self.of(id).inspect(id).await
    }

    async fn wait(&self, id: &InstanceId) -> Result<Option<Run>, RuntimeError> {
        self.of(id).wait(id).await
    }

    async fn stop(&self, id: &InstanceId, request: StopRequest) -> Result<(), RuntimeError> {
        self.of(id).stop(id, request).await
    }

    async fn kill(&self, id: &InstanceId) -> Result<(), RuntimeError> {
        self.of(id).kill(id).await
    }

    async fn remove(&self, id: &InstanceId) -> Result<(), RuntimeError> {
        self.of(id).remove(id).await
    }

    async fn exec(&self, id: &InstanceId, request: ExecRequest) -> Result<Executing, RuntimeError> {
        self.of(id).exec(id, request).await
    }

    async fn address(&self, id: &InstanceId) -> Result<IpAddr, RuntimeError> {
        self.of(id).address(id).await
    }

    fn root(&self, id: &InstanceId, pid: i32) -> Option<i32> {
        self.of(id).root(id, pid)
    }

    fn container(&self, id: &InstanceId) -> Option<String> {
        self.of(id).container(id)
    }
}
