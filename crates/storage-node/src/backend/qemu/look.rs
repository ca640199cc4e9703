//! Looks at an image of Ceph, in a process of its own.
//!
//! ```text
//!  the daemon:   its volumes, served without a pause
//!  a second one: object-add, blockdev-add, how large?, quit  -- for one image, then it ends
//! ```
//!
//! A daemon that opens an image does nothing else until Ceph has answered, and Ceph answers a user whom it
//! does not know only by silence. So the daemon that has all volumes is told of an image only after
//! another process has opened it with the same key. The key goes there through a pipe.
use super::{ceph, nodes::virtual_size, qmp::Qmp};
use crate::{
    backend::json::Dialect,
    error::{Error, Result},
    host::program,
    volume::{CephImage, Size},
};
use serde_json::{Value, json};
use std::{path::Path, process::Output, time::Duration};

const PROGRAM: &str = "qemu-storage-daemon";
const ARGUMENTS: [&str; 4] =
    ["--chardev", "stdio,id=monitor,signal=off", "--monitor", "chardev=monitor"];
/// Longer than the driver for Ceph tries; what takes longer hangs.
const TIME_MAX: Duration = Duration::from_secs(30);
const NODE: &str = "look";

/// The size of an image, if it can be opened.
pub async fn look(ceph: &CephImage, conf: &Path) -> Result<Size> {
    let requests = requests(ceph, conf)?;
    let mut script = String::new();
    for (id, (method, arguments)) in (0..).zip(&requests) {
        script.push_str(&Qmp.request(id, method, arguments.clone()).to_string());
        script.push('\n');
    }
    let output = program::talk(PROGRAM, &ARGUMENTS, script.into_bytes(), TIME_MAX).await?;
    let mut nodes = Value::Null;
    for (id, (method, _)) in (0_u64..).zip(&requests) {
        let answer = Qmp.answer(method, answer(&output, id)?);
        match answer {
            Ok(found) if *method == "query-named-block-nodes" => nodes = found,
            Ok(_) => {}
            Err(error) => return Err(ceph::explained(ceph, error).await),
        }
    }
    virtual_size(&nodes, NODE)
}

/// All that the process is told, in this order.
fn requests(ceph: &CephImage, conf: &Path) -> Result<Vec<(&'static str, Value)>> {
    let mut requests = vec![("qmp_capabilities", json!({}))];
    let key = ceph::key(NODE, ceph)?;
    let mut node = ceph::driver(ceph, conf, key.is_some().then(|| ceph::key_name(NODE)));
    requests.extend(key.map(|key| ("object-add", key)));
    node["node-name"] = json!(NODE);
    node["read-only"] = json!(true);
    requests.push(("blockdev-add", node));
    requests.push(("query-named-block-nodes", json!({})));
    requests.push(("quit", json!({})));
    Ok(requests)
}

/// The answer to one request, among everything that was said.
fn answer(output: &Output, id: u64) -> Result<Value> {
    let values = serde_json::Deserializer::from_slice(&output.stdout).into_iter::<Value>();
    let mut answers = values.map_while(std::result::Result::ok);
    answers.find(|value| value["id"] == id).ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = format!("it ended with {} and said {:?}", output.status, said.trim());
        Error::io(format!("look at an image with {PROGRAM}"), std::io::Error::other(said))
    })
}

#[cfg(test)]
mod tests {
    use super::{ARGUMENTS, requests};
    use crate::volume::{CephImage, Secret};
    use std::path::Path;

    /// proves: VOL-07
    #[test]
    fn a_key_is_told_through_the_pipe_alone() {
        let image = |key: &str| CephImage {
            user: "orrery".into(),
            secret: Secret::new(key),
            monitors: "mon-1".into(),
            pool: "fast".into(),
            image: "disk".into(),
        };
        let names = |key: &str| {
            let told = requests(&image(key), Path::new("/etc/none")).unwrap();
            told.into_iter().map(|(method, _)| method).collect::<Vec<_>>().join(" ")
        };
        let rest = "blockdev-add query-named-block-nodes quit";
        assert_eq!(names("AAAA"), format!("qmp_capabilities object-add {rest}"));
        assert_eq!(names(""), format!("qmp_capabilities {rest}"));
        assert!(requests(&image("hunter2"), Path::new("/etc/none")).is_err());
        assert!(ARGUMENTS.iter().all(|argument| !argument.contains("secret")));
    }
}
