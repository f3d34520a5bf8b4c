//! The content: chunks of 64 KiB. Each is encrypted with a nonce that counts the chunks and marks the last one.

use std::io::{self, BufRead, BufReader, Read, Write};

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use zeroize::Zeroizing;

use super::{AgeError, FileKey, Identity, Recipient, derive, header};
use crate::entropy::Entropy;

const CHUNK_BYTES: usize = 65_536;
const TAG_BYTES: usize = 16;
const SALT_BYTES: usize = 16;

struct Chunks {
    key: LessSafeKey,
    count: u64,
}

impl Chunks {
    fn new(file_key: &FileKey, salt: &[u8; SALT_BYTES]) -> Result<Self, AgeError> {
        let key = derive(file_key.as_slice(), salt, b"payload")?;
        let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_slice()).map_err(|_| AgeError::Damaged)?;
        Ok(Self { key: LessSafeKey::new(key), count: 0 })
    }

    /// Eleven bytes that count the chunks, and one that marks the last.
    fn next_nonce(&mut self, last: bool) -> Nonce {
        let mut nonce = [0; NONCE_LEN];
        let count = u128::from(self.count) << 8 | u128::from(last);
        for (to, from) in nonce.iter_mut().rev().zip(count.to_le_bytes()) {
            *to = from;
        }
        self.count += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Encrypts what is written to it. Without [`Encryptor::finish`] the file is truncated, and no reader accepts it.
pub struct Encryptor<W> {
    output: W,
    chunks: Chunks,
    plain: Vec<u8>,
}

impl<W: Write> Encryptor<W> {
    pub fn new(mut output: W, recipients: &[Recipient], entropy: &mut Entropy) -> Result<Self, AgeError> {
        let file_key: FileKey = Zeroizing::new(entropy.bytes());
        output.write_all(&header::write(&file_key, recipients, entropy)?)?;
        let salt = entropy.bytes();
        output.write_all(&salt)?;
        let chunks = Chunks::new(&file_key, &salt)?;
        Ok(Self { output, chunks, plain: Vec::with_capacity(CHUNK_BYTES + TAG_BYTES) })
    }

    /// Writes the last chunk.
    pub fn finish(mut self) -> io::Result<W> {
        self.write_chunk(true)?;
        self.output.flush()?;
        Ok(self.output)
    }

    fn write_chunk(&mut self, last: bool) -> io::Result<()> {
        let nonce = self.chunks.next_nonce(last);
        let sealed = self.chunks.key.seal_in_place_append_tag(nonce, Aad::empty(), &mut self.plain);
        sealed.map_err(|_| io::Error::other("a chunk cannot be encrypted"))?;
        self.output.write_all(&self.plain)?;
        self.plain.clear();
        Ok(())
    }
}

impl<W: Write> Write for Encryptor<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A full chunk waits for the next byte, because only then it is known not to be the last.
        if self.plain.len() == CHUNK_BYTES && !bytes.is_empty() {
            self.write_chunk(false)?;
        }
        let taken = bytes.len().min(CHUNK_BYTES - self.plain.len());
        self.plain.extend(bytes.iter().take(taken));
        Ok(taken)
    }

    /// Passes on only whole chunks, because in the age format only the last chunk may be shorter.
    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Decrypts what is read from it.
pub struct Decryptor<R> {
    input: BufReader<R>,
    chunks: Chunks,
    buffer: Zeroizing<Vec<u8>>,
    /// The number of decrypted bytes in the buffer, and how many of them were read.
    length: usize,
    read: usize,
    ended: bool,
}

impl<R: Read> Decryptor<R> {
    /// Reads the header.
    pub fn new(input: R, identities: &[Identity]) -> Result<Self, AgeError> {
        let mut input = BufReader::with_capacity(CHUNK_BYTES, input);
        let file_key = header::read(&mut input, identities)?;
        let mut salt = [0; SALT_BYTES];
        input.read_exact(&mut salt).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => AgeError::Damaged,
            _ => error.into(),
        })?;
        let chunks = Chunks::new(&file_key, &salt)?;
        Ok(Self { input, chunks, buffer: Zeroizing::new(Vec::new()), length: 0, read: 0, ended: false })
    }

    fn next_chunk(&mut self) -> io::Result<()> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, AgeError::Damaged);
        (self.length, self.read) = (0, 0);
        self.buffer.clear();
        let most = (CHUNK_BYTES + TAG_BYTES) as u64;
        self.input.by_ref().take(most).read_to_end(&mut self.buffer)?;
        let last = self.input.fill_buf()?.is_empty();
        let first = self.chunks.count == 0;
        let nonce = self.chunks.next_nonce(last);
        let opened = self.chunks.key.open_in_place(nonce, Aad::empty(), &mut self.buffer).map_err(|_| damaged())?;
        // Only an empty file ends with an empty chunk. Otherwise two files could have the same content.
        if opened.is_empty() && !first {
            return Err(damaged());
        }
        (self.length, self.ended) = (opened.len(), last);
        Ok(())
    }
}

impl<R: Read> Read for Decryptor<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.read == self.length && !self.ended {
            self.next_chunk()?;
        }
        let ready = self.buffer.get(self.read..self.length).unwrap_or_default();
        let taken = ready.len().min(out.len());
        out.iter_mut().zip(ready).for_each(|(to, from)| *to = *from);
        self.read += taken;
        Ok(taken)
    }
}

impl<W> std::fmt::Debug for Encryptor<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Encryptor(…)")
    }
}

impl<R> std::fmt::Debug for Decryptor<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decryptor(…)")
    }
}
