//! `orrery get`.
use super::{get_nodes, get_versions, get_watch};
use crate::args::{Format, GetArguments, Global};
use crate::output::jsonpath::Path;
use crate::output::listing::{Listing, Shape};
use crate::output::print;
use crate::output::table::Look;
use crate::session::{Scope, Session};
use crate::sorting;
use crate::targets::{self, Resource, Words};
use anyhow::bail;
use orrery_proto::hub::v1::KindInfo;
use serde_json::Value;

/// What to look at, and how to show it.
pub struct Query {
    pub session: Session,
    pub scope: Scope,
    pub format: Format,
    pub look: Look,
    pub headers: bool,
    sort_by: Option<Path>,
    /// The version that is meant; empty means what is there.
    version: String,
}

pub async fn run(global: &Global, arguments: GetArguments) -> anyhow::Result<()> {
    let mut session = Session::open(global, &arguments.connection).await?;
    session.managed_fields = arguments.show_managed_fields;
    session.lineage = arguments.include_lineage;
    let words = targets::read(&session.known, &arguments.words)?;
    let several = match &words {
        Words::Kinds(kinds) => 1 < kinds.len(),
        Words::Named(pairs) => pairs.iter().any(|(kind, _)| *kind != pairs[0].0),
    };
    let project = session.project(arguments.project.as_deref(), arguments.all_projects);
    let query = Query {
        scope: Scope {
            project,
            labels: arguments.selector.unwrap_or_default(),
            fields: arguments.field_selector.unwrap_or_default(),
        },
        look: Look {
            with_project: arguments.all_projects,
            show_labels: arguments.show_labels,
            with_kind: several,
            wide: matches!(arguments.output, Format::Wide),
        },
        format: arguments.output,
        headers: !arguments.no_headers,
        sort_by: arguments.sort_by,
        version: arguments.version.unwrap_or_default(),
        session,
    };
    if arguments.versions || !query.version.is_empty() {
        let Words::Named(pairs) = &words else {
            bail!("versions are those of one resource: name it")
        };
        let [(kind, name)] = pairs.as_slice() else {
            bail!("versions are those of one resource: name only one")
        };
        if arguments.versions {
            return get_versions::run(&query, kind, name).await;
        }
    }
    match (arguments.watch, words) {
        (false, Words::Kinds(kinds)) => query.kinds(&kinds).await,
        (false, Words::Named(pairs)) => query.named(&pairs).await,
        (true, Words::Kinds(kinds)) => get_watch::run(&query, &kinds, "").await,
        (true, Words::Named(pairs)) => match pairs.as_slice() {
            [(kind, name)] => {
                query.resource(kind, name)?;
                get_watch::run(&query, std::slice::from_ref(kind), name).await
            }
            _ => bail!("watch one resource, or all of a kind"),
        },
    }
}

impl Query {
    fn listing(&self, shape: Shape) -> Listing {
        Listing::new(self.format.clone(), self.look, self.headers, shape)
    }

    pub fn resource(&self, kind: &KindInfo, name: &str) -> anyhow::Result<Resource> {
        if !kind.cluster_scoped && self.scope.project.is_empty() {
            bail!(
                "a name is unique in its project only; say which one with -p, or leave out the name"
            );
        }
        if !self.scope.labels.is_empty() || !self.scope.fields.is_empty() {
            bail!("name resources, or select them, not both");
        }
        Ok(Resource::new(kind, &self.scope.project, name))
    }

