//! What a server is told about the services that keep some of its kinds.
use orrery_hub::cache::CacheOptions;
use orrery_pki::TlsFiles;
use std::path::PathBuf;
use std::time::Duration;

/// How many bytes of objects, and of lists of them, are kept of each kind.
pub const CACHE_BYTES: usize = 32 << 20;

/// How old an answer may become that nobody contradicts: what is read while the upstream's changes cannot be heard of
/// is at most so old.
pub const CACHE_EXPIRY: Duration = Duration::from_secs(30);

/// What a server is told about the services that keep some of its kinds.
#[derive(Clone, Debug)]
pub struct UpstreamOptions {
    pub kinds: Vec<KindFrom>,
    /// What all of them are checked against and shown: PEM files, all three or none.
    pub tls: TlsFiles,
    /// File of an access token that is shown instead of a certificate.
    pub token_file: Option<PathBuf>,
    /// What is kept here of what they say; nothing when absent.
    pub cache: Option<CacheOptions>,
}

impl Default for UpstreamOptions {
    fn default() -> Self {
        let cache = CacheOptions { bytes_max: CACHE_BYTES, expiry: CACHE_EXPIRY };
        let (kinds, tls, token_file) = <_>::default();
        Self { kinds, tls, token_file, cache: Some(cache) }
    }
}

/// A kind, and the service that keeps its objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindFrom {
    /// Kind, plural, singular or short name.
    pub kind: String,
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub server: String,
}

impl std::str::FromStr for KindFrom {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = "write KIND=URL, such as MachineClass=https://central.example:7443";
        let (kind, server) = text.split_once('=').ok_or(form)?;
        if kind.is_empty() || server.is_empty() {
            return Err(form.to_owned());
        }
        let server = server.trim_end_matches('/').to_owned();
        Ok(Self { kind: kind.to_owned(), server })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_and_where_it_is_kept() {
        let read: KindFrom = "MachineClass=https://central:7443/".parse().expect("well-formed");
        let KindFrom { kind, server } = read;
        assert_eq!((kind.as_str(), server.as_str()), ("MachineClass", "https://central:7443"));
        for bad in ["MachineClass", "=https://central:7443", "MachineClass=", ""] {
            assert!(bad.parse::<KindFrom>().is_err(), "{bad}");
        }
    }
}
