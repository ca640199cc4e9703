//! All targets, one line each.
mod http;
mod objects;
mod records;
mod secrets;
mod texts;

use crate::Target;

macro_rules! target {
    ($name:literal, $run:path, [$($seed:expr),* $(,)?]) => {
        Target { name: $name, run: $run, seeds: &[$($seed),*] }
    };
}

const WORKLOAD: &str = r#"{"apiVersion":"apps.orrery.dev/v1","kind":"Workload","metadata":{"name":"a","namespace":"p","labels":{"x":"y"},"generation":3},"spec":{"process":{"command":"sleep","args":["1"],"env":{"A":"b"}},"placement":{"selector":{"matchLabels":{"a":"b"}},"replicas":3},"dependsOn":[{"workload":"db"}]},"status":{"state":"Running","restarts":7,"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z"}]}}"#;
const PROJECT: &str =
    r#"{"apiVersion":"core.orrery.dev/v1","kind":"Project","metadata":{"name":"a"},"spec":{}}"#;
const YAML: &str = "# two\napiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata: {name: \"a\", labels: {x: 'y'}}\nspec:\n  process:\n    command: >-\n      sleep\n    args: [\"1\", 0x10, .5, ~, |]\n  placement: &a\n    nodes:\n    - n1\n---\nkind: List\nitems: [*a]\n";

/// Of a key that was thrown away.
const REQUEST: &str = "MIHHMG8CAQAwDTELMAkGA1UEAwwCbjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARn7MOnvIShOvB0V2KI9C6VRUecfZalDfhRy1twVWwTmZqGgBmrea1T9bBvoIQcjpWHvySutHQ5koXmUD4IFC2MoAAwCgYIKoZIzj0EAwIDSAAwRQIgRnocoTmHpvwuVuVVRGj9xnLmy+kWxXiVOY4u7Vvhfx0CIQCHTl0gG8WQxjgZ4iJxID4RsUMiq9tGXq/D90BpowJ2Yg==";
const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIBnjCCAUSgAwIBAgIUJZ0i2QR9nvVjyyiY24BH22KH1ZMwCgYIKoZIzj0EAwIw\nDTELMAkGA1UEAwwCbjEwHhcNMjYxMTE1MTkyMTQzWhcNMzYxMTEyMTkyMTQzWjAN\nMQswCQYDVQQDDAJuMTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABGfsw6e8hKE6\n8HRXYoj0LpVFR5x9lqUN+FHLW3BVbBOZmoaAGat5rVP1sG+ghByOlYe/JK60dDmS\nheZQPggULYyjgYEwfzAdBgNVHQ4EFgQUC7XXpv2PMeIJbYvPPqg6ccoblfgwHwYD\nVR0jBBgwFoAUC7XXpv2PMeIJbYvPPqg6ccoblfgwDwYDVR0TAQH/BAUwAwEB/zAs\nBgNVHREEJTAjhh1zcGlmZmU6Ly9vcnJlcnkudGVzdC9hZ2VudC9uMYICbjEwCgYI\nKoZIzj0EAwIDSAAwRQIgQL0ThfR77sQRo/QPGLezwEV69MR0reNEWne7+8uu9jIC\nIQDf//dtiaaenTvWUgH/m+ohxHhQCnN53Pi/2ackDKdODg==\n-----END CERTIFICATE-----\n";
const OIDC_TOKEN: &str = "eyJhbGciOiJFUzI1NiIsImtpZCI6ImUifQ.eyJpc3MiOiJpIiwiYXVkIjpbImEiXSwic3ViIjoibWUiLCJncm91cHMiOlsiZyJdLCJleHAiOjk5fQ.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const SPLIT: &str = r#"{"metadata":{"name":"a","namespace":"p"},"spec":{"service":"s","backends":[{"service":"b","weight":"900m"},{"service":"c","weight":7}],"matches":[{"kind":"HTTPRouteGroup","name":"r"}]},"matches":[{"name":"m","methods":["GET"],"pathRegex":"/x"}],"sources":[{"kind":"ServiceAccount","name":"s","namespace":"p"}],"destination":{"kind":"ServiceAccount","name":"d","port":80},"specs":[{"kind":"HTTPRouteGroup","name":"r","matches":["m"]}]}"#;

