//! Which kinds of a server another one keeps.
use clap::Args;
use orrery_pki::TlsFiles;
use orrery_server::{CacheOptions, KindFrom, UpstreamOptions};
use std::path::PathBuf;
use std::time::Duration;

/// Kinds that other servers keep.
#[derive(Debug, Args)]
#[command(next_help_heading = "Upstreams")]
pub struct UpstreamArguments {
    /// Kind whose objects another server keeps, such as MachineClass=https://central:7443; may be
    /// given more than once
    #[arg(long, value_name = "KIND=URL")]
    pub kind_from: Vec<KindFrom>,
    /// PEM file of the root certificate that those servers are checked against
    #[arg(long, value_name = "FILE", requires = "kind_from")]
    pub upstream_root: Option<PathBuf>,
    /// PEM file of the certificate to show them
    #[arg(long, value_name = "FILE", requires = "upstream_root", requires = "upstream_key")]
    pub upstream_certificate: Option<PathBuf>,
    /// PEM file of its key
    #[arg(long, value_name = "FILE", requires = "upstream_certificate")]
    pub upstream_key: Option<PathBuf>,
    /// File with an access token to show them instead of a certificate
    #[arg(long, value_name = "FILE", requires = "kind_from")]
    #[arg(conflicts_with = "upstream_certificate")]
    pub upstream_token_file: Option<PathBuf>,
    /// Seconds for which what they said is used, unless they or somebody here changes it
    #[arg(long, value_name = "SECONDS", default_value_t = orrery_server::CACHE_EXPIRY.as_secs())]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub upstream_cache_seconds: u64,
    /// MiB of what they said about each kind that are kept; 0 keeps nothing
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=65_536))]
    pub upstream_cache_size: u64,
}

/// Objects and lists of a kind are kept apart, each in half of the room.
const GROUPS: usize = 2;

impl UpstreamArguments {
    pub fn options(self) -> UpstreamOptions {
        let mib = usize::try_from(self.upstream_cache_size).unwrap_or(usize::MAX >> 20);
        let cache = CacheOptions {
            bytes_max: (mib << 20) / GROUPS,
            expiry: Duration::from_secs(self.upstream_cache_seconds),
        };
        UpstreamOptions {
            kinds: self.kind_from,
            tls: TlsFiles {
                root: self.upstream_root,
                certificate: self.upstream_certificate,
                key: self.upstream_key,
            },
            token_file: self.upstream_token_file,
            cache: (0 < mib).then_some(cache),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Command {
        #[command(flatten)]
        upstreams: UpstreamArguments,
    }

    fn read(arguments: &[&str]) -> Result<UpstreamOptions, clap::Error> {
        let all = std::iter::once(&"server").chain(arguments);
        Command::try_parse_from(all).map(|command| command.upstreams.options())
    }

    #[test]
    fn nothing_is_kept_elsewhere_unless_it_is_said() {
        let read = read(&[]).expect("nothing is needed");
        assert!(read.kinds.is_empty());
        let cache = read.cache.expect("it would be kept");
        assert_eq!(cache.bytes_max, orrery_server::CACHE_BYTES);
        assert_eq!(cache.expiry, orrery_server::CACHE_EXPIRY);
    }

    #[test]
    fn kinds_and_what_is_shown() {
        let kinds =
            ["--kind-from", "MachineClass=http://a:1", "--kind-from", "MeshService=http://b:1"];
        let given = read(&kinds).expect("well-formed");
        assert_eq!(given.kinds.len(), 2);
        let off = read(&[&kinds[..], &["--upstream-cache-size", "0"]].concat());
        assert_eq!(off.expect("well-formed").cache, None);
        for bad in [
            &["--kind-from", "MachineClass"][..],
            &["--upstream-root", "ca.pem"],
            &[kinds[0], kinds[1], "--upstream-certificate", "c.pem", "--upstream-key", "k.pem"],
            &[kinds[0], kinds[1], "--upstream-cache-seconds", "0"],
        ] {
            assert!(read(bad).is_err(), "{bad:?}");
        }
    }
}
