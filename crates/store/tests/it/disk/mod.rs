//! A disk that forgets what was not synced, and fails when told to.
//!
//! A file system in memory, mounted through FUSE so that the engine under test meets it as any
//! other. Of every file and directory it keeps two states: what programs see, and what is on the
//! platter. `fsync` copies the first to the second. A power cut is a copy of the platter, to which
//! any part of what was not synced may have made it, page by page, as the kernel pleases.

mod mount;

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    fs,
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

use parking_lot::Mutex;
use rand::{Rng, rngs::StdRng};

pub use self::mount::Mounted;

const PAGE: usize = 4096;
const ROOT: u64 = 1;

/// Shared by the file system that is mounted and the test that cuts its power.
#[derive(Clone, Default)]
pub struct Disk(Arc<Mutex<State>>);

/// What the disk answers instead of doing what it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fault {
    #[default]
    None,
    /// Syncing fails, and what should have been synced is gone.
    SyncFails,
    /// There is room for this many more bytes.
    Full {
        left: u64,
    },
    ReadOnly,
}

#[derive(Clone)]
struct State {
    nodes: HashMap<u64, Node>,
    next: u64,
    fault: Fault,
    syncs: u64,
}

#[derive(Clone)]
enum Node {
    File { live: Content, durable: Content },
    Directory { live: Names, durable: Names },
}

type Names = BTreeMap<OsString, u64>;

/// The bytes of a file; pages that were never written are zeros.
#[derive(Clone, Default)]
struct Content {
    size: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE]>>,
}

impl Default for State {
    fn default() -> Self {
        let root = Node::Directory { live: Names::new(), durable: Names::new() };
        Self { nodes: HashMap::from([(ROOT, root)]), next: ROOT + 1, fault: Fault::None, syncs: 0 }
    }
}

impl Disk {
    pub fn fail(&self, fault: Fault) {
        self.0.lock().fault = fault;
    }

    /// How often a file was synced.
    pub fn syncs(&self) -> u64 {
        self.0.lock().syncs
    }

    /// The disk as it is found after the power was cut now. `rng` decides what of the unsynced was
    /// lucky; without it, nothing was.
    pub fn cut(&self, mut rng: Option<&mut StdRng>) -> Self {
        let mut state = self.0.lock().clone();
        state.fault = Fault::None;
        for node in state.nodes.values_mut() {
            node.lose(rng.as_deref_mut());
        }
        Self(Arc::new(Mutex::new(state)))
    }
}

impl Disk {
    /// Writes what programs see on the disk to a directory of another.
    pub fn copy_to(&self, path: &Path) {
        self.0.lock().copy_to(ROOT, path);
    }
}

impl State {
    fn copy_to(&self, node: u64, path: &Path) {
        match &self.nodes[&node] {
            Node::Directory { live, .. } => {
                fs::create_dir_all(path).expect("a directory can be made");
                for (name, node) in live {
                    self.copy_to(*node, &path.join(name));
                }
            }
            Node::File { live, .. } => {
                let file = fs::File::create(path).expect("a file can be made");
                for (page, content) in &live.pages {
                    file.write_all_at(&content[..], page * PAGE as u64).expect("it can be written");
                }
                file.set_len(live.size).expect("it can be cut");
            }
        }
    }
}

impl Node {
    /// Only what was synced is left, or what of the rest was lucky.
    fn lose(&mut self, rng: Option<&mut StdRng>) {
        match self {
            Self::File { live, durable } => {
                let found = match rng {
                    Some(rng) => durable.torn(live, rng),
                    None => durable.clone(),
                };
                (*live, *durable) = (found.clone(), found);
            }
            Self::Directory { live, durable } => {
                let lucky = rng.is_some_and(|rng| rng.random());
                let found = if lucky { live.clone() } else { durable.clone() };
                (*live, *durable) = (found.clone(), found);
            }
        }
    }
}

impl Content {
    fn read(&self, offset: u64, size: usize) -> Vec<u8> {
        let end = self.size.min(offset.saturating_add(size as u64));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        for (page, from, to, at) in parts(offset, bytes.len()) {
            if let Some(content) = self.pages.get(&page) {
                bytes[at..at + (to - from)].copy_from_slice(&content[from..to]);
            }
        }
        bytes
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (page, from, to, at) in parts(offset, bytes.len()) {
            let content = self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(content)[from..to].copy_from_slice(&bytes[at..at + (to - from)]);
        }
        self.size = self.size.max(offset + bytes.len() as u64);
    }

    fn resize(&mut self, size: u64) {
        let first_gone = size.div_ceil(PAGE as u64);
        self.pages.retain(|page, _| *page < first_gone);
        let rest = (size % PAGE as u64) as usize;
        if rest != 0
            && let Some(last) = self.pages.get_mut(&(size / PAGE as u64))
        {
            Arc::make_mut(last)[rest..].fill(0);
        }
        self.size = size;
    }

    /// A mixture of the two states: each page of one or the other, and one of the two sizes.
    fn torn(&self, live: &Self, rng: &mut StdRng) -> Self {
        let mut found = self.clone();
        let pages: Vec<u64> = self.pages.keys().chain(live.pages.keys()).copied().collect();
        for page in pages {
            if rng.random() {
                match live.pages.get(&page) {
                    Some(content) => found.pages.insert(page, Arc::clone(content)),
                    None => found.pages.remove(&page),
                };
            }
        }
        let size = if rng.random() { live.size } else { self.size };
        found.resize(size);
        found
    }
}

/// The pages that a piece of a file is on: page, from, to, and where that is in the piece.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if length <= at {
            return None;
        }
        let position = offset + at as u64;
        let from = (position % PAGE as u64) as usize;
        let take = (PAGE - from).min(length - at);
        let part = (position / PAGE as u64, from, from + take, at);
        at += take;
        Some(part)
    })
}