/// Every decoder.
pub const TARGETS: &[Target] = &[
    target!(
        "json",
        objects::json,
        [WORKLOAD, "[1,-0.5e3,\"\\u00e9\\ud83d\\ude00\",null]", "{\"a\":1,\"a\":2}"]
    ),
    target!(
        "manifest",
        objects::manifest,
        [YAML, WORKLOAD, "a: &x [*x]\n", "---\n...\n%YAML 1.2\n"]
    ),
    target!("object", objects::object, [WORKLOAD, PROJECT, "{\"metadata\":{\"name\":1}}"]),
    target!(
        "protobuf",
        objects::protobuf,
        ["\u{0}\n\u{12}apps.orrery.dev/v1\u{12}\u{8}Workload\u{1a}\u{3}\n\u{1}a", "\u{1}"]
    ),
    target!(
        "patch",
        objects::patch,
        [
            "[{\"op\":\"add\",\"path\":\"/metadata/labels/x~1y\",\"value\":1}]",
            "[{\"op\":\"move\",\"from\":\"/spec\",\"path\":\"/status\"},{\"op\":\"test\",\"path\":\"\",\"value\":{}}]",
            "{\"metadata\":{\"labels\":{\"x\":null}},\"spec\":{\"placement\":null}}",
        ]
    ),
    target!(
        "label-selector",
        texts::label_selector,
        ["a=b,c!=d,e in (f,g),h notin (i),j,!k", "x.y/z==w"]
    ),
    target!(
        "field-selector",
        texts::field_selector,
        ["metadata.name=a,spec.placement.replicas!=3", "status.state==Running"]
    ),
    target!(
        "continue",
        texts::cursor,
        [
            "Mzo1OjM6b2JqZWN0cy9hcHBzL1dvcmtsb2FkL24vcC9h",
            "Mzo6Om9iamVjdHMvYXBwcy9Xb3JrbG9hZC9vLzEvYQ"
        ]
    ),
    target!("version", objects::version, [SPLIT, WORKLOAD]),
    target!(
        "managed-fields",
        objects::managed_fields,
        [
            "{\"f:spec\":{\".\":{},\"f:files\":{\"k:{\\\"path\\\":\\\"a\\\"}\":{\"f:text\":{}}},\"f:z\":{\"v:\\\"x\\\"\":{}}}}",
            "{\"f:\":1,\"k:{}\":{},\"x\":{}}",
        ]
    ),
    target!(
        "token",
        secrets::token,
        [
            "orrery1.web.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "orrerybt1.ci.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            "0000000000000000000000000000000000000000000000000000000000000000",
        ]
    ),
    target!("oidc-token", secrets::oidc_token, [OIDC_TOKEN, "e30.e30.", "a.b"]),
    target!(
        "oidc-keys",
        secrets::oidc_keys,
        [
            r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"e","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"},{"kty":"RSA","use":"sig","n":"AQAB","e":"AQAB"}]}"#,
        ]
    ),
    target!("certificate-request", secrets::request, [REQUEST]),
    target!(
        "pem",
        secrets::pem,
        [CERTIFICATE, "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"]
    ),
    target!("sealed", secrets::sealed, ["plain", "orrery"]),
    target!(
        "keyring",
        secrets::keyring,
        ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= # one\n", "x,y"]
    ),
    target!(
        "backup",
        records::backup,
        [
            "orrery-backup 1\n0123456789abcdef\0\0\0\0\0\0\0\u{5}\u{1}\0\0\0\0\0\0\0\u{1}\0\0\0\0\0\0\0\u{2}\0\0\0\u{1}\0\0\0\u{2}kvv\u{2}\0\0\0\0\0\0\0\u{1}\0\0\0\0\0\0\0\0",
            "orrery-backup 1\n0123456789abcdef\0\0\0\0\0\0\0\u{5}\u{1}\0\0\0\0\0\0\0\u{1}\0\0\0\0\0\0\0\u{2}\u{7f}\0\0\0",
        ]
    ),
    target!(
        "row",
        records::row,
        [
            "\0\0\0\0\0\0\0\u{1}\0\0\0\0\0\0\0\u{2}",
            "\u{1}\0\0\0\0\0\0\0\u{1}value",
            "\u{2}",
            "\0\0\0\0\0\0\0\u{1}\0\u{1}\u{1}\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\u{1}\0\u{1}k",
        ]
    ),
    target!("artifact-path", texts::artifact_path, ["a/b.txt", "../x", "a\\b", "é/ö"]),
    target!(
        "spiffe",
        texts::spiffe,
        ["spiffe://orrery.test/agent/n1", "spiffe://x/", "http://x/agent/a"]
    ),
    target!("certificate", texts::certificate, ["0\u{3}\u{2}\u{1}\u{1}"]),
    target!(
        "query",
        http::query,
        [
            "follow=true&tailLines=5&sinceSeconds=60&sinceTime=2026-11-19T12%3A00%3A00Z&timestamps=true&container=a&command=sh&command=-c&stdin=true",
            "limit=500&continue=x&labelSelector=a%3Db&watch=true&timeoutSeconds=5",
            "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=7",
            "dryRun=All&fieldManager=me&force=true&fieldValidation=Strict&includeObject=None&propagationPolicy=Orphan",
        ]
    ),
    target!(
        "channels",
        http::channels,
        ["\u{4}{\"Width\":80,\"Height\":24}", "\u{0}ls\n", "\u{ff}\u{0}", "\u{1}x"]
    ),
    target!(
        "protocols",
        http::protocols,
        [
            "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.b3JyZXJ5MS5hbm4ueA",
            "base64url.bearer.authorization.k8s.io.,base64url.bearer.authorization.k8s.io.YQ",
        ]
    ),
    target!(
        "accept",
        http::accept,
        [
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.5",
            "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,*/*;q=0",
        ]
    ),
    target!(
        "path",
        http::path,
        ["/apis/apps.orrery.dev/v1/namespaces/p/workloads/a/artifacts/x%2Fy", "/api/v1/%ff//"]
    ),
    target!(
        "envelope",
        http::envelope,
        ["k8s\u{0}\n\r\n\u{2}v1\u{12}\tNamespace\u{12}\u{7}\n\u{5}\n\u{3}abc\u{1a}\u{0}\"\u{0}"]
    ),
    target!(
        "delete-options",
        http::delete_options,
        [
            "{\"kind\":\"DeleteOptions\",\"dryRun\":[\"All\"],\"propagationPolicy\":\"Foreground\",\"preconditions\":{\"uid\":\"u\",\"resourceVersion\":\"5\"}}",
        ]
    ),
    target!(
        "scale",
        http::scale,
        [
            "{\"kind\":\"Scale\",\"apiVersion\":\"autoscaling/v1\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"replicas\":3}}"
        ]
    ),
    target!(
        "review",
        http::review,
        ["{\"spec\":{\"resourceAttributes\":{\"verb\":\"get\",\"resource\":\"workloads\"}}}"]
    ),
];
