//! The form of an export: a first line about the whole, a line for each record, a last line that holds them together.
//!
//! Every line of a record ends with the beginning of a hash over all lines of records up to it, so a line that was changed, left out or moved
//! is told by its number; the last of them has the whole hash and the counts, so a file that was cut off is told too. That hash leaves out
//! the first line, which tells when and where the export was made. Signatures (`signature.rs`) stand between the lines and behind the last.
//! **Invariant:** the same records make the same lines, but for the first and the signatures.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_with::skip_serializing_none;
use sha2::{Digest, Sha256};

use tenantd_base::{
    access::TenantKind,
    clock::Timestamp,
    id::TenantId,
    secrets::{PublicKey, SignatureError, Signer},
};

use super::signature::{Covered, SIGNATURE, SignatureLine};

pub const FORMAT: &str = "tenantd-export";
const VERSION: u64 = 2;
/// Before exports were signed, and before the first line had the tenant's kind.
const UNSIGNED_VERSION: u64 = 1;
/// Lines and bytes after which a signature is due.
const SIGNED_LINES: usize = 200;
const SIGNED_BYTES: usize = 512 << 10;
/// The type of the last line.
const END: &str = "end";
/// How many bytes of the hash a line has.
const CHECK_BYTES: usize = 8;
/// What a line of a record ends with, around the check.
const CHECK_FRONT: &str = ",\"check\":\"";
const CHECK_BACK: &str = "\"}";
const CHECK_LENGTH: usize = CHECK_FRONT.len() + 2 * CHECK_BYTES + CHECK_BACK.len();

/// What became of the secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secrets {
    LeftOut,
    /// Under a key made from a passphrase with Argon2id and the salt of the first line.
    Sealed,
}

/// Whose export it is.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    pub id: TenantId,
    pub name: String,
    pub slug: String,
    #[serde(default)]
    pub kind: Option<TenantKind>,
}

/// The first line.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub format: String,
    pub version: u64,
    /// The release of tenantd that made it.
    pub release: String,
    pub exported_at: Timestamp,
    pub tenant: Exported,
    pub secrets: Secrets,
    #[serde(default)]
    pub salt: Option<String>,
    /// The public key of the installation that signs the lines.
    #[serde(default)]
    pub signer: Option<String>,
}

/// Why the first line is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadHeader {
    NotAnExport(String),
    NewerFormat(u64),
}

impl Header {
    pub fn new(tenant: Exported, exported_at: Timestamp, salt: Option<String>, signer: &PublicKey) -> Self {
        let secrets = if salt.is_some() { Secrets::Sealed } else { Secrets::LeftOut };
        let (format, release) = (FORMAT.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Self { format, version: VERSION, release, exported_at, tenant, secrets, salt, signer: Some(signer.to_string()) }
    }

    /// Whether the lines are signed, by whomever.
    pub fn is_signed(&self) -> bool {
        self.version != UNSIGNED_VERSION && self.signer.is_some()
    }

    pub fn read(line: &[u8]) -> Result<Self, BadHeader> {
        #[derive(Deserialize)]
        struct Kind {
            format: String,
            version: u64,
        }
        let told = |error: serde_json::Error| BadHeader::NotAnExport(error.to_string());
        let kind: Kind = serde_json::from_slice(line).map_err(told)?;
        if kind.format != FORMAT {
            return Err(BadHeader::NotAnExport(format!("its first line names the format {}", kind.format)));
        }
        if ![UNSIGNED_VERSION, VERSION].contains(&kind.version) {
            return Err(BadHeader::NewerFormat(kind.version));
        }
        let header: Self = serde_json::from_slice(line).map_err(told)?;
        if header.version == VERSION && header.tenant.kind.is_none() {
            return Err(BadHeader::NotAnExport("its first line does not name the kind of the tenant".to_owned()));
        }
        Ok(header)
    }
}

/// The last line but for its signature.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    #[serde(rename = "type")]
    kind: String,
    /// How many records there are of each type.
    counts: BTreeMap<String, u64>,
    sha256: String,
}

/// A hash that grows with the lines.
#[derive(Clone, Debug, Default)]
struct Running(Sha256);

impl Running {
    /// Takes a line in, but for its own check; what its check must be.
    fn take(&mut self, line: &[u8]) -> String {
        self.0.update(line);
        let hash = self.0.clone().finalize();
        HEXLOWER.encode(hash.as_slice().get(..CHECK_BYTES).unwrap_or_default())
    }

