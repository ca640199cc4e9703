//! What nodes and copies use, for people who ask.
use crate::fleet::Fleet;
use futures::future::join_all;
use orrery_hub::{Error, ListOptions};
use orrery_proto::apps::v1::WorkloadInstance;
use orrery_proto::fleet::v1::{
    LoadsRequest, LoadsResponse, NodeLoad, TopRequest, TopResponse, TopRow,
};
use orrery_proto::infra::v1::Node;
use std::collections::{BTreeMap, BTreeSet, HashMap};

impl Fleet {
    /// What the agents of this server use.
    pub async fn loads_here(&self, request: LoadsRequest) -> LoadsResponse {
        let nodes = if request.nodes.is_empty() { self.senders().names() } else { request.nodes };
        LoadsResponse { nodes: self.loads().of(nodes).await }
    }

    /// What nodes, or copies, use at the moment.
    pub async fn top(&self, request: TopRequest) -> Result<TopResponse, Error> {
        let nodes = self.node_resources().list(ListOptions::default()).await?;
        if request.nodes {
            let names = nodes.iter().map(|node| name(node).to_owned()).collect();
            let loads = self.loads_everywhere(&nodes, names).await;
            return Ok(TopResponse { rows: node_rows(&nodes, &loads) });
        }
        let project = Some(request.project).filter(|project| !project.is_empty());
        let (_, instances) = self.named_kinds();
        let copies = instances.list(ListOptions { project, ..<_>::default() }).await?;
        let wanted = copies.iter().filter_map(|copy| copy.spec.as_ref()?.node.clone()).collect();
        let loads = self.loads_everywhere(&nodes, wanted).await;
        Ok(TopResponse { rows: copy_rows(&copies, &loads) })
    }

    /// Asks each server once, all at the same time.
    async fn loads_everywhere(
        &self,
        nodes: &[Node],
        wanted: BTreeSet<String>,
    ) -> HashMap<String, NodeLoad> {
        let by_server = by_server(nodes, wanted, |node| self.senders().session(node).is_some());
        let answers = by_server.into_iter().map(|(server, nodes)| async move {
            let request = LoadsRequest { nodes: nodes.clone() };
            if server.is_empty() {
                return self.loads_here(request).await.nodes;
            }
            match self.elsewhere().loads(&server, request).await {
                Ok(answer) => answer.nodes,
                Err(problem) => {
                    let unknown = |node| NodeLoad { node, load: None, problem: problem.clone() };
                    nodes.into_iter().map(unknown).collect()
                }
            }
        });
        let answers = join_all(answers).await;
        answers.into_iter().flatten().map(|load| (load.node.clone(), load)).collect()
    }
}

/// The nodes by the address of their server; empty for this one, which also answers for nodes that
/// are connected nowhere.
fn by_server(
    nodes: &[Node],
    wanted: BTreeSet<String>,
    here: impl Fn(&str) -> bool,
) -> BTreeMap<String, Vec<String>> {
    let status = |node: &Node| node.status.clone().filter(|status| status.state == "Ready");
    let addresses: HashMap<&str, String> =
        nodes.iter().filter_map(|node| Some((name(node), status(node)?.server_address))).collect();
    let mut sorted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for node in wanted {
        let there = addresses.get(node.as_str()).filter(|_| !here(&node)).cloned();
        sorted.entry(there.unwrap_or_default()).or_default().push(node);
    }
    sorted
}

fn name(node: &Node) -> &str {
    node.metadata.as_ref().map_or("", |meta| meta.name.as_str())
}

fn node_rows(nodes: &[Node], loads: &HashMap<String, NodeLoad>) -> Vec<TopRow> {
    let row = |node: &Node| {
        let answer = loads.get(name(node)).cloned().unwrap_or_default();
        TopRow {
            name: name(node).to_owned(),
            node: name(node).to_owned(),
            usage: answer.load.and_then(|load| load.node),
            allocatable: node.status.as_ref().and_then(|status| status.allocatable),
            problem: answer.problem,
            ..TopRow::default()
        }
    };
    nodes.iter().map(row).collect()
}

fn copy_rows(copies: &[WorkloadInstance], loads: &HashMap<String, NodeLoad>) -> Vec<TopRow> {
    let row = |copy: &WorkloadInstance| {
        let metadata = copy.metadata.clone().unwrap_or_default();
        let spec = copy.spec.clone().unwrap_or_default();
        let answer = loads.get(spec.node()).cloned().unwrap_or_default();
        let usage = answer.load.and_then(|load| load.instances.get(&metadata.uid).copied());
        TopRow {
            project: metadata.project,
            workload: spec.workload().to_owned(),
            name: metadata.name,
            node: spec.node().to_owned(),
            usage,
            problem: answer.problem,
            ..TopRow::default()
        }
    };
    copies.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::infra::v1::NodeStatus;
    use orrery_proto::meta::v1::ObjectMeta;

    #[test]
    fn each_server_is_asked_about_its_own() {
        let node = |name: &str, state: &str, address: &str| Node {
            metadata: Some(ObjectMeta { name: name.into(), ..ObjectMeta::default() }),
            status: Some(NodeStatus {
                state: state.into(),
                server_address: address.into(),
                ..NodeStatus::default()
            }),
            ..Node::default()
        };
        let nodes = [node("a", "Ready", "x"), node("b", "Ready", "y"), node("c", "Gone", "y")];
        let wanted = ["a", "b", "c", "d"].map(str::to_owned).into();
        let sorted = by_server(&nodes, wanted, |node| node == "a");
        assert_eq!(sorted[""], ["a", "c", "d"]);
        assert_eq!(sorted["y"], ["b"]);
        assert_eq!(sorted.len(), 2);
    }
}
