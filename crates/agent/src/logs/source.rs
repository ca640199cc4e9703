//! The output of an instance, whoever wrote it down.
use super::CONTAINER_LOG;
use super::container::Decoder;
use super::position::Position;
use super::reader::{Files, Piece, Reader, Start};
use std::io;
use std::path::Path;

/// Reads the files of one instance.
#[derive(Debug)]
pub(super) struct Source {
    reader: Reader,
    /// Of a container.
    decoder: Option<Decoder>,
}

/// What there was.
#[derive(Debug)]
pub(super) struct Look {
    pub piece: Piece,
    /// There is no more at the moment.
    pub ended: bool,
}

impl Source {
    /// For the log in this folder.
    pub(super) fn open(folder: &Path, start: Start) -> io::Result<Self> {
        let container = folder.join(CONTAINER_LOG);
        let decoder = container.exists().then(Decoder::default);
        let files = match decoder.is_some() {
            true => Files::One(container),
            false => Files::Folder(folder.to_owned()),
        };
        Ok(Self { reader: Reader::open(files, start)?, decoder })
    }

    pub(super) fn next(&mut self, max: usize) -> io::Result<Look> {
        let piece = self.reader.next(max)?;
        let ended = piece.data.is_empty();
        let piece = match &mut self.decoder {
            Some(decoder) => decoder.decode(piece),
            None => piece,
        };
        Ok(Look { piece, ended })
    }

    /// Where what was handed out ends.
    pub(super) fn position(&self) -> io::Result<Position> {
        self.reader.position(self.decoder.as_ref().map_or(0, Decoder::waiting))
    }
}