    fn whole(&self) -> String {
        HEXLOWER.encode(&self.0.clone().finalize())
    }
}

/// Why an export cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

/// Makes the lines of an export.
#[derive(Debug)]
pub struct Writer<'a> {
    signer: &'a Signer,
    hash: Running,
    counts: BTreeMap<String, u64>,
    covered: Covered,
    /// Lines and bytes since the last signature.
    unsigned: (usize, usize),
}

impl<'a> Writer<'a> {
    /// Begins with the first line.
    pub fn begin(header: &Header, signer: &'a Signer, out: &mut Vec<u8>) -> Result<Self, WriteError> {
        let (hash, counts, covered) = (Running::default(), BTreeMap::new(), Covered::default());
        let mut writer = Self { signer, hash, counts, covered, unsigned: (0, 0) };
        writer.put(&serde_json::to_vec(header)?, out);
        Ok(writer)
    }

    fn put(&mut self, line: &[u8], out: &mut Vec<u8>) {
        self.covered.take(line);
        self.unsigned = (self.unsigned.0 + 1, self.unsigned.1 + line.len());
        out.extend_from_slice(line);
        out.push(b'\n');
    }

    /// Appends the line of a record to `out`, and a signature when one is due.
    pub fn line(&mut self, kind: &str, key: &RawValue, record: &RawValue, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let line = format!("{{\"type\":\"{kind}\",\"key\":{},\"record\":{}", key.get(), record.get());
        let check = self.hash.take(line.as_bytes());
        let line = [&line, CHECK_FRONT, &check, CHECK_BACK].concat();
        self.put(line.as_bytes(), out);
        match self.counts.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(kind.to_owned(), 1)),
        }
        if self.unsigned.0 >= SIGNED_LINES || self.unsigned.1 >= SIGNED_BYTES { self.sign(out) } else { Ok(()) }
    }

    fn sign(&mut self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let line = SignatureLine::new(&self.covered.sign(self.signer)?);
        out.extend(serde_json::to_vec(&line)?);
        out.push(b'\n');
        self.unsigned = (0, 0);
        Ok(())
    }

    /// Appends the last line, and its signature.
    pub fn end(mut self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let end = End { kind: END.to_owned(), counts: std::mem::take(&mut self.counts), sha256: self.hash.whole() };
        self.put(&serde_json::to_vec(&end)?, out);
        self.sign(out)
    }
}

/// The line of a record, taken apart.
#[derive(Debug, Deserialize)]
pub struct RecordLine<'a> {
    #[serde(rename = "type")]
    pub kind: &'a str,
    #[serde(borrow)]
    pub key: &'a RawValue,
    #[serde(borrow)]
    pub record: &'a RawValue,
    #[serde(rename = "check")]
    _check: &'a str,
}

impl<'a> RecordLine<'a> {
    pub fn read(line: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(line).map_err(|error| format!("it is not the line of a record: {error}"))
    }
}

/// What a line is.
#[derive(Debug)]
pub enum Content<'a> {
    Record(RecordLine<'a>),
    End,
    Signature(SignatureLine),
}

/// Reads the lines behind the first, and tells those that are not what was written.
#[derive(Debug, Default)]
pub struct Reader {
    hash: Running,
    counts: BTreeMap<String, u64>,
    ended: bool,
    /// Whether the signature behind the end has come.
    closed: bool,
}

impl Reader {
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the last signature has come too.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn read<'a>(&mut self, line: &'a [u8]) -> Result<Content<'a>, String> {
        if let Some(signature) = signature(line) {
            if self.closed {
                return Err("there is more behind the last line".to_owned());
            }
            self.closed = self.ended;
            return Ok(Content::Signature(signature));
        }
        if self.ended {
            return Err("there is more behind the last line".to_owned());
        }
        let checked = line.len().checked_sub(CHECK_LENGTH).and_then(|at| line.split_at_checked(at));
        let check = checked.and_then(|(front, back)| {
            let check = back.strip_prefix(CHECK_FRONT.as_bytes())?.strip_suffix(CHECK_BACK.as_bytes())?;
            Some((front, check))
        });
        let Some((front, check)) = check else { return self.end(line).map(|()| Content::End) };
        if self.hash.take(front).as_bytes() != check {
            return Err(
                "it is not what was written here: it was changed, or a line before it was left out, added or moved".to_owned()
            );
        }
        let record = RecordLine::read(line)?;
        match self.counts.get_mut(record.kind) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(record.kind.to_owned(), 1)),
        }
        Ok(Content::Record(record))
    }

    fn end(&mut self, line: &[u8]) -> Result<(), String> {
        let end: End = serde_json::from_slice(line).map_err(|_| "it was changed: it does not end with its check".to_owned())?;
        if end.kind != END {
            return Err("it was changed: it does not end with its check".to_owned());
        }
        if (&end.counts, end.sha256) != (&self.counts, self.hash.whole()) {
            return Err("the lines before the last are not those that it counts".to_owned());
        }
        self.ended = true;
        Ok(())
    }
}

