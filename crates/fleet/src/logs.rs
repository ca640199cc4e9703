//! What people ask for when they ask for logs: a copy, or all copies of a workload.
use crate::agents::logs::{LogOptions, Output};
use crate::execs::called;
use crate::fleet::Fleet;
use crate::where_is::Whereabouts;
use futures::stream::{self, BoxStream, StreamExt};
use orrery_hub::{Error, ListOptions, ObjectName};
use orrery_proto::apps::v1::WorkloadInstance;
use orrery_proto::fleet::v1::{CopyLogsRequest, LogsRequest, LogsResponse};

/// Copies whose output is read at once; more than that nobody can follow, and each costs its agent
/// a reader.
const COPIES_MAX: usize = 32;

impl Fleet {
    /// The output that was asked for, piece by piece.
    pub async fn logs_of(
        &self,
        request: LogsRequest,
    ) -> Result<BoxStream<'static, LogsResponse>, Error> {
        let name = ObjectName::new(&request.project, &request.name);
        let mut instances = self.named(&name).await?;
        if !request.instance.is_empty() {
            let copy = called(&name, &request.instance, instances).map_err(Error::BadRequest)?;
            instances = vec![copy];
        }
        if COPIES_MAX < instances.len() {
            let count = instances.len();
            let message = format!("{name} has {count} copies; name one of them");
            return Err(Error::BadRequest(message));
        }
        let copies = u32::try_from(instances.len()).unwrap_or(u32::MAX);
        let mut outputs = Vec::new();
        for instance in instances {
            let metadata = instance.metadata.unwrap_or_default();
            let node = instance.spec.as_ref().map(|spec| spec.node()).unwrap_or_default();
            let wanted = CopyLogsRequest {
                node: node.to_owned(),
                id: metadata.uid,
                instance: metadata.name,
                follow: request.follow,
                tail_lines: request.tail_lines,
            };
            outputs.push(self.logs_of_copy(wanted, copies).await?);
        }
        Ok(stream::select_all(outputs).boxed())
    }

    /// The output of one copy, wherever its agent is connected.
    async fn logs_of_copy(
        &self,
        wanted: CopyLogsRequest,
        copies: u32,
    ) -> Result<BoxStream<'static, LogsResponse>, Error> {
        let instance = wanted.instance.clone();
        let problem = match self.where_is(&wanted.node).await? {
            Whereabouts::Here => return Ok(self.logs_here(wanted, copies)),
            Whereabouts::Nowhere(why) => why,
            Whereabouts::At(server) => match self.elsewhere().logs(&server, wanted).await {
                Ok(output) => {
                    let counted = move |piece| LogsResponse { copies, ..piece };
                    return Ok(output.map(counted).boxed());
                }
                Err(problem) => problem,
            },
        };
        let piece = response(&instance, copies, Output::Problem(problem));
        Ok(stream::iter([piece]).boxed())
    }

    /// The output of a copy on an agent of this server.
    pub fn logs_here(
        &self,
        wanted: CopyLogsRequest,
        copies: u32,
    ) -> BoxStream<'static, LogsResponse> {
        let options = LogOptions { follow: wanted.follow, tail_lines: wanted.tail_lines };
        let output = self.logs().open(&wanted.node, &wanted.id, options);
        output.map(move |output| response(&wanted.instance, copies, output)).boxed()
    }

    /// The copy of this name, or the copies of the workload of this name.
    pub(crate) async fn named(&self, name: &ObjectName) -> Result<Vec<WorkloadInstance>, Error> {
        let (workloads, instances) = self.named_kinds();
        match workloads.accessor().get(name.clone().into()).await {
            Ok(_) => {
                let project = Some(name.project.clone());
                let mut all = instances.list(ListOptions { project, ..<_>::default() }).await?;
                all.retain(|i| i.spec.as_ref().is_some_and(|spec| spec.workload() == name.name));
                Ok(all)
            }
            Err(missing @ Error::NotFound { .. }) => {
                let instance = instances.find(name).await?;
                instance.map(|instance| vec![instance]).ok_or(missing)
            }
            Err(error) => Err(error),
        }
    }
}

fn response(instance: &str, copies: u32, output: Output) -> LogsResponse {
    let mut response =
        LogsResponse { instance: instance.to_owned(), copies, ..LogsResponse::default() };
    match output {
        Output::Data { data, gap } => (response.data, response.gap) = (data, gap),
        Output::Problem(problem) => response.problem = problem,
    }
    response
}
