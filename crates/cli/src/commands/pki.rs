//! `orrery pki`: certificates by hand.
use crate::args::{Global, PkiArguments, PkiCommand, PkiInit, PkiIssue, PkiRotate};
use crate::connection::Target;
use crate::output::table::plain_lines;
use crate::output::{print, style};
use anyhow::{Context as _, bail};
use orrery_client::identity;
use orrery_pki::{
    Authority, Described, IssueRequest, Role, Validity, describe_pem_file, read_pem_file,
};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub async fn run(global: &Global, arguments: PkiArguments) -> anyhow::Result<()> {
    match arguments.command {
        PkiCommand::Init(arguments) => init(&arguments),
        PkiCommand::Issue(arguments) => issue(arguments),
        PkiCommand::Show { files } => show(&files),
        PkiCommand::Rotate(arguments) => rotate(global, arguments).await,
    }
}

fn init(arguments: &PkiInit) -> anyhow::Result<()> {
    let validity = Validity::starting(now(), arguments.lifetime);
    let authority = Authority::generate(&arguments.trust_domain, validity)?;
    authority.write_to(&arguments.dir)?;
    let dir = arguments.dir.display();
    print::line(&format!(
        "authority of {} made: {dir}/ca.pem, {dir}/ca-key.pem",
        arguments.trust_domain
    ))?;
    print::note("keep ca-key.pem safe: whoever has it can be anybody");
    Ok(())
}

fn issue(arguments: PkiIssue) -> anyhow::Result<()> {
    if arguments.group.is_some() && arguments.role != Role::User {
        bail!("only people are in groups: --group goes with --role user");
    }
    let dir = &arguments.dir;
    let certificate = read_pem_file(&dir.join("ca.pem")).context("read the authority")?;
    let key = read_pem_file(&dir.join("ca-key.pem")).context("read the authority's key")?;
    let authority = Authority::from_pem(&certificate, &key, None)?;
    let request = IssueRequest {
        role: arguments.role,
        name: arguments.name,
        dns_names: arguments.dns_names,
        ip_addresses: arguments.addresses,
        group: arguments.group,
    };
    let issued = authority.issue(&request, Validity::starting(now(), arguments.lifetime))?;
    let files = issued.write_to(arguments.out.as_deref().unwrap_or(dir))?;
    let shown = |file: &Option<PathBuf>| {
        file.as_deref().map(|file| file.display().to_string()).unwrap_or_default()
    };
    let (root, certificate, key) =
        (shown(&files.root), shown(&files.certificate), shown(&files.key));
    print::line(&format!("--root {root} --certificate {certificate} --key {key}"))
}

fn show(files: &[PathBuf]) -> anyhow::Result<()> {
    let header = ["FILE", "HOLDS", "IDENTITY", "NAMES", "FROM", "UNTIL", "FINGERPRINT"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for file in files {
        for found in describe_pem_file(file)? {
            rows.push(row(file, &found));
        }
    }
    print::lines(&plain_lines(&rows, style::stdout()))
}

fn row(file: &Path, found: &Described) -> Vec<String> {
    let file = file.display().to_string();
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    match found {
        Described::Key { kind, key } => {
            let holds = format!("key ({kind})");
            let none = || "-".to_owned();
            vec![file, holds, none(), none(), none(), none(), key.to_string()]
        }
        Described::Certificate { authority, identity } => {
            let holds = if *authority { "authority" } else { "certificate" };
            let id = identity.spiffe.as_ref().map(ToString::to_string);
            let id = id.or_else(|| identity.common_name.clone()).unwrap_or_default();
            let names = identity.dns_names.iter().chain(identity.groups.iter());
            let names: Vec<&str> = names.map(String::as_str).collect();
            vec![
                file,
                holds.to_owned(),
                or_none(id),
                or_none(names.join(",")),
                day(identity.not_before),
                day(identity.not_after),
                identity.fingerprint.to_string(),
            ]
        }
    }
}

fn day(time: SystemTime) -> String {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(|_| "-".to_owned(), |time| time.to_string())
}

async fn rotate(global: &Global, arguments: PkiRotate) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let roots = identity::rotate(&target.endpoint()?, arguments.finish, arguments.force).await?;
    // The context must know the new authority before the old one goes.
    if let Some(root) = &target.context().root {
        orrery_pki::TlsFiles { root: Some(root.clone()), ..<_>::default() }
            .write_root(&roots)
            .with_context(|| format!("write {}", root.display()))?;
    }
    let count = roots.matches("BEGIN CERTIFICATE").count();
    let word = if count == 1 { "authority is" } else { "authorities are" };
    print::line(&format!("{count} {word} trusted now"))?;
    if !arguments.finish {
        print::note(
            "machines renew their certificates within minutes; then run: orrery pki rotate --finish",
        );
        print::note(
            "certificates of people and those made by hand: issue them anew before that; the server has",
        );
        print::note("renewed the administrator's, in pki/admin of its data folder");
    }
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "certificates are judged by the time of day")]
fn now() -> SystemTime {
    SystemTime::now()
}