/// The signature of a line that has one.
fn signature(line: &[u8]) -> Option<SignatureLine> {
    serde_json::from_slice(line).ok().filter(|line: &SignatureLine| line.kind == SIGNATURE)
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use tenantd_base::{entropy::Entropy, secrets::InstallationKey};

    use super::*;

    fn signer() -> Signer {
        Signer::of(&InstallationKey::generate(&mut Entropy::from_seed(1)), super::super::signature::PURPOSE).unwrap()
    }

    fn header() -> Header {
        let id = TenantId::from_bytes([1; 16]);
        let tenant = Exported { id, name: "Acme".to_owned(), slug: "acme".to_owned(), kind: Some(TenantKind::Standard) };
        Header::new(tenant, Timestamp::from_millis(0), None, &signer().public_key().unwrap())
    }

    /// The lines behind the first, of so many records.
    fn lines(records: u64) -> Vec<Vec<u8>> {
        let (signer, mut out) = (signer(), Vec::new());
        let mut writer = Writer::begin(&header(), &signer, &mut out).unwrap();
        for number in 1..=records {
            writer.line("ticket", &to_raw_value(&[number]).unwrap(), &to_raw_value("x").unwrap(), &mut out).unwrap();
        }
        writer.end(&mut out).unwrap();
        out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).skip(1).map(<[u8]>::to_vec).collect()
    }

    /// The first line that is refused, from 1; `None` when all are good and the last came.
    fn refused(lines: &[Vec<u8>]) -> Option<usize> {
        let mut reader = Reader::default();
        let bad = lines.iter().position(|line| reader.read(line).is_err()).map(|at| at + 1);
        bad.or_else(|| (!reader.is_closed()).then_some(lines.len() + 1))
    }

    #[test]
    fn every_line_that_is_not_what_was_written_is_told_by_its_number() {
        let whole = lines(3);
        assert_eq!(refused(&whole), None);
        let mut changed = whole.clone();
        changed[1] = String::from_utf8(changed[1].clone()).unwrap().replace("\"x\"", "\"y\"").into_bytes();
        assert_eq!(refused(&changed), Some(2));
        let mut missing = whole.clone();
        missing.remove(0);
        assert_eq!(refused(&missing), Some(1));
        let mut moved = whole.clone();
        moved.swap(0, 1);
        assert_eq!(refused(&moved), Some(1));
        assert_eq!(refused(&whole[..3]), Some(4), "cut off");
        assert_eq!(refused(&whole[..4]), Some(5), "the last signature is missing");
        for at in [0, 4] {
            let mut more = whole.clone();
            more.push(whole[at].clone());
            assert_eq!(refused(&more), Some(6));
        }
        let mut short = whole;
        short[2].truncate(20);
        assert_eq!(refused(&short), Some(3));
    }

    #[test]
    fn no_more_than_some_hundred_lines_are_without_a_signature() {
        let lines = lines(1_000);
        let distances = lines.split(|line| signature(line).is_some()).map(<[Vec<u8>]>::len);
        assert!(distances.clone().count() >= 6 && distances.max().unwrap() <= SIGNED_LINES, "{}", lines.len());
    }

    #[test]
    fn the_first_line_tells_an_export_from_other_files() {
        let header = header();
        let line = serde_json::to_string(&header).unwrap();
        assert!(header.is_signed());
        assert_eq!(Header::read(line.as_bytes()), Ok(header));
        assert_eq!(Header::read(line.replace("\"version\":2", "\"version\":3").as_bytes()), Err(BadHeader::NewerFormat(3)));
        assert!(!Header::read(line.replace("\"version\":2", "\"version\":1").as_bytes()).unwrap().is_signed());
        assert!(matches!(Header::read(b"{\"kind\":\"device\"}"), Err(BadHeader::NotAnExport(_))));
    }
}
