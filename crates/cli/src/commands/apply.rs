//! `orrery apply`.
use crate::args::{ApplyArguments, Global};
use crate::connection::Target;
use crate::manifests;
use crate::output::{print, style};
use anyhow::Context as _;
use orrery_api::Manifest;
use orrery_client::{Commander, Error};
use orrery_proto::hub::v1::apply_request::Mode;
use orrery_proto::hub::v1::apply_response::Outcome;
use orrery_proto::hub::v1::{ApplyRequest, Encoding, Resource, resource::Body};

/// Who declares what stands in files.
const FIELD_MANAGER: &str = "orrery";

pub async fn run(global: &Global, arguments: ApplyArguments) -> anyhow::Result<()> {
    let manifests = manifests::read(&arguments.files, arguments.project.as_deref())?;
    let server = Target::find(global, &arguments.connection)?.connect().await?;
    manifests::check(&manifests, &server.discover().await?)?;
    for manifest in &manifests {
        apply(&server, manifest, &arguments).await?;
    }
    Ok(())
}

async fn apply(
    server: &Commander,
    manifest: &Manifest,
    arguments: &ApplyArguments,
) -> anyhow::Result<()> {
    let dry_run = arguments.dry_run;
    let title = manifests::title(manifest);
    let resource =
        Resource { body: Some(Body::Json(manifest.value.to_string())), ..Resource::default() };
    let request = ApplyRequest {
        resource: Some(resource),
        encoding: Encoding::Json.into(),
        field_manager: FIELD_MANAGER.to_owned(),
        force: arguments.force_conflicts,
        dry_run,
        subresource: String::new(),
        mode: Mode::Apply.into(),
    };
    let response = match server.apply(request).await {
        Ok(response) => response,
        Err(Error::Api(error)) if error.reason == "Conflict" && !error.violations.is_empty() => {
            let advice = "change the file, or take these fields with --force-conflicts";
            let message = error.message;
            return Err(anyhow::anyhow!("{title} was not applied: {message}\n{advice}"));
        }
        Err(Error::Api(error)) if !error.violations.is_empty() => {
            let located = manifests::located(manifest, &error.violations);
            return Err(anyhow::anyhow!("{title} was not applied:\n{located}"));
        }
        Err(error @ Error::Api(_)) => {
            return Err(error).with_context(|| format!("{}: apply {title}", manifest.at("")));
        }
        Err(error) => return Err(error.into()),
    };
    let style = style::stdout();
    let word = match response.outcome() {
        Outcome::Created => style.good("created"),
        Outcome::Changed => style.busy("changed"),
        Outcome::Unchanged => style.faint("unchanged"),
    };
    let note = if dry_run { " (dry run)" } else { "" };
    print::line(&format!("{title} {word}{note}"))
}
