//! Traffic splits and the requests that they are about.
use super::{Declarations, Reading, Subject, service_name};
use crate::topology::{Backend, TrafficSplit};
use orrery_hub::ObjectName;
use orrery_proto::smi::split::v1alpha4::TrafficSplitSpec;

impl Declarations {
    pub(super) fn read_splits(&self, reading: &mut Reading) {
        for (name, declared) in &self.splits {
            let Some(spec) = &declared.spec else { continue };
            match self.split(name, spec) {
                Ok(split) => {
                    let root = ObjectName::new(&name.project, split.root.name());
                    if !self.services.contains_key(&root) {
                        let text = format!("there is no service {:?} (yet)", root.name);
                        reading.note(Subject::Split(name.clone()), text);
                    }
                    reading.splits.push(split);
                }
                Err(why) => reading.note(Subject::Split(name.clone()), why),
            }
        }
    }

    /// A split whose routes are not known has no effect at all: without them it would divide
    /// everything.
    fn split(&self, name: &ObjectName, spec: &TrafficSplitSpec) -> Result<TrafficSplit, String> {
        let project = &name.project;
        let backend = |backend: &orrery_proto::smi::split::v1alpha4::TrafficSplitBackend| {
            Ok(Backend {
                service: service_name(project, backend.service())?,
                weight: u32::try_from(backend.weight()).unwrap_or_default(),
            })
        };
        let mut matches = Vec::new();
        for reference in &spec.matches {
            let group = ObjectName::new(project, reference.name());
            let found = self.matches(&group, &[]);
            matches.extend(found.map_err(|why| format!("{why}; the split has no effect"))?);
        }
        if matches.is_empty() && !spec.matches.is_empty() {
            return Err("its groups of routes match nothing; the split has no effect".to_owned());
        }
        Ok(TrafficSplit {
            name: name.name.clone(),
            root: service_name(project, spec.service())?,
            backends: spec.backends.iter().map(backend).collect::<Result<_, String>>()?,
            matches,
        })
    }
}
