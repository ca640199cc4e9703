//! What people ask for when they ask for logs: a copy, or all copies of a workload.
use crate::agents::logs::Output;
use crate::execs::called;
use crate::fleet::Fleet;
use crate::where_is::Whereabouts;
use futures::stream::{self, BoxStream, StreamExt};
use orrery_hub::{Error, ListOptions, ObjectName};
use orrery_proto::apps::v1::WorkloadInstance;
use orrery_proto::fleet::v1::{CopyLogsRequest, LogRequest, LogsRequest, LogsResponse};

/// Copies whose output is read at once; more than that nobody can follow, and each costs its agent
/// a reader.
const COPIES_MAX: usize = 32;

/// What is said where times were asked for and what comes does not say that it knows any.
const NO_TIMES: &str = "its agent, or the server that it is connected to, is of an earlier version, which keeps no \
     times of output: update it, or ask without them";

impl Fleet {
    /// The output that was asked for, piece by piece.
    pub async fn logs_of(
        &self,
        request: LogsRequest,
    ) -> Result<BoxStream<'static, LogsResponse>, Error> {
        check(&request).map_err(Error::BadRequest)?;
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
                instance: metadata.name,
                follow: request.follow,
                tail_lines: request.tail_lines,
                times: request.times,
                positions: request.positions,
                since_seconds: request.since_seconds,
                since_time: request.since_time,
                after: request.after.get(&metadata.uid).cloned().unwrap_or_default(),
                id: metadata.uid,
            };
            let timed = needs_times(&wanted);
            let output = self.logs_of_copy(wanted, copies).await?;
            outputs.push(if timed { only_timed(output) } else { output });
        }
        Ok(stream::select_all(outputs).boxed())
    }

    /// The output of one copy, wherever its agent is connected.
    async fn logs_of_copy(
        &self,
        wanted: CopyLogsRequest,
        copies: u32,
    ) -> Result<BoxStream<'static, LogsResponse>, Error> {
        let (instance, id) = (wanted.instance.clone(), wanted.id.clone());
        let problem = match self.where_is(&wanted.node).await? {
            Whereabouts::Here => return Ok(self.logs_here(wanted, copies)),
            Whereabouts::Nowhere(why) => why,
            Whereabouts::At(server) => match self.elsewhere().logs(&server, wanted).await {
                Ok(output) => {
                    let counted = move |piece| LogsResponse { copies, id: id.clone(), ..piece };
                    return Ok(output.map(counted).boxed());
                }
                Err(problem) => problem,
            },
        };
        let piece = response(&instance, &id, copies, Output::Away(problem));
        Ok(stream::iter([piece]).boxed())
    }

    /// The output of a copy on an agent of this server.
    pub fn logs_here(
        &self,
        wanted: CopyLogsRequest,
        copies: u32,
    ) -> BoxStream<'static, LogsResponse> {
        let CopyLogsRequest { node, id, instance, .. } = wanted;
        let request = LogRequest {
            id: id.clone(),
            follow: wanted.follow,
            tail_lines: wanted.tail_lines,
            times: wanted.times,
            positions: wanted.positions,
            since_seconds: wanted.since_seconds,
            since_time: wanted.since_time,
            after: wanted.after,
            ..LogRequest::default()
        };
        let output = self.logs().open(&node, request);
        output.map(move |output| response(&instance, &id, copies, output)).boxed()
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

fn response(instance: &str, id: &str, copies: u32, output: Output) -> LogsResponse {
    let mut response = LogsResponse {
        instance: instance.to_owned(),
        id: id.to_owned(),
        copies,
        ..LogsResponse::default()
    };
    match output {
        Output::Data(chunk) => {
            (response.data, response.gap) = (chunk.data, chunk.gap);
            (response.times, response.position) = (chunk.times, chunk.position);
        }
        Output::Problem(problem) => response.problem = problem,
        Output::Away(problem) => (response.problem, response.away) = (problem, true),
    }
    response
}

/// What cannot be meant.
fn check(request: &LogsRequest) -> Result<(), String> {
    if let Some(lines) = request.tail_lines.filter(|lines| *lines < 0) {
        return Err(format!("tail_lines must be 0 or more, not {lines}"));
    }
    match (request.since_seconds, &request.since_time) {
        (Some(_), Some(_)) => Err("give since_seconds or since_time, not both".to_owned()),
        (Some(seconds), None) if seconds < 1 => {
            Err(format!("since_seconds must be 1 or more, not {seconds}"))
        }
        (Some(_) | None, _) => Ok(()),
    }
}

/// Whether an agent that does not know what is asked for would answer something else.
fn needs_times(wanted: &CopyLogsRequest) -> bool {
    let since = wanted.since_seconds.is_some() || wanted.since_time.is_some();
    wanted.times || since || !wanted.after.is_empty()
}

/// Whoever knows times says with each piece where it ends. What somebody else sends is not what was asked for.
fn only_timed(output: BoxStream<'static, LogsResponse>) -> BoxStream<'static, LogsResponse> {
    let judged = stream::unfold(Some(output), |output| async move {
        let mut output = output?;
        let piece = output.next().await?;
        if !piece.position.is_empty() || !piece.problem.is_empty() {
            return Some((piece, Some(output)));
        }
        let LogsResponse { instance, id, copies, .. } = piece;
        let problem = NO_TIMES.to_owned();
        Some((LogsResponse { instance, id, copies, problem, ..LogsResponse::default() }, None))
    });
    judged.boxed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost_types::Timestamp;

    #[test]
    fn what_cannot_be_meant_is_refused() {
        let request = |tail_lines, since_seconds, since_time: Option<i64>| LogsRequest {
            tail_lines,
            since_seconds,
            since_time: since_time.map(|seconds| Timestamp { seconds, nanos: 0 }),
            ..LogsRequest::default()
        };
        let cases = [
            (request(None, None, None), ""),
            (request(Some(0), Some(1), None), ""),
            (request(Some(5), None, Some(0)), ""),
            (request(Some(-1), None, None), "tail_lines must be 0 or more, not -1"),
            (request(None, Some(0), None), "since_seconds must be 1 or more, not 0"),
            (request(None, Some(1), Some(1)), "give since_seconds or since_time, not both"),
        ];
        for (request, expect) in cases {
            assert_eq!(check(&request).err().unwrap_or_default(), expect, "{request:?}");
        }
    }

    #[tokio::test]
    async fn what_an_earlier_agent_sends_is_not_what_was_asked_for() {
        let piece = |data: &str, position: &str| LogsResponse {
            instance: "a".into(),
            data: data.into(),
            position: position.into(),
            ..LogsResponse::default()
        };
        let all = async |pieces: Vec<LogsResponse>| -> Vec<LogsResponse> {
            only_timed(stream::iter(pieces).boxed()).collect().await
        };
        let good = vec![piece("", "p-1"), piece("one", "p-2")];
        assert_eq!(all(good.clone()).await, good);
        let told = all(vec![piece("one", ""), piece("two", "")]).await;
        let [problem] = told.as_slice() else { panic!("{told:?}") };
        assert!(problem.data.is_empty() && problem.problem.contains("keeps no times"), "{told:?}");
        let gone = LogsResponse { problem: "gone".into(), ..piece("", "") };
        assert_eq!(all(vec![gone.clone()]).await, [gone]);
    }
}
