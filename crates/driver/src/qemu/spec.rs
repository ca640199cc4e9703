//! The fields of `spec` in a class for this driver.
use crate::Error;
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Spec {
    /// A Linux kernel to boot; with an initramfs.
    pub kernel: Option<PathBuf>,
    pub initramfs: Option<PathBuf>,
    /// More words for the kernel.
    #[serde(default)]
    pub append: String,
    /// A disk image; each machine gets a layer of its own over it.
    pub disk: Option<PathBuf>,
    /// The format of the image.
    #[serde(default = "disk_format")]
    pub disk_format: String,
    #[serde(default = "memory_mib")]
    pub memory_mib: u32,
    #[serde(default = "cpus")]
    pub cpus: u32,
    #[serde(default)]
    pub accelerator: Accelerator,
    /// The network card, as QEMU calls it.
    #[serde(default = "nic")]
    pub nic: String,
    /// How long a machine may take to power down before its plug is pulled.
    #[serde(default = "power_down_seconds")]
    pub power_down_seconds: u64,
    /// Read by the library; named here because unknown fields are refused.
    #[serde(default, rename = "secretRef")]
    _secret_ref: Option<serde_json::Value>,
}

/// What runs the machine's instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Accelerator {
    /// KVM where it works, otherwise emulation.
    #[default]
    Auto,
    Kvm,
    /// Emulation.
    Tcg,
}

fn disk_format() -> String {
    "qcow2".to_owned()
}

fn memory_mib() -> u32 {
    1024
}

fn cpus() -> u32 {
    1
}

fn nic() -> String {
    "virtio-net-pci".to_owned()
}

fn power_down_seconds() -> u64 {
    30
}

impl Spec {
    /// What a machine could not be made from is the user's to correct.
    pub fn check(&self) -> Result<(), Error> {
        match (&self.kernel, &self.initramfs, &self.disk) {
            (None, None, None) => {
                return Err(Error::invalid("give either kernel and initramfs, or disk"));
            }
            (Some(_), None, _) | (None, Some(_), _) => {
                return Err(Error::invalid("kernel and initramfs belong together"));
            }
            (Some(_), Some(_), _) | (None, None, Some(_)) => {}
        }
        for file in [&self.kernel, &self.initramfs, &self.disk].into_iter().flatten() {
            if !is_file(file) {
                let shown = file.display();
                return Err(Error::invalid(format!("{shown} is no file on the driver's machine")));
            }
        }
        // They become parts of options, in which a comma begins another.
        for (field, word) in [("nic", &self.nic), ("diskFormat", &self.disk_format)] {
            if word.is_empty() || !word.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-') {
                return Err(Error::invalid(format!("{field}: {word:?} is no single word")));
            }
        }
        if self.memory_mib == 0 || self.cpus == 0 {
            return Err(Error::invalid("memoryMib and cpus must be at least 1"));
        }
        Ok(())
    }
}

fn is_file(path: &Path) -> bool {
    path.is_absolute() && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expect: &str) {
        let spec = serde_json::from_str::<Spec>(json).map_err(|error| error.to_string());
        let found = spec.and_then(|spec| spec.check().map_err(|error| error.message));
        let said = found.err().unwrap_or_default();
        assert!(said.contains(expect) && said.is_empty() == expect.is_empty(), "{json}: {said}");
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        check(r#"{"disk": "/proc/version"}"#, "");
        check(r#"{"kernel": "/proc/version", "initramfs": "/proc/version"}"#, "");
        check("{}", "either");
        check(r#"{"kernel": "/proc/version"}"#, "together");
        check(r#"{"disk": "/no/such/file"}"#, "/no/such/file");
        check(r#"{"disk": "relative"}"#, "relative");
        check(r#"{"disk": "/proc/version", "nic": "e1000,mac=x"}"#, "nic");
        check(r#"{"disk": "/proc/version", "cpus": 0}"#, "cpus");
        check(r#"{"dsk": "/proc/version"}"#, "dsk");
    }
}
