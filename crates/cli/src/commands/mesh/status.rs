//! `orrery mesh status`: services with their endpoints and proxies, and what has no effect.
use super::{all, items, looked, named, number, text};
use crate::args::{Global, MeshList};
use crate::output::table::plain_lines;
use crate::output::{print, style};
use crate::session::Session;
use serde_json::Value;

const HEADER: [&str; 6] = ["SERVICE", "STATE", "ENDPOINTS", "PROXIES", "CURRENT", "CONVERGENCE"];
/// The kinds that say what of them has no effect, and the condition that they say it in.
const DECLARATIONS: [(&str, &str); 4] = [
    ("meshservices", "Ready"),
    ("trafficsplits", "Accepted"),
    ("traffictargets", "Accepted"),
    ("udproutes", "Accepted"),
];

pub async fn run(global: &Global, arguments: &MeshList) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let proxies = all(&session, arguments, "proxies").await?;
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    let (mut problems, mut stale) = (Vec::new(), Vec::new());
    for (kind, condition) in DECLARATIONS {
        let declared = all(&session, arguments, kind).await?;
        if kind == "meshservices" {
            rows.extend(declared.iter().map(|service| row(service, &proxies)));
            stale.extend(declared.iter().filter_map(|one| problem(one, "EndpointsCurrent")));
        }
        problems.extend(declared.iter().filter_map(|one| problem(one, condition)));
    }
    if rows.len() == 1 {
        print::note(&format!("no MeshService is declared {}", looked(&session, arguments)));
    } else {
        print::lines(&plain_lines(&rows, style::stdout()))?;
    }
    for (title, lines) in [("Not in effect", problems), ("Endpoints may be old", stale)] {
        if !lines.is_empty() {
            print::line(&format!("\n{title}:"))?;
            print::lines(&lines)?;
        }
    }
    Ok(())
}

fn row(service: &Value, proxies: &[Value]) -> Vec<String> {
    let (name, project) = (text(service, "/metadata/name"), text(service, "/metadata/project"));
    let own: Vec<&Value> = proxies
        .iter()
        .filter(|one| {
            text(one, "/spec/service") == name && text(one, "/metadata/project") == project
        })
        .collect();
    let current = own.iter().filter(|one| text(one, "/status/state") == "Current").count();
    let configs = own.iter().flat_map(|one| items(one, "/status/configs"));
    let slowest = configs.filter_map(|config| config["convergenceMs"].as_i64()).max();
    let (state, endpoints) = match text(service, "/status/state") {
        // Nobody has looked at it yet.
        "" => ("-", "-".to_owned()),
        state => (state, number(service, "/status/endpoints").to_string()),
    };
    vec![
        named(service, name),
        state.to_owned(),
        endpoints,
        own.len().to_string(),
        current.to_string(),
        slowest.map_or_else(|| "-".to_owned(), |ms| format!("{ms}ms")),
    ]
}

fn problem(declared: &Value, condition: &str) -> Option<String> {
    let conditions = items(declared, "/status/conditions").iter();
    let mut said = conditions.filter(|one| text(one, "/type") == condition);
    let failed = said.find(|one| text(one, "/status") == "False")?;
    let name = named(declared, text(declared, "/metadata/name"));
    Some(format!("  {} {name}: {}", text(declared, "/kind"), text(failed, "/message")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_counts_its_own_proxies() {
        let service = json!({
            "kind": "MeshService", "metadata": {"name": "books", "project": "shop"},
            "status": {"state": "Waiting", "endpoints": 2, "conditions": [
                {"type": "Ready", "status": "False", "message": "no instance"},
            ]},
        });
        let proxy = |project: &str, state: &str, ms: i64| {
            json!({
                "metadata": {"project": project}, "spec": {"service": "books"},
                "status": {"state": state, "configs": [{"type": "routes", "convergenceMs": ms}]},
            })
        };
        let proxies =
            [proxy("shop", "Current", 3), proxy("shop", "Refused", 9), proxy("x", "Current", 99)];
        assert_eq!(row(&service, &proxies).join(" "), "shop/books Waiting 2 2 1 9ms");
        let said = problem(&service, "Ready");
        assert_eq!(said.as_deref(), Some("  MeshService shop/books: no instance"));
        assert_eq!(problem(&service, "Accepted"), None);
        let fresh = json!({"metadata": {"name": "new", "project": "shop"}});
        assert_eq!(row(&fresh, &[]).join(" "), "shop/new - - 0 0 -", "nothing is known of it");
    }
}
