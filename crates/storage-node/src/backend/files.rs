//! Image files in two folders, for the backends that keep images as files.
use super::{Image, Role, image};
use crate::{
    error::{Doing, Result},
    volume::{Capacity, Media, VolumeName},
};
use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

/// Where images are kept.
#[derive(Clone, Debug)]
pub struct Files {
    /// For images on disk.
    images: PathBuf,
    /// For images in memory: a folder on a tmpfs, such as one in `/dev/shm`.
    memory: PathBuf,
}

impl Files {
    /// Prepares the folders, and deletes what a crash left half written.
    pub fn open(images: &Path, memory: &Path) -> Result<Self> {
        Ok(Self { images: prepare(images)?, memory: prepare(memory)? })
    }

    pub fn folder(&self, media: Media) -> &Path {
        match media {
            Media::File => &self.images,
            Media::Memory => &self.memory,
        }
    }

    pub fn path(&self, image: &Image) -> PathBuf {
        let ending = match image.role {
            Role::Volume => "img",
            Role::Snapshot => "snap",
        };
        self.folder(image.media).join(format!("{}.{ending}", image.name))
    }

    /// Whether a path is that of an image of ours.
    pub fn holds(&self, path: &Path) -> bool {
        path.parent().is_some_and(|folder| folder == self.images || folder == self.memory)
    }

    pub fn list(&self) -> Result<Vec<Image>> {
        let mut images = Vec::new();
        for media in [Media::File, Media::Memory] {
            let doing = || "list images".to_owned();
            for entry in fs::read_dir(self.folder(media)).doing(doing)? {
                images.extend(image_of(&entry.doing(doing)?.path(), media));
            }
        }
        Ok(images)
    }

    /// What the file system of the folder has. Images are sparse, so what is free is what they may
    /// still take, not what has been promised.
    pub fn capacity(&self, media: Media) -> Result<Capacity> {
        let folder = self.folder(media);
        let found = rustix::fs::statvfs(folder).doing(|| format!("ask {}", folder.display()))?;
        Ok(Capacity {
            total_bytes: found.f_blocks * found.f_frsize,
            available_bytes: found.f_bavail * found.f_frsize,
        })
    }
}

fn prepare(folder: &Path) -> Result<PathBuf> {
    let prepared = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == image::PARTIAL) {
                fs::remove_file(path)?;
            }
        }
        // Data planes show real paths, and they are compared with ours.
        fs::canonicalize(folder)
    };
    prepared().doing(|| format!("prepare the folder {}", folder.display()))
}

fn image_of(path: &Path, media: Media) -> Option<Image> {
    let role = match path.extension()?.to_str()? {
        "img" => Role::Volume,
        "snap" => Role::Snapshot,
        _ => return None,
    };
    let name = VolumeName::parse(path.file_stem()?.to_str()?).ok()?;
    Some(Image { name, media, role })
}
