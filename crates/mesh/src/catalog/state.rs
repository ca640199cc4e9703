//! What the catalog knows, without any waiting: facts in, changed services out.
use super::ProviderStatus;
use super::merge::merge;
use crate::address::Placed;
use crate::names::ServiceName;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What one provider said last about each service.
struct Known {
    name: String,
    endpoints: BTreeMap<ServiceName, Vec<Placed>>,
    stale: BTreeMap<ServiceName, String>,
}

/// Endpoints by source, and the merged answer. `merged` always equals the merge of the rest.
pub struct State {
    providers: Vec<Known>,
    announced: BTreeMap<ServiceName, BTreeMap<u64, Placed>>,
    merged: BTreeMap<ServiceName, Arc<[Placed]>>,
    next_registration: u64,
}

impl State {
    pub fn new(providers: impl IntoIterator<Item = String>) -> Self {
        let providers = providers.into_iter().map(|name| Known {
            name,
            endpoints: BTreeMap::new(),
            stale: BTreeMap::new(),
        });
        Self {
            providers: providers.collect(),
            announced: BTreeMap::new(),
            merged: BTreeMap::new(),
            next_registration: 0,
        }
    }

    /// Takes the answer of a provider; true if the merged endpoints of the service changed. A
    /// failure changes nothing but the mark.
    pub fn answer(
        &mut self,
        provider: usize,
        service: &ServiceName,
        answer: Result<Vec<Placed>, String>,
    ) -> bool {
        let known = &mut self.providers[provider];
        match answer {
            Ok(endpoints) => {
                known.stale.remove(service);
                match endpoints.is_empty() {
                    true => known.endpoints.remove(service),
                    false => known.endpoints.insert(service.clone(), endpoints),
                };
                self.merge_again(service)
            }
            Err(reason) => {
                known.stale.insert(service.clone(), reason);
                false
            }
        }
    }

    /// A proxy says that it is an endpoint of the service.
    pub fn join(&mut self, service: &ServiceName, at: Placed) -> (u64, bool) {
        let id = self.next_registration;
        self.next_registration += 1;
        self.announced.entry(service.clone()).or_default().insert(id, at);
        (id, self.merge_again(service))
    }

    pub fn leave(&mut self, service: &ServiceName, id: u64) -> bool {
        if let Some(announced) = self.announced.get_mut(service) {
            announced.remove(&id);
            if announced.is_empty() {
                self.announced.remove(service);
            }
        }
        self.merge_again(service)
    }

    /// Of all its ports.
    pub fn endpoints(&self, service: &ServiceName) -> Arc<[Placed]> {
        self.merged.get(service).cloned().unwrap_or_default()
    }

    pub fn providers(&self) -> Vec<ProviderStatus> {
        let status =
            |known: &Known| ProviderStatus { name: known.name.clone(), stale: known.stale.clone() };
        self.providers.iter().map(status).collect()
    }

    fn merge_again(&mut self, service: &ServiceName) -> bool {
        let provided = self.providers.iter().filter_map(|known| known.endpoints.get(service));
        let announced: Vec<Placed> =
            self.announced.get(service).into_iter().flat_map(|all| all.values()).cloned().collect();
        let merged = merge(provided.map(Vec::as_slice).chain([announced.as_slice()]));
        let old = match merged.is_empty() {
            true => self.merged.remove(service),
            false => self.merged.insert(service.clone(), Arc::clone(&merged)),
        };
        old.unwrap_or_default() != merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::Endpoint;
    use std::net::SocketAddr;

    fn name(text: &str) -> ServiceName {
        text.parse().unwrap()
    }

    fn at(port: u16) -> Placed {
        Endpoint::of(SocketAddr::from(([127, 0, 0, 1], port))).unwrap().into()
    }

    fn state() -> State {
        State::new(["fleet".to_owned(), "cloud".to_owned()])
    }

    /// proves: MSH-03
    #[test]
    fn a_failing_provider_keeps_its_last_endpoints_and_is_marked() {
        let (mut state, books) = (state(), name("books"));
        assert!(state.answer(0, &books, Ok(vec![at(1)])));
        assert!(state.answer(1, &books, Ok(vec![at(2)])));
        assert!(!state.answer(1, &books, Err("timeout".to_owned())));
        assert_eq!(*state.endpoints(&books), [at(1), at(2)]);
        assert_eq!(state.providers()[1].stale, BTreeMap::from([(books.clone(), "timeout".into())]));
        assert!(state.providers()[0].stale.is_empty());
        assert!(state.answer(1, &books, Ok(vec![])));
        assert!(state.providers()[1].stale.is_empty());
        assert_eq!(*state.endpoints(&books), [at(1)]);
    }

    /// proves: MSH-03
    #[test]
    fn self_announced_endpoints_come_and_go() {
        let (mut state, books) = (state(), name("books"));
        let (first, changed) = state.join(&books, at(1));
        assert!(changed);
        let (second, changed) = state.join(&books, at(1));
        assert!(!changed, "a second stream of the same Envoy is no second endpoint");
        assert!(!state.leave(&books, first), "the other stream still holds it");
        assert!(state.leave(&books, second));
        assert!(!state.leave(&books, second));
        assert!(state.endpoints(&books).is_empty());
    }

    #[test]
    fn saying_the_same_again_is_no_change() {
        let (mut state, books) = (state(), name("books"));
        assert!(state.answer(0, &books, Ok(vec![at(2), at(1)])));
        assert!(!state.answer(0, &books, Ok(vec![at(1), at(2)])));
        assert!(!state.answer(1, &books, Ok(vec![at(1)])));
    }
}
