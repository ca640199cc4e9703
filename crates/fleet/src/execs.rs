//! What people ask for when they run a command beside a copy.
use crate::agents::execs::{Words, failed};
use crate::fleet::Fleet;
use crate::where_is::Whereabouts;
use futures::stream::BoxStream;
use orrery_hub::{Error, ObjectName};
use orrery_proto::apps::v1::WorkloadInstance;
use orrery_proto::fleet::v1::{ExecClient, ExecEvent, ExecRequest};

impl Fleet {
    /// Begins a command beside the copy that is meant.
    pub async fn exec(
        &self,
        request: ExecRequest,
        words: Words,
    ) -> Result<BoxStream<'static, ExecEvent>, Error> {
        let name = ObjectName::new(&request.project, &request.name);
        let copies = self.named(&name).await?;
        let copy = choose(&name, &request.instance, copies).map_err(Error::BadRequest)?;
        let metadata = copy.metadata.unwrap_or_default();
        let node = copy.spec.as_ref().map(|spec| spec.node().to_owned()).unwrap_or_default();
        let start = request.start.unwrap_or_default();
        match self.where_is(&node).await? {
            Whereabouts::Here => Ok(self.execs().open(&node, &metadata.uid, start, words)),
            Whereabouts::Nowhere(why) => Ok(failed(why)),
            Whereabouts::At(server) => {
                let first = ExecClient { node, id: metadata.uid, start: Some(start), input: None };
                match self.elsewhere().exec(&server, first, words).await {
                    Ok(events) => Ok(events),
                    Err(problem) => Ok(failed(problem)),
                }
            }
        }
    }
}

/// One copy: the one of that name, the only one, or the first that runs.
fn choose(
    name: &ObjectName,
    instance: &str,
    copies: Vec<WorkloadInstance>,
) -> Result<WorkloadInstance, String> {
    if !instance.is_empty() {
        return called(name, instance, copies);
    }
    let runs = |copy: &WorkloadInstance| {
        copy.status.as_ref().is_some_and(|status| status.state == "Running")
    };
    let at = copies.iter().position(runs).unwrap_or(0);
    copies.into_iter().nth(at).ok_or_else(|| format!("{name} has no copies"))
}

/// The copy of that name.
pub(crate) fn called(
    name: &ObjectName,
    instance: &str,
    copies: Vec<WorkloadInstance>,
) -> Result<WorkloadInstance, String> {
    let is = |copy: &WorkloadInstance| {
        copy.metadata.as_ref().is_some_and(|metadata| metadata.name == instance)
    };
    copies.into_iter().find(is).ok_or_else(|| format!("{name} has no copy {instance:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::apps::v1::WorkloadInstanceStatus;
    use orrery_proto::meta::v1::ObjectMeta;

    fn copy(name: &str, state: &str) -> WorkloadInstance {
        let status = WorkloadInstanceStatus { state: state.into(), ..<_>::default() };
        WorkloadInstance {
            metadata: Some(ObjectMeta { name: name.into(), ..ObjectMeta::default() }),
            status: Some(status),
            ..WorkloadInstance::default()
        }
    }

    #[track_caller]
    fn check(instance: &str, expect: Result<&str, &str>) {
        let copies = vec![copy("a", "Pending"), copy("b", "Running"), copy("c", "Running")];
        let chosen = choose(&ObjectName::new("p", "web"), instance, copies);
        let chosen = chosen.map(|copy| copy.metadata.unwrap_or_default().name);
        assert_eq!(chosen, expect.map(str::to_owned).map_err(str::to_owned));
    }

    #[test]
    fn the_copy_that_is_meant_is_found() {
        check("", Ok("b"));
        check("c", Ok("c"));
        check("x", Err("p/web has no copy \"x\""));
    }
}
