//! Transfers a snapshot to the store and back, in pieces. Files and encryption use a blocking thread, the store an async
//! task. A bounded channel connects them.

use std::{
    fs::File,
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path as FilePath, PathBuf},
};

use bytes::{Buf, Bytes};
use data_encoding::HEXLOWER;
use object_store::{ObjectStore, ObjectStoreExt, path::Path};
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

use tenantd_base::{
    entropy::Entropy,
    secrets::age::{AgeError, Decryptor, Encryptor, Identity, Recipient},
};

use super::error::OffsiteError;

/// S3 requires parts of at least 5 MiB, and at most 10,000 parts.
const PART_BYTES: u64 = 8 << 20;
const MOST_PARTS: u64 = 9_000;
/// The number of bytes per read request.
pub(super) const PIECE_BYTES: u64 = 8 << 20;

/// The length of a content and its SHA-256.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// A snapshot that was sent: the file, and the stored object.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) plain: Content,
    pub(super) stored: Content,
}

/// Counts and digests what passes through it.
struct Measured<T> {
    inner: T,
    bytes: u64,
    digest: Sha256,
}

impl<T> Measured<T> {
    fn new(inner: T) -> Self {
        Self { inner, bytes: 0, digest: Sha256::new() }
    }

    fn note(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.digest.update(bytes);
    }

    fn finish(self) -> (T, Content) {
        (self.inner, Content { bytes: self.bytes, sha256: HEXLOWER.encode(&self.digest.finalize()) })
    }
}

impl<R: Read> Read for Measured<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(out)?;
        self.note(out.get(..read).unwrap_or_default());
        Ok(read)
    }
}