    /// Those that are there are printed, also when others are not.
    async fn named(&self, pairs: &[(KindInfo, String)]) -> anyhow::Result<()> {
        let shape = if pairs.len() == 1 { Shape::Single } else { Shape::List };
        let mut listing = self.listing(shape);
        let mut missing = Vec::new();
        let mut found = Vec::new();
        for (kind, name) in pairs {
            let resource = self.resource(kind, name)?;
            match self.session.get_version(&resource.name, &self.version).await {
                Ok(object) => found.push((kind, object)),
                Err(error) if crate::session::reason(&error) == Some("NotFound") => {
                    missing.push(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(path) = &self.sort_by {
            found.sort_by(|(_, a), (_, b)| sorting::compare(path, a, b));
            check_order(path, found.iter().map(|(_, object)| object));
        }
        for (kind, object) in found {
            listing.page(kind, vec![object])?;
        }
        if missing.len() < pairs.len() {
            listing.finish()?;
        }
        if missing.len() < 2 {
            return missing.into_iter().next().map_or(Ok(()), Err);
        }
        let lines: Vec<String> = missing.iter().map(ToString::to_string).collect();
        bail!("{}", lines.join("\n"))
    }

    /// Page after page as they come, unless they must be sorted first.
    async fn kinds(&self, kinds: &[KindInfo]) -> anyhow::Result<()> {
        if let ([kind], None) = (kinds, &self.sort_by)
            && get_nodes::are_meant(kind)
            && self.listing(Shape::List).is_table()
        {
            return self.nodes(kind).await;
        }
        let mut listing = self.listing(Shape::List);
        for kind in kinds {
            let mut page = self.session.page(kind, &self.scope, String::new()).await?;
            if let [_] = kinds {
                listing.of_kind(kind, &page.resource_version);
            }
            if let Some(path) = &self.sort_by {
                let mut all = std::mem::take(&mut page.objects);
                while !page.next.is_empty() {
                    page = self.session.page(kind, &self.scope, page.next).await?;
                    all.append(&mut page.objects);
                }
                all.sort_by(|a, b| sorting::compare(path, a, b));
                check_order(path, all.iter());
                listing.page(kind, all)?;
                continue;
            }
            if !page.next.is_empty() {
                listing.going_on();
            }
            listing.page(kind, page.objects)?;
            while !page.next.is_empty() {
                page = self.session.page(kind, &self.scope, page.next).await?;
                listing.page(kind, page.objects)?;
            }
        }
        listing.finish()?;
        if listing.count() == 0 && listing.is_table() {
            print::note(&self.nothing(kinds));
        }
        Ok(())
    }

    /// Nodes, with what is used of them.
    async fn nodes(&self, kind: &KindInfo) -> anyhow::Result<()> {
        let first = self.session.page(kind, &self.scope, String::new());
        let (page, loads) = tokio::join!(first, get_nodes::Loads::ask(&self.session));
        let (mut page, shown) = (page?, get_nodes::shown(kind));
        let mut listing = self.listing(Shape::List);
        if !page.next.is_empty() {
            listing.going_on();
        }
        loop {
            let objects = page.objects.into_iter().map(|node| loads.add_to(node));
            listing.page(&shown, objects.collect())?;
            if page.next.is_empty() {
                break;
            }
            page = self.session.page(kind, &self.scope, page.next).await?;
        }
        listing.finish()?;
        if listing.count() == 0 {
            print::note(&self.nothing(std::slice::from_ref(kind)));
        }
        Ok(())
    }

    /// What to say when there is nothing.
    pub fn nothing(&self, kinds: &[KindInfo]) -> String {
        let plurals: Vec<&str> = kinds.iter().map(|kind| kind.plural.as_str()).collect();
        let place = match self.scope.project.as_str() {
            _ if kinds.iter().all(|kind| kind.cluster_scoped) => String::new(),
            "" => " in any project".to_owned(),
            project => format!(" in project {project} (-A looks in all)"),
        };
        format!("no {}{place}", plurals.join(", "))
    }
}

/// Somebody who mistyped a path would take any order for the one that was asked for.
fn check_order<'a>(path: &Path, mut all: impl Iterator<Item = &'a Value>) {
    let first = all.next();
    if first.is_some() && !sorting::any_has(path, first.into_iter().chain(all)) {
        print::note(&format!("none of these has {path}, so they are not sorted by it"));
    }
}
