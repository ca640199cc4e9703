//! What a request selects, for lists, watches and deletions alike.
use super::faces;
use super::failure::Failure;
use super::query::Query;
use super::resource::{Face, Resource};
use orrery_api::{FieldSelector, LabelSelector, SelectorError};

/// Which objects are meant.
#[derive(Debug, Default)]
pub struct Selection {
    pub labels: LabelSelector,
    pub fields: FieldSelector,
    /// `None` means all projects.
    pub project: Option<String>,
    /// Projects that are left out.
    without: Vec<String>,
    /// The selectors contradict the path: nothing fits.
    nothing: bool,
}

impl Selection {
    /// The selectors of a query, within the project of the path. A field selector on the namespace
    /// is part of the place to look in: the store knows projects by id, so it is settled here.
    pub fn of(
        resource: &Resource,
        query: &Query,
        project: Option<String>,
    ) -> Result<Self, Failure> {
        let refused = |error: SelectorError| Failure::bad_request(error.to_string());
        let text = match resource.face {
            Face::Own | Face::Namespace => query.fields.clone(),
            Face::CoreEvent | Face::GroupEvent => faces::events::own_event_selector(&query.fields),
        };
        let mut selection = Self {
            labels: LabelSelector::parse(&query.labels).map_err(refused)?,
            project,
            ..Self::default()
        };
        let mut rest = Vec::new();
        for part in text.split(',') {
            match namespace_requirement(part).filter(|_| resource.namespaced()) {
                Some((true, wanted)) => selection.narrow(wanted),
                Some((false, unwanted)) => selection.without.push(unwanted.to_owned()),
                None => rest.push(part),
            }
        }
        let fields = FieldSelector::parse(&rest.join(","), &resource.kind);
        selection.fields = fields.map_err(refused)?;
        Ok(selection)
    }

    fn narrow(&mut self, wanted: &str) {
        match &self.project {
            Some(project) => self.nothing |= project != wanted,
            None => self.project = Some(wanted.to_owned()),
        }
    }

    /// Whether everything fits that the accessor finds.
    pub fn fits_all(&self) -> bool {
        !self.nothing && self.without.is_empty()
    }

    /// What the accessor cannot see.
    pub fn fits_project(&self, project: &str) -> bool {
        !self.nothing && !self.without.iter().any(|without| without == project)
    }
}

/// Whether a requirement is about the namespace: equal or not, and to what.
fn namespace_requirement(part: &str) -> Option<(bool, &str)> {
    let (key, equal, value) = match part.split_once("!=") {
        Some((key, value)) => (key, false, value),
        None => {
            let (key, value) = part.split_once('=')?;
            (key, true, value.strip_prefix('=').unwrap_or(value))
        }
    };
    let about = matches!(key.trim(), "metadata.namespace" | "metadata.project");
    about.then_some((equal, value.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_on_the_namespace_are_found() {
        let cases = [
            ("metadata.namespace=a", Some((true, "a"))),
            (" metadata.project == a", Some((true, "a"))),
            ("metadata.namespace!=a", Some((false, "a"))),
            ("metadata.name=metadata.namespace", None),
            ("metadata.name!=x", None),
            ("nonsense", None),
            ("", None),
        ];
        for (part, expect) in cases {
            assert_eq!(namespace_requirement(part), expect, "{part}");
        }
    }
}