impl<W: Write> Write for Measured<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.note(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Collects written bytes into parts of one size.
struct Parts {
    to: mpsc::Sender<Bytes>,
    part: Vec<u8>,
    size: usize,
}

impl Parts {
    fn send(&mut self) -> io::Result<()> {
        let part = std::mem::replace(&mut self.part, Vec::with_capacity(self.size));
        self.to.blocking_send(part.into()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn finish(mut self) -> io::Result<()> {
        if self.part.is_empty() { Ok(()) } else { self.send() }
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.size - self.part.len());
        self.part.extend(bytes.iter().take(taken));
        if self.part.len() == self.size {
            self.send()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the pieces from a channel. The sender ends the channel with its result.
struct Pieces {
    from: mpsc::Receiver<Result<Bytes, object_store::Error>>,
    piece: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.piece.has_remaining() {
            match self.from.blocking_recv() {
                Some(piece) => self.piece = piece.map_err(io::Error::other)?,
                None => return Ok(0),
            }
        }
        let taken = out.len().min(self.piece.len());
        let (to, _) = out.split_at_mut(taken);
        self.piece.copy_to_slice(to);
        Ok(taken)
    }
}

fn part_bytes(file_bytes: u64) -> usize {
    usize::try_from(PART_BYTES.max(file_bytes.div_ceil(MOST_PARTS))).unwrap_or(usize::MAX)
}

/// Uploads a file, encrypted if there are recipients. A failed upload leaves nothing in the store.
pub(super) async fn send(
    store: &dyn ObjectStore,
    to: &Path,
    file: PathBuf,
    recipients: Vec<Recipient>,
) -> Result<Sent, OffsiteError> {
    let mut upload = store.put_multipart(to).await?;
    let (sender, mut parts) = mpsc::channel(1);
    let encoding = tokio::task::spawn_blocking(move || encode(&file, sender, &recipients));
    let mut outcome = Ok(());
    while let Some(part) = parts.recv().await {
        outcome = upload.put_part(part.into()).await;
        if outcome.is_err() {
            break;
        }
    }
    drop(parts);
    let encoded = encoding.await?;
    match (outcome, encoded) {
        (Ok(()), Ok(sent)) => {
            upload.complete().await?;
            Ok(sent)
        }
        (Err(error), _) => {
            abort(upload.as_mut(), to).await;
            Err(error.into())
        }
        (Ok(()), Err(error)) => {
            abort(upload.as_mut(), to).await;
            Err(error)
        }
    }
}

async fn abort(upload: &mut dyn object_store::MultipartUpload, to: &Path) {
    if let Err(error) = upload.abort().await {
        tracing::warn!(%error, object = %to, "cannot remove the parts of an unfinished backup from the store");
    }
}

fn encode(file: &FilePath, to: mpsc::Sender<Bytes>, recipients: &[Recipient]) -> Result<Sent, OffsiteError> {
    let failed = |error: io::Error| OffsiteError::file(file, error);
    let source = File::open(file).map_err(failed)?;
    let size = part_bytes(source.metadata().map_err(failed)?.len());
    let mut source = Measured::new(source);
    let mut stored = Measured::new(Parts { to, part: Vec::with_capacity(size), size });
    if recipients.is_empty() {
        io::copy(&mut source, &mut stored).map_err(failed)?;
    } else {
        let mut encryptor = Encryptor::new(stored, recipients, &mut Entropy::from_os())?;
        io::copy(&mut source, &mut encryptor).map_err(failed)?;
        stored = encryptor.finish().map_err(failed)?;
    }
    let (parts, stored) = stored.finish();
    parts.finish().map_err(failed)?;
    Ok(Sent { plain: source.finish().1, stored })
}

/// Reads an object from the store and computes its digest.
pub(super) async fn measure(store: &dyn ObjectStore, from: &Path) -> Result<Content, OffsiteError> {
    let bytes = store.head(from).await?.size;
    read_through(store, from, bytes, |pieces| {
        let mut pieces = Measured::new(pieces);
        io::copy(&mut pieces, &mut io::sink()).map_err(|error| OffsiteError::Different(error.to_string()))?;
        Ok(pieces.finish().1)
    })
    .await
}

/// Writes an object to a new file, decrypted if there are identities. Removes the file on failure.
pub(super) async fn receive(
    store: &dyn ObjectStore,
    from: &Path,
    identities: Option<Vec<Identity>>,
    file: &FilePath,
) -> Result<Sent, OffsiteError> {
    let bytes = store.head(from).await?.size;
    let target = file.to_owned();
    let received = read_through(store, from, bytes, move |pieces| decode(pieces, identities.as_deref(), &target)).await;
    if received.is_err() && file.exists() {
        std::fs::remove_file(file).map_err(|error| OffsiteError::file(file, error))?;
    }
    received
}

fn decode(pieces: Pieces, identities: Option<&[Identity]>, file: &FilePath) -> Result<Sent, OffsiteError> {
    let failed = |error: io::Error| match error.downcast::<AgeError>() {
        Ok(damaged) => damaged.into(),
        Err(error) => OffsiteError::file(file, error),
    };
    let target = File::options().write(true).create_new(true).mode(0o600).open(file).map_err(failed)?;
    let (mut stored, mut target) = (Measured::new(pieces), Measured::new(target));
    match identities {
        None => io::copy(&mut stored, &mut target).map_err(failed)?,
        Some(identities) => io::copy(&mut Decryptor::new(&mut stored, identities)?, &mut target).map_err(failed)?,
    };
    let (target, plain) = target.finish();
    target.sync_all().map_err(failed)?;
    Ok(Sent { plain, stored: stored.finish().1 })
}

async fn read_through<T: Send + 'static>(
    store: &dyn ObjectStore,
    from: &Path,
    bytes: u64,
    consume: impl FnOnce(Pieces) -> Result<T, OffsiteError> + Send + 'static,
) -> Result<T, OffsiteError> {
    let (sender, receiver) = mpsc::channel(1);
    let consumer = tokio::task::spawn_blocking(move || consume(Pieces { from: receiver, piece: Bytes::new() }));
    let mut start = 0;
    while start < bytes {
        let end = bytes.min(start + PIECE_BYTES);
        let piece = store.get_range(from, start..end).await;
        let last = piece.is_err();
        // A consumer that has ended reports the reason itself.
        if sender.send(piece).await.is_err() || last {
            break;
        }
        start = end;
    }
    drop(sender);
    consumer.await?
}
