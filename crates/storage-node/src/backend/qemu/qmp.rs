//! QEMU's monitor protocol.
use crate::{
    backend::json::Dialect,
    error::{Error, Result},
};
use serde_json::{Value, json};

pub struct Qmp;

impl Dialect for Qmp {
    fn name(&self) -> &'static str {
        "qemu-storage-daemon"
    }

    fn request(&self, id: u64, method: &str, params: Value) -> Value {
        json!({ "execute": method, "arguments": params, "id": id })
    }

    /// Leaves the mode in which a monitor takes no other command.
    fn greeting(&self) -> &'static [&'static str] {
        &["qmp_capabilities"]
    }

    /// Nearly all errors are of one class, so what they mean has to be found out by asking for the
    /// state; only what the words are is passed on.
    fn answer(&self, method: &str, mut answer: Value) -> Result<Value> {
        let Some(error) = answer.get("error") else { return Ok(answer["return"].take()) };
        let text = format!("{method}: {}", error["desc"].as_str().unwrap_or("unknown error"));
        Err(match error["class"].as_str() {
            Some("CommandNotFound") => Error::Unsupported(text),
            Some("DeviceNotFound") => Error::not_found("block node:", text),
            _ => Error::io("use qemu-storage-daemon", std::io::Error::other(text)),
        })
    }
}
