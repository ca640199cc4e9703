//! `orrery mesh proxies`: what each proxy should have, was sent, accepted and refused.
use super::{all, items, looked, named, text};
use crate::args::{Global, MeshList};
use crate::output::table::plain_lines;
use crate::output::{print, style};
use crate::session::Session;
use serde_json::Value;

const HEADER: [&str; 9] =
    ["SERVICE", "INSTANCE", "STATE", "TYPE", "WANTED", "SENT", "ACKED", "REFUSED", "CONVERGENCE"];
/// Versions are long and mean nothing but the same or another.
const VERSION_CHARS: usize = 8;

pub async fn run(global: &Global, arguments: &MeshList) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let proxies = all(&session, arguments, "proxies").await?;
    if proxies.is_empty() {
        let looked = looked(&session, arguments);
        print::note(&format!(
            "no proxy is connected {looked}; start one with `orrery mesh bootstrap`"
        ));
        return Ok(());
    }
    let mut rows = vec![HEADER.map(str::to_owned).to_vec()];
    rows.extend(proxies.iter().flat_map(rows_of));
    print::lines(&plain_lines(&rows, style::stdout()))?;
    let refusals: Vec<String> = proxies.iter().flat_map(refusals_of).collect();
    print::lines(&refusals)
}

fn rows_of(proxy: &Value) -> Vec<Vec<String>> {
    let service = named(proxy, text(proxy, "/spec/service"));
    let (instance, state) = (text(proxy, "/spec/instance"), text(proxy, "/status/state"));
    let row = |config: &Value| {
        let version = |pointer: &str| -> String {
            let version: String = text(config, pointer).chars().take(VERSION_CHARS).collect();
            if version.is_empty() { "-".to_owned() } else { version }
        };
        let took = config.pointer("/convergenceMs").and_then(Value::as_i64);
        vec![
            service.clone(),
            instance.to_owned(),
            state.to_owned(),
            text(config, "/type").to_owned(),
            version("/wanted"),
            version("/sent"),
            version("/acked"),
            version("/refused"),
            took.map_or_else(|| "-".to_owned(), |ms| format!("{ms}ms")),
        ]
    };
    items(proxy, "/status/configs").iter().map(row).collect()
}

/// In the proxy's own words.
fn refusals_of(proxy: &Value) -> Vec<String> {
    let service = named(proxy, text(proxy, "/spec/service"));
    let instance = text(proxy, "/spec/instance");
    let configs = items(proxy, "/status/configs").iter();
    let refused = configs.filter(|config| !text(config, "/error").is_empty());
    let line = |config: &Value| {
        let (kind, error) = (text(config, "/type"), text(config, "/error"));
        format!("\n{service} {instance} refused {kind}: {error}")
    };
    let unknown = items(proxy, "/status/unknownTypes").iter().filter_map(Value::as_str);
    let unknown =
        unknown.map(|name| format!("\n{service} {instance} asked for {name}, which is not served"));
    let findings = items(proxy, "/status/findings").iter().filter_map(Value::as_str);
    let findings = findings.map(|text| format!("\n{service} {instance}: {text}"));
    refused.map(line).chain(unknown).chain(findings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_row_for_each_kind_and_refusals_below() {
        let proxy = json!({
            "metadata": {"name": "x", "project": "shop"},
            "spec": {"service": "books", "instance": "one"},
            "status": {"state": "Refused", "unknownTypes": ["t"], "findings": ["why"], "configs": [
                {"type": "clusters", "wanted": "0123456789", "sent": "0123456789", "acked": "0123456789", "convergenceMs": 12},
                {"type": "routes", "wanted": "bbbbbbbbbb", "sent": "bbbbbbbbbb", "refused": "bbbbbbbbbb", "error": "no such regex"},
            ]},
        });
        let rows = rows_of(&proxy);
        assert_eq!(
            rows[0].join(" "),
            "shop/books one Refused clusters 01234567 01234567 01234567 - 12ms"
        );
        assert_eq!(
            rows[1].join(" "),
            "shop/books one Refused routes bbbbbbbb bbbbbbbb - bbbbbbbb -"
        );
        let refusals = refusals_of(&proxy);
        assert_eq!(refusals[0], "\nshop/books one refused routes: no such regex");
        assert_eq!(refusals[1], "\nshop/books one asked for t, which is not served");
        assert_eq!(refusals[2], "\nshop/books one: why");
    }
}
