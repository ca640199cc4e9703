//! Our own kinds hold what every definition must hold.
use orrery_api::{DecodeOptions, Scheme};

const HELLO: &str = r#"
apiVersion: apps.orrery.dev/v1
kind: Workload
metadata:
  name: hello
  project: demo
spec:
  process:
    command: sleep
    args: ["1000"]
  placement:
    nodes: [n1]
"#;

#[test]
fn a_workload_is_read_defaulted_and_valid() {
    let scheme = Scheme::builtin().expect("our kinds are well defined");
    let read = scheme.read_manifests("hello.yaml", HELLO.as_bytes()).expect("a good file");
    let [(_, object)] = read.as_slice() else { panic!("one resource") };
    assert_eq!(object.validate(None), []);
    let json = object.to_json_value(&Default::default());
    assert_eq!(json["spec"]["restartPolicy"], "always");
    assert_eq!(json["spec"]["stopGraceSeconds"], 10);
    let again = scheme.read_json(json.to_string().as_bytes(), &DecodeOptions::default());
    assert_eq!(again.expect("our own JSON").object, *object);
}
