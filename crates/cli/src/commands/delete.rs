//! `orrery delete`.
use super::kinds;
use crate::args::{Cascade, DeleteArguments, Global};
use crate::connection::Target;
use crate::exit::Interrupted;
use crate::manifests;
use crate::output::{print, style};
use crate::signals::StopSignals;
use anyhow::bail;
use orrery_client::{Commander, Error};
use orrery_proto::hub::v1::delete_request::Propagation;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{
    DeleteRequest, DiscoverResponse, Encoding, KindInfo, ResourceName, WatchRequest,
};
use serde_json::Value;

pub async fn run(global: &Global, arguments: DeleteArguments) -> anyhow::Result<()> {
    let manifests = match arguments.files.as_slice() {
        [] => Vec::new(),
        files => manifests::read(files, arguments.project.as_deref())?,
    };
    let target = Target::find(global, &arguments.connection)?;
    let server = target.connect().await?;
    let known = server.discover().await?;
    let mut doomed = Vec::new();
    if let Some(kind) = &arguments.kind {
        let kind = kinds::find(&known, kind)?;
        let project = target.project(arguments.project.as_deref());
        doomed.extend(arguments.names.iter().map(|name| Doomed::new(kind, &project, name)));
    }
    // What was applied last goes first: what depends on others stands behind them.
    for manifest in manifests.iter().rev() {
        doomed.push(Doomed::from_manifest(&known, &manifest.value)?);
    }
    for one in &doomed {
        one.delete(&server, &arguments).await?;
    }
    Ok(())
}

/// What is to go.
struct Doomed {
    kind: KindInfo,
    name: ResourceName,
}

impl Doomed {
    fn new(kind: &KindInfo, project: &str, name: &str) -> Self {
        let name = ResourceName {
            api_version: kinds::api_version(kind),
            kind: kind.kind.clone(),
            project: if kind.cluster_scoped { String::new() } else { project.to_owned() },
            name: name.to_owned(),
        };
        Self { kind: kind.clone(), name }
    }

    fn from_manifest(known: &DiscoverResponse, value: &Value) -> anyhow::Result<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &value["metadata"];
        let kind = kinds::find(known, &text(&value["kind"]))?;
        let project = [&metadata["project"], &metadata["namespace"]].map(text).concat();
        Ok(Self::new(kind, &project, &text(&metadata["name"])))
    }

    fn title(&self) -> String {
        format!("{}/{}", self.kind.singular, self.name.name)
    }

    async fn delete(&self, server: &Commander, arguments: &DeleteArguments) -> anyhow::Result<()> {
        let request = DeleteRequest {
            name: Some(self.name.clone()),
            encoding: Encoding::Json.into(),
            propagation: propagation(arguments.cascade).into(),
            ..DeleteRequest::default()
        };
        let response = match server.delete(request).await {
            Err(Error::Api(error)) if error.reason == "NotFound" && arguments.ignore_not_found => {
                return Ok(());
            }
            response => response?,
        };
        let style = style::stdout();
        if response.gone {
            return print::line(&format!("{} {}", self.title(), style.good("deleted")));
        }
        if arguments.no_wait {
            return print::line(&format!("{} {}", self.title(), style.busy("is being deleted")));
        }
        let object = print::json(response.resource.as_ref())?;
        self.wait(server, object["metadata"]["uid"].as_str().unwrap_or_default()).await?;
        print::line(&format!("{} {}", self.title(), style.good("deleted")))
    }

    /// Until this very object is gone; another one of the same name is another one.
    async fn wait(&self, server: &Commander, uid: &str) -> anyhow::Result<()> {
        let mut signals = StopSignals::listen()?;
        let request = WatchRequest {
            api_version: self.name.api_version.clone(),
            kind: self.name.kind.clone(),
            project: self.name.project.clone(),
            name: self.name.name.clone(),
            encoding: Encoding::Json.into(),
            ..WatchRequest::default()
        };
        let mut events = match server.watch(request).await {
            // Its project is gone, and so is it.
            Err(Error::Api(error)) if error.reason == "NotFound" => return Ok(()),
            events => events?,
        };
        let mut present = false;
        loop {
            let event = tokio::select! {
                () = signals.next() => return Err(Interrupted.into()),
                event = events.next() => event,
            };
            let event = match event {
                Err(Error::Api(error)) if error.reason == "NotFound" => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(Some(event)) => event,
                Ok(None) => bail!("the server ended the watch before {} was gone", self.title()),
            };
            let object = event.resource.as_ref().map(|r| print::json(Some(r))).transpose()?;
            let same = object.as_ref().is_some_and(|o| o["metadata"]["uid"] == uid);
            match event.r#type() {
                Type::Deleted if same => return Ok(()),
                Type::Added if same => present = true,
                Type::Bookmark if !present => return Ok(()),
                Type::Added | Type::Modified | Type::Deleted if !same => return Ok(()),
                Type::Added
                | Type::Modified
                | Type::Deleted
                | Type::Bookmark
                | Type::Unspecified => {}
            }
        }
    }
}

fn propagation(cascade: Option<Cascade>) -> Propagation {
    match cascade {
        None => Propagation::Unspecified,
        Some(Cascade::Background) => Propagation::Background,
        Some(Cascade::Foreground) => Propagation::Foreground,
        Some(Cascade::Orphan) => Propagation::Orphan,
    }
}
