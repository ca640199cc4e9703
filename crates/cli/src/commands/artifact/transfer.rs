//! Content on its way, piece by piece.
use super::Shelf;
use super::progress::{Progress, size};
use crate::output::{print, style};
use anyhow::{Context as _, bail, ensure};
use futures::SinkExt as _;
use futures::channel::mpsc;
use orrery_client::files::Download;
use sha2::{Digest as _, Sha256};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Stands for standard input and standard output.
const STANDARD: &str = "-";
/// Bytes that are read at once.
const PIECE: usize = 64 << 10;
/// Pieces that are read before the server has taken them.
const PIECES_WAITING_MAX: usize = 4;

/// The path that a file gets: the one that was asked for, or its own name.
pub fn path_for(file: &Path, asked: Option<String>) -> anyhow::Result<String> {
    if let Some(path) = asked {
        return Ok(path);
    }
    if file == Path::new(STANDARD) {
        bail!("standard input has no name; say which path it gets");
    }
    let name = file.file_name().and_then(|name| name.to_str());
    match name {
        Some(name) => Ok(name.to_owned()),
        None => bail!("{} has no name of its own; say which path it gets", file.display()),
    }
}

pub async fn put(shelf: &Shelf, file: &Path, path: &str) -> anyhow::Result<()> {
    let (reader, whole) = open(file).await?;
    let mut progress = Progress::new(shelf.title(path), whole);
    let (mut pieces, content) = mpsc::channel(PIECES_WAITING_MAX);
    let reading = async {
        let outcome = read(reader, &mut pieces, &mut progress).await;
        if let Err(error) = &outcome {
            // What is not whole is not written: the server must not take it for the end.
            let broken = std::io::Error::other(error.to_string());
            let _ = pieces.send(Err(broken)).await;
        }
        drop(pieces);
        outcome
    };
    let writing = shelf.files.put(&shelf.owner, path, whole, content);
    let (read, written) = tokio::join!(reading, writing);
    drop(progress);
    read.with_context(|| format!("read {}", file.display()))?;
    let word = style::stdout().good("written");
    print::line(&format!("{} {word} ({})", shelf.title(path), size(written?.size_bytes)))
}

/// Standard input or output, as the file that it is.
fn standard(stream: impl AsFd) -> anyhow::Result<tokio::fs::File> {
    let own = stream.as_fd().try_clone_to_owned().context("open standard input or output")?;
    Ok(tokio::fs::File::from_std(own.into()))
}

/// The content of a file, and how much it is where that is known.
async fn open(file: &Path) -> anyhow::Result<(Box<dyn AsyncRead + Send + Unpin>, Option<u64>)> {
    if file == Path::new(STANDARD) {
        return Ok((Box::new(standard(std::io::stdin())?), None));
    }
    let failed = || format!("read {}", file.display());
    let opened = tokio::fs::File::open(file).await.with_context(failed)?;
    let metadata = opened.metadata().await.with_context(failed)?;
    ensure!(!metadata.is_dir(), "{} is a folder; files are written one by one", file.display());
    if !metadata.is_file() {
        // A pipe has no size before its end.
        return Ok((Box::new(opened), None));
    }
    // What is written to it meanwhile does not belong to it yet.
    Ok((Box::new(opened.take(metadata.len())), Some(metadata.len())))
}

async fn read(
    mut reader: Box<dyn AsyncRead + Send + Unpin>,
    pieces: &mut mpsc::Sender<Result<bytes::Bytes, std::io::Error>>,
    progress: &mut Progress,
) -> Result<(), std::io::Error> {
    loop {
        let mut piece = bytes::BytesMut::with_capacity(PIECE);
        let length = reader.read_buf(&mut piece).await?;
        if length == 0 {
            return Ok(());
        }
        // The server has answered before the end; it says why.
        if pieces.send(Ok(piece.freeze())).await.is_err() {
            return Ok(());
        }
        progress.add(length);
    }
}

pub async fn get(shelf: &Shelf, path: &str, file: Option<PathBuf>) -> anyhow::Result<()> {
    let file = match file {
        Some(file) => file,
        None => PathBuf::from(path.rsplit('/').next().unwrap_or(path)),
    };
    let mut download = shelf.files.get(&shelf.owner, path).await?;
    let progress = Progress::new(shelf.title(path), download.size_bytes);
    if file == Path::new(STANDARD) {
        write(&mut download, &mut standard(std::io::stdout())?, progress).await?;
        return Ok(());
    }
    let folder = match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        Some(_) | None => Path::new("."),
    };
    ensure!(!file.is_dir(), "{} is a folder; name the file to write", file.display());
    // It gets its name when it is whole; what is left of a failed one goes by itself.
    let failed = || format!("write {}", file.display());
    let mut builder = tempfile::Builder::new();
    // As the person's mask says, like any file that is written here.
    builder.prefix(".orrery-").permissions(std::fs::Permissions::from_mode(0o666));
    let staged = builder.tempfile_in(folder).with_context(failed)?;
    let opened = staged.reopen().with_context(failed)?;
    let mut opened = tokio::fs::File::from_std(opened);
    let length = write(&mut download, &mut opened, progress).await?;
    staged.persist(&file).map_err(|error| error.error).with_context(failed)?;
    let word = style::stdout().good("written");
    print::line(&format!("{} {word} ({})", file.display(), size(length)))
}

/// Writes what comes, and checks that it is what the server has.
async fn write(
    download: &mut Download,
    into: &mut (impl AsyncWrite + Unpin),
    mut progress: Progress,
) -> anyhow::Result<u64> {
    let mut digest = Sha256::new();
    while let Some(piece) = download.next().await? {
        into.write_all(&piece).await.context("write the file")?;
        digest.update(&piece);
        progress.add(piece.len());
    }
    into.flush().await.context("write the file")?;
    let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(
        found == download.digest,
        "what came is not what the server has: its SHA-256 is {found}, not {}",
        download.digest
    );
    Ok(progress.done())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_keeps_its_name_unless_another_is_asked_for() {
        let check = |file: &str, asked: Option<&str>, expect: Option<&str>| {
            let found = path_for(Path::new(file), asked.map(str::to_owned)).ok();
            assert_eq!(found.as_deref(), expect, "{file} {asked:?}");
        };
        check("conf/app.conf", None, Some("app.conf"));
        check("conf/app.conf", Some("etc/x"), Some("etc/x"));
        check("-", Some("etc/x"), Some("etc/x"));
        check("-", None, None);
        check("..", None, None);
    }
}
