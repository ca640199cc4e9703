//! Material that changes while it is in use: a renewed certificate, a rotated root.
//!
//! Nobody watches files. Whoever opens a connection asks for the current material, and asking looks
//! whether the files are still the ones that were read.

mod handshake;

use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::Error;
use crate::files::TlsFiles;
use crate::identity::Identity;
use crate::material::TlsMaterial;

/// Which content a file has, as far as the file system tells without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
    size: u64,
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok()?;
        let changed = (metadata.ctime(), metadata.ctime_nsec());
        Some(Self { inode: metadata.ino(), changed, size: metadata.size() })
    }
}

type Stamps = [Option<Stamp>; 3];

/// Says whether a peer that was verified is refused all the same.
pub type Refuses = Arc<dyn Fn(&Identity) -> bool + Send + Sync>;

/// The current material of one side. Clones share it.
#[derive(Clone)]
pub struct LiveTls {
    inner: Arc<Inner>,
}

struct Inner {
    files: Option<TlsFiles>,
    state: RwLock<State>,
}

struct State {
    /// With what is trusted beside its own root.
    material: TlsMaterial,
    /// PEM text of what is trusted beside the root of the material.
    also: String,
    refuses: Option<Refuses>,
    /// Grows with every change.
    generation: u64,
    seen: Stamps,
}

impl LiveTls {
    /// Material that changes only by [`LiveTls::set`].
    pub fn new(material: TlsMaterial) -> Self {
        Self::with(None, material, [None; 3])
    }

    /// From files, which are read again when they change; `None` when none is given.
    pub fn from_files(files: &TlsFiles) -> Result<Option<Self>, Error> {
        // The stamps first: a change between the two is then noticed later.
        let seen = stamps(files);
        Ok(files.load()?.map(|material| Self::with(Some(files.clone()), material, seen)))
    }

    fn with(files: Option<TlsFiles>, material: TlsMaterial, seen: Stamps) -> Self {
        let (also, refuses) = (String::new(), None);
        let state = RwLock::new(State { material, also, refuses, generation: 0, seen });
        Self { inner: Arc::new(Inner { files, state }) }
    }

    /// What is current, with a number that grows with every change.
    pub fn current(&self) -> (TlsMaterial, u64) {
        let state = self.inner.state.read().unwrap_or_else(PoisonError::into_inner);
        (state.material.clone(), state.generation)
    }

    /// Takes new material; what is trusted beside its root stays so.
    pub fn set(&self, material: TlsMaterial) {
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        // What was trusted before was read once already.
        state.material = trusting(&material, &state.also).unwrap_or(material);
        state.generation += 1;
    }

    /// Trusts these authorities too, in place of those that were named here before. `root` is the
    /// material without them.
    pub fn trust_also(&self, root: &TlsMaterial, also: &str) -> Result<(), Error> {
        let material = trusting(root, also)?;
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        also.clone_into(&mut state.also);
        state.material = material;
        state.generation += 1;
        Ok(())
    }

    /// Refuses peers in the handshake that are verified and still not welcome.
    pub fn refuse(&self, refuses: Refuses) {
        let mut state = self.inner.state.write().unwrap_or_else(PoisonError::into_inner);
        state.refuses = Some(refuses);
    }

    fn refuses(&self, identity: &Identity) -> bool {
        let state = self.inner.state.read().unwrap_or_else(PoisonError::into_inner);
        let refuses = state.refuses.clone();
        drop(state);
        refuses.is_some_and(|refuses| refuses(identity))
    }

    /// The material as its files hold it, without what is trusted beside it; the current one where
    /// there are no files.
    pub fn own(&self) -> Result<TlsMaterial, Error> {
        let loaded = self.inner.files.as_ref().map(TlsFiles::load).transpose()?.flatten();
        Ok(loaded.unwrap_or_else(|| self.current().0))
    }

    /// Reads the files again if they have changed. What cannot be used is told once, and the
    /// material from before goes on being used.
    pub fn refresh(&self) -> Result<bool, Error> {
        let Some(files) = &self.inner.files else { return Ok(false) };
        let now = stamps(files);
        if self.inner.state.read().unwrap_or_else(PoisonError::into_inner).seen == now {
            return Ok(false);
        }
        self.inner.state.write().unwrap_or_else(PoisonError::into_inner).seen = now;
        let Some(material) = files.load()? else { return Ok(false) };
        self.set(material);
        Ok(true)
    }

    /// The same where nobody can be told but the log: what is in use goes on. It is said once for each
    /// change of the files.
    fn look(&self) {
        if let Err(error) = self.refresh() {
            tracing::warn!(%error, "changed certificate files cannot be used; the ones from before stay in use");
        }
    }
}

fn trusting(material: &TlsMaterial, also: &str) -> Result<TlsMaterial, Error> {
    match also {
        "" => Ok(material.clone()),
        also => material.trusting(also.as_bytes()),
    }
}

fn stamps(files: &TlsFiles) -> Stamps {
    [&files.root, &files.certificate, &files.key].map(|file| file.as_deref().and_then(Stamp::of))
}

impl fmt::Debug for LiveTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (material, generation) = self.current();
        f.debug_struct("LiveTls")
            .field("material", &material)
            .field("generation", &generation)
            .finish_non_exhaustive()
    }
}
