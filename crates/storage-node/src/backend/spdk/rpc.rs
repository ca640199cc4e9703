//! SPDK's dialect of JSON-RPC 2.0, and what its errors mean.
use crate::{
    backend::json::Dialect,
    error::{Error, Result},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

pub struct JsonRpc;

impl Dialect for JsonRpc {
    fn name(&self) -> &'static str {
        "SPDK"
    }

    /// Methods without parameters are called without any: SPDK refuses an empty object for some.
    fn request(&self, id: u64, method: &str, params: Value) -> Value {
        let mut request = json!({ "jsonrpc": "2.0", "id": id, "method": method });
        if params.as_object().is_some_and(|params| !params.is_empty()) {
            request["params"] = params;
        }
        request
    }

    fn answer(&self, method: &str, mut answer: Value) -> Result<Value> {
        match answer.get("error") {
            None => Ok(answer["result"].take()),
            Some(error) => {
                let code = error["code"].as_i64().unwrap_or_default();
                Err(error_of(method, code, error["message"].as_str().unwrap_or_default()))
            }
        }
    }
}

/// Numbers are those of the operating system, negative, or JSON-RPC's own. vhost answers with
/// JSON-RPC's "invalid parameters" and says in words what it means.
fn error_of(method: &str, code: i64, message: &str) -> Error {
    let text = format!("SPDK answered {method} with {code}: {message}");
    match (code, message) {
        (-17, _) | (-32602, "File exists") => Error::Conflict(text),
        (-19 | -2, _) | (-32602, "No such device") => Error::not_found("device in SPDK:", text),
        (-1 | -13, _) => Error::Denied(text),
        (-16, _) | (-32602, "Device or resource busy") => Error::InUse(text),
        (-12 | -28, _) | (-32602, "No space left on device") => Error::Exhausted(text),
        (-32601, _) => Error::Unsupported(text),
        (-22, _) => Error::Invalid(text),
        _ => Error::io(format!("call {method}"), std::io::Error::other(text)),
    }
}

/// Reads a result; what does not fit is said with the method's name.
pub fn decode<T: DeserializeOwned>(method: &str, value: Value) -> Result<T> {
    serde_json::from_value(value).map_err(|error| {
        let reason = std::io::Error::other(format!("the answer has another form: {error}"));
        Error::io(format!("call {method}"), reason)
    })
}

#[cfg(test)]
mod tests {
    use super::error_of;
    use tonic::Code;

    /// proves: VOL-05
    #[test]
    fn errors_keep_their_meaning() {
        let check = |code: i64, message: &str, expect: Code| {
            assert_eq!(error_of("m", code, message).code(), expect, "{code} {message}");
        };
        check(-17, "File exists", Code::AlreadyExists);
        check(-19, "No such device", Code::NotFound);
        check(-13, "Permission denied", Code::PermissionDenied);
        check(-12, "Cannot allocate memory", Code::ResourceExhausted);
        check(-32601, "Method not found", Code::FailedPrecondition);
        check(-32602, "File exists", Code::AlreadyExists);
        check(-32602, "Device or resource busy", Code::FailedPrecondition);
        check(-32602, "Invalid parameters", Code::Internal);
        check(-5, "Input/output error", Code::Internal);
    }
}
