//! `orrery get`.
use super::kinds;
use crate::args::{Format, GetArguments, Global};
use crate::connection::Target;
use crate::exit::Interrupted;
use crate::output::print::{self, Printer};
use crate::signals::StopSignals;
use anyhow::bail;
use orrery_client::Commander;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{
    Encoding, GetRequest, KindInfo, ListRequest, Resource, ResourceName, WatchRequest,
};
use serde_json::Value;

/// What to look at.
struct Query {
    server: Commander,
    kind: KindInfo,
    /// Empty means all projects.
    project: String,
    selector: String,
    format: Format,
    managed_fields: bool,
}

pub async fn run(global: &Global, arguments: GetArguments) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let server = target.connect().await?;
    let kind = kinds::find(&server.discover().await?, &arguments.kind)?.clone();
    let everywhere = arguments.all_projects || kind.cluster_scoped;
    if arguments.all_projects && !kind.cluster_scoped && !arguments.names.is_empty() {
        bail!("a name is unique in its project only; say which one with -p, or leave out the name");
    }
    let query = Query {
        server,
        project: if everywhere {
            String::new()
        } else {
            target.project(arguments.project.as_deref())
        },
        selector: arguments.selector.unwrap_or_default(),
        format: arguments.output,
        managed_fields: arguments.show_managed_fields,
        kind,
    };
    let mut printer = Printer::new(query.format, query.kind.clone(), arguments.all_projects);
    match (arguments.watch, arguments.names.as_slice()) {
        (false, []) => query.list(&mut printer).await,
        (false, names) => query.named(names, &mut printer).await,
        (true, []) => query.watch("", &mut printer).await,
        (true, [name]) => query.watch(name, &mut printer).await,
        (true, _) => bail!("watch one resource, or all of a kind"),
    }
}

impl Query {
    /// A resource as it is shown; who set which fields only where that is asked for.
    fn read(&self, resource: Option<&Resource>) -> anyhow::Result<Value> {
        let mut object = print::json(resource)?;
        if let (false, Some(Value::Object(metadata))) =
            (self.managed_fields, object.get_mut("metadata"))
        {
            metadata.remove("managedFields");
        }
        Ok(object)
    }

    async fn named(&self, names: &[String], printer: &mut Printer) -> anyhow::Result<()> {
        let mut found = Vec::new();
        for name in names {
            let request = GetRequest {
                name: Some(ResourceName {
                    api_version: kinds::api_version(&self.kind),
                    kind: self.kind.kind.clone(),
                    project: self.project.clone(),
                    name: name.clone(),
                }),
                encoding: Encoding::Json.into(),
            };
            found.push(self.read(self.server.get(request).await?.resource.as_ref())?);
        }
        printer.many(&found)
    }

    /// Prints page after page as they come, except where the whole is one document.
    async fn list(&self, printer: &mut Printer) -> anyhow::Result<()> {
        let mut token = String::new();
        let mut gathered = Vec::new();
        let mut count = 0;
        loop {
            let page = self.server.list(self.list_request(token)).await?;
            let objects: Vec<Value> =
                page.items.iter().map(|item| self.read(Some(item))).collect::<Result<_, _>>()?;
            count += objects.len();
            match self.format {
                Format::Table | Format::Wide if count == 0 => {}
                Format::Table | Format::Wide | Format::Name => printer.many(&objects)?,
                Format::Yaml | Format::Json => gathered.extend(objects),
            }
            token = page.r#continue;
            if token.is_empty() {
                match self.format {
                    Format::Yaml | Format::Json => {
                        printer.list(gathered, &page.resource_version)?
                    }
                    Format::Table | Format::Wide | Format::Name if count == 0 => self.nothing(),
                    Format::Table | Format::Wide | Format::Name => {}
                }
                return Ok(());
            }
        }
    }

    fn list_request(&self, token: String) -> ListRequest {
        ListRequest {
            api_version: kinds::api_version(&self.kind),
            kind: self.kind.kind.clone(),
            project: self.project.clone(),
            label_selector: self.selector.clone(),
            field_selector: String::new(),
            limit: 0,
            r#continue: token,
            encoding: Encoding::Json.into(),
        }
    }

    fn nothing(&self) {
        let place = match self.project.as_str() {
            "" if self.kind.cluster_scoped => String::new(),
            "" => " in any project".to_owned(),
            project => format!(" in project {project} (-A looks in all)"),
        };
        print::note(&format!("no {}{place}", self.kind.plural));
    }

    async fn watch(&self, name: &str, printer: &mut Printer) -> anyhow::Result<()> {
        let mut signals = StopSignals::listen()?;
        let request = WatchRequest {
            api_version: kinds::api_version(&self.kind),
            kind: self.kind.kind.clone(),
            project: self.project.clone(),
            name: name.to_owned(),
            label_selector: self.selector.clone(),
            field_selector: String::new(),
            resource_version: String::new(),
            encoding: Encoding::Json.into(),
        };
        let mut events = self.server.watch(request).await?;
        printer.going_on();
        let mut initial = Some(Vec::new());
        loop {
            let event = tokio::select! {
                () = signals.next() => return Err(Interrupted.into()),
                event = events.next() => event?,
            };
            let Some(event) = event else { bail!("the server ended the watch") };
            match (event.r#type(), initial.as_mut()) {
                (Type::Added, Some(initial)) => {
                    initial.push(self.read(event.resource.as_ref())?);
                }
                (Type::Bookmark, Some(_)) => printer.many(&initial.take().unwrap_or_default())?,
                (Type::Bookmark | Type::Unspecified, _) => {}
                (Type::Added | Type::Modified | Type::Deleted, _) => {
                    let mut object = self.read(event.resource.as_ref())?;
                    if event.r#type() == Type::Deleted {
                        mark_deleted(&mut object);
                    }
                    printer.one(&object)?;
                }
            }
        }
    }
}

/// The last row of an object says that it is gone, not what it was.
fn mark_deleted(object: &mut Value) {
    if let Some(state) = object.pointer_mut("/status/state") {
        *state = "Deleted".into();
    }
    if let Some(phase) = object.pointer_mut("/status/phase") {
        *phase = "Deleted".into();
    }
}
