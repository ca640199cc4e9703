//! A server finds its key, and agrees with what is in the store.
use super::Sealer;
use super::places::{Agreement, LEASES, USE, words};
use orrery_seal::{FileError, KeyId, Keyring};
use orrery_store::{Engine, Expect, ListRequest, Op};
use std::path::PathBuf;

/// Where the ring of a server comes from.
#[derive(Clone, Debug, Default)]
pub enum KeySource {
    /// There is none: what is secret is refused.
    #[default]
    None,
    /// A file, readable by its owner only.
    File {
        path: PathBuf,
        /// Whether it may be made, for a store that holds nothing yet.
        make: bool,
    },
    /// From the environment; it cannot be changed there.
    Given(Keyring),
    /// For stores that end with the process.
    Fresh,
}

/// Why a server has no key to go on with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot read which key the store is sealed with: {0}")]
    Store(#[from] orrery_store::Error),
    #[error(
        "the store is sealed with key {0}, and no key was given; give --encryption-key-file or ORRERY_ENCRYPTION_KEY"
    )]
    Missing(KeyId),
    #[error(
        "the store is sealed with key {0}, which is not among the given ones; copy the key file of another server, or of where the store came from"
    )]
    Unknown(KeyId),
    #[error(
        "the store is sealed with key {key}, and its key file {} is not there; copy it from another server, or from where the store came from",
        .file.display()
    )]
    Lost { key: KeyId, file: PathBuf },
    #[error("the key comes from the environment, where no other can be put")]
    CannotKeep,
}

/// How often somebody else may be faster with the first word; then something is wrong.
const ATTEMPTS_MAX: usize = 5;

/// The sealer of a server that is about to read the store.
pub async fn agree(
    engine: &dyn Engine,
    source: KeySource,
    prefixes: Vec<String>,
) -> Result<Sealer, Error> {
    let mut agreement = Agreement::read(engine).await?;
    let found = match find(&source, agreement.used.is_some()) {
        Err(FileError::NotFound { file }) if agreement.used.is_some() => {
            Some(begin_again(engine, &source, file, &mut agreement, &prefixes).await?)
        }
        found => found?,
    };
    for _ in 0..ATTEMPTS_MAX {
        let (ring, used) = match (&found, agreement.used) {
            (None, None) => return Ok(Sealer::new(prefixes, source, None)),
            (None, Some((used, _))) => return Err(Error::Missing(used)),
            (Some(ring), used) => (ring, used),
        };
        if let Some((used, _)) = used {
            let settled = agreement.settle(ring).ok_or(Error::Unknown(used))?;
            let sealer = Sealer::new(prefixes, source, found.clone());
            if settled.ids().ne(ring.ids()) {
                sealer.replace(settled)?;
            }
            return Ok(sealer);
        }
        let first = Op::put(USE, words([ring.current()]), Expect::Absent);
        match engine.commit(vec![first]).await {
            Ok(_) | Err(orrery_store::Error::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        agreement = Agreement::read(engine).await?;
    }
    Err(Error::Store(orrery_store::Error::Unreachable {
        reason: "what was written about keys is not there when it is read".to_owned(),
    }))
}

/// A key file that is lost can be made anew where nothing depends on it: no object is sealed, and no
/// other server runs. So a backup without secrets is of use without its key.
async fn begin_again(
    engine: &dyn Engine,
    source: &KeySource,
    file: PathBuf,
    agreement: &mut Agreement,
    prefixes: &[String],
) -> Result<Keyring, Error> {
    let Some((key, at)) = agreement.used else { return Err(Error::CannotKeep) };
    let made = matches!(source, KeySource::File { make: true, .. });
    let mut places = prefixes.iter().map(String::as_str).chain([LEASES]);
    let mut depended_on = !made;
    while let (false, Some(prefix)) = (depended_on, places.next()) {
        let found = engine.list(ListRequest { limit: 1, ..ListRequest::prefix(prefix) }).await?;
        depended_on = !found.entries.is_empty();
    }
    if depended_on {
        return Err(Error::Lost { key, file });
    }
    let ring = Keyring::load_or_create(&file)?;
    tracing::warn!(file = %file.display(), key = %ring.current(), "the key file was not there, and nothing is sealed: a new key was made");
    engine.commit(vec![Op::put(USE, words([ring.current()]), Expect::At(at))]).await?;
    *agreement = Agreement::read(engine).await?;
    Ok(ring)
}

/// A store that is sealed already needs the key that it was sealed with, not a new one.
fn find(source: &KeySource, sealed: bool) -> Result<Option<Keyring>, FileError> {
    match source {
        KeySource::None => Ok(None),
        KeySource::Given(ring) => Ok(Some(ring.clone())),
        KeySource::Fresh => Ok(Some(Keyring::generate())),
        KeySource::File { path, make: true } if !sealed => Keyring::load_or_create(path).map(Some),
        KeySource::File { path, .. } => Keyring::load(path).map(Some),
    }
}
