//! The disk as a file system of the kernel.

use std::{
    ffi::OsStr,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use fuser::{
    BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request,
    TimeOrNow, WriteFlags,
};

use super::{Content, Disk, Fault, Names, Node, State};

/// Nothing changes behind the kernel's back.
const TTL: Duration = Duration::from_secs(3600);

/// A disk at a place in the tree, until dropped.
pub struct Mounted {
    session: Option<fuser::BackgroundSession>,
    place: tempfile::TempDir,
}

impl Mounted {
    pub fn new(disk: &Disk) -> Self {
        let place = tempfile::tempdir().expect("a temporary directory can be made");
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("orrery-test".to_owned())];
        let session = fuser::spawn_mount(Files(disk.clone()), place.path(), &config)
            .expect("FUSE mounts work here (root, or Debian's fuse3, and /dev/fuse)");
        Self { session: Some(session), place }
    }

    pub fn path(&self) -> &Path {
        self.place.path()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        if std::thread::panicking() {
            // The test that failed may still use it; the kernel lets go of it when it can.
            let _ = std::process::Command::new("umount").arg("-l").arg(self.path()).status();
            return;
        }
        session.umount_and_join().expect("nobody uses the disk any more");
    }
}

struct Files(Disk);

impl State {
    fn attributes(&self, node: u64) -> Option<FileAttr> {
        let (kind, size, perm) = match self.nodes.get(&node)? {
            Node::File { live, .. } => (FileType::RegularFile, live.size, 0o644),
            Node::Directory { .. } => (FileType::Directory, 0, 0o755),
        };
        Some(FileAttr {
            ino: INodeNo(node),
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn names(&mut self, directory: INodeNo) -> Option<&mut Names> {
        match self.nodes.get_mut(&directory.0)? {
            Node::Directory { live, .. } => Some(live),
            Node::File { .. } => None,
        }
    }

    fn content(&mut self, file: INodeNo) -> Option<&mut Content> {
        match self.nodes.get_mut(&file.0)? {
            Node::File { live, .. } => Some(live),
            Node::Directory { .. } => None,
        }
    }

    fn make(&mut self, parent: INodeNo, name: &OsStr, node: Node) -> Result<FileAttr, Errno> {
        self.writable(0)?;
        let number = self.next;
        let names = self.names(parent).ok_or(Errno::ENOENT)?;
        if names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        names.insert(name.to_owned(), number);
        self.next += 1;
        self.nodes.insert(number, node);
        self.attributes(number).ok_or(Errno::ENOENT)
    }

    /// Whether this many more bytes can be written.
    fn writable(&mut self, bytes: usize) -> Result<(), Errno> {
        match &mut self.fault {
            Fault::None | Fault::SyncFails => Ok(()),
            Fault::ReadOnly => Err(Errno::EROFS),
            Fault::Full { left } => {
                *left = left.checked_sub(bytes as u64).ok_or(Errno::ENOSPC)?;
                Ok(())
            }
        }
    }

    fn sync(&mut self, node: INodeNo) -> Result<(), Errno> {
        self.syncs += 1;
        let fails = self.fault == Fault::SyncFails;
        match self.nodes.get_mut(&node.0).ok_or(Errno::ENOENT)? {
            // What could not be written is thrown away and the page marked clean, as Linux does.
            Node::File { .. } | Node::Directory { .. } if fails => return Err(Errno::EIO),
            Node::File { live, durable } => *durable = live.clone(),
            Node::Directory { live, durable } => *durable = live.clone(),
        }
        Ok(())
    }
}

fn file() -> Node {
    Node::File { live: Content::default(), durable: Content::default() }
}

fn directory() -> Node {
    Node::Directory { live: Names::new(), durable: Names::new() }
}

fn answer(reply: ReplyEmpty, outcome: Result<(), Errno>) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.0.0.lock();
        let found = state.names(parent).and_then(|names| names.get(name).copied());
        match found.and_then(|node| state.attributes(node)) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.0.lock().attributes(node.0) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut state = self.0.0.lock();
        if let Some(size) = size {
            if let Err(error) = state.writable(0) {
                return reply.error(error);
            }
            if let Some(content) = state.content(node) {
                content.resize(size);
            }
        }
        match state.attributes(node.0) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        match self.0.0.lock().make(parent, name, directory()) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match self.0.0.lock().make(parent, name, file()) {
            Ok(attributes) => {
                let flags = FopenFlags::empty();
                reply.created(&TTL, &attributes, Generation(0), FileHandle(0), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut state = self.0.0.lock();
        let outcome = state.writable(0).and_then(|()| {
            let names = state.names(parent).ok_or(Errno::ENOENT)?;
            names.remove(name).map(|_| ()).ok_or(Errno::ENOENT)
        });
        answer(reply, outcome);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.unlink(request, parent, name, reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut state = self.0.0.lock();
        let outcome = state.writable(0).and_then(|()| {
            let names = state.names(parent).ok_or(Errno::ENOENT)?;
            let node = names.remove(name).ok_or(Errno::ENOENT)?;
            let names = state.names(new_parent).ok_or(Errno::ENOENT)?;
            names.insert(new_name.to_owned(), node);
            Ok(())
        });
        answer(reply, outcome);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        // Past the page cache, so that what the disk holds is what programs read.
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
    }

    fn read(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.0.lock().content(node) {
            Some(content) => reply.data(&content.read(offset, size as usize)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn write(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let mut state = self.0.0.lock();
        if let Err(error) = state.writable(data.len()) {
            return reply.error(error);
        }
        match state.content(node) {
            Some(content) => {
                content.write(offset, data);
                reply.written(data.len() as u32);
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.0.0.lock().sync(node));
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(reply, self.0.0.lock().sync(node));
    }

    fn readdir(
        &self,
        _: &Request,
        node: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let mut state = self.0.0.lock();
        let names: Vec<_> = state.names(node).into_iter().flatten().map(own).collect();
        for (at, (name, number)) in names.into_iter().enumerate().skip(offset as usize) {
            let Some(attributes) = state.attributes(number) else { continue };
            if reply.add(INodeNo(number), at as u64 + 1, attributes.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }
}

fn own<'a>((name, number): (&'a std::ffi::OsString, &'a mut u64)) -> (std::ffi::OsString, u64) {
    (name.clone(), *number)
}
