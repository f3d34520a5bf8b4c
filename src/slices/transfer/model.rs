//! The format of an export: a first line that describes it, a line for each record, and a last line with the counts and a hash.
//!
//! Every record line ends with the beginning of a hash over all record lines up to it, so the reader can report the number of
//! a line that was changed, removed or moved. The last line has the whole hash and the counts, so the reader also detects a
//! truncated file. The hash does not cover the first line, which contains the time and place of the export. Signatures
//! (`signature.rs`) come between the lines and at the end.
//! **Invariant:** the same records produce the same lines, except for the first line and the signatures.

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

use super::signature::{SIGNATURE, SignatureLine, SignedContent};

pub const FORMAT: &str = "tenantd-export";
const VERSION: u64 = 2;
/// The version without signatures, and without the kind of the tenant in the first line.
const UNSIGNED_VERSION: u64 = 1;
/// The number of lines and bytes after which a signature follows.
const SIGNED_LINES: usize = 200;
const SIGNED_BYTES: usize = 512 << 10;
/// The type of the last line.
const END: &str = "end";
/// The number of hash bytes in a line.
const CHECK_BYTES: usize = 8;
/// The end of a record line, around the check.
const CHECK_FRONT: &str = ",\"check\":\"";
const CHECK_BACK: &str = "\"}";
const CHECK_LENGTH: usize = CHECK_FRONT.len() + 2 * CHECK_BYTES + CHECK_BACK.len();

/// How the export contains secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secrets {
    LeftOut,
    /// Sealed with a key that was derived from a passphrase with Argon2id and the salt in the first line.
    Sealed,
}

/// The exported tenant.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedTenant {
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
    /// The release of tenantd that wrote the export.
    pub release: String,
    pub exported_at: Timestamp,
    pub tenant: ExportedTenant,
    pub secrets: Secrets,
    #[serde(default)]
    pub salt: Option<String>,
    /// The public key of the installation that signs the lines.
    #[serde(default)]
    pub signer: Option<String>,
}

/// Why the first line is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadHeader {
    NotAnExport(String),
    NewerFormat(u64),
}

impl Header {
    pub fn new(tenant: ExportedTenant, exported_at: Timestamp, salt: Option<String>, signer: &PublicKey) -> Self {
        let secrets = if salt.is_some() { Secrets::Sealed } else { Secrets::LeftOut };
        let (format, release) = (FORMAT.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Self { format, version: VERSION, release, exported_at, tenant, secrets, salt, signer: Some(signer.to_string()) }
    }

    /// Whether the lines are signed, by any key.
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
            return Err(BadHeader::NotAnExport(format!("its first line has the format {}", kind.format)));
        }
        if ![UNSIGNED_VERSION, VERSION].contains(&kind.version) {
            return Err(BadHeader::NewerFormat(kind.version));
        }
        let header: Self = serde_json::from_slice(line).map_err(told)?;
        if header.version == VERSION && header.tenant.kind.is_none() {
            return Err(BadHeader::NotAnExport("its first line does not contain the kind of the tenant".to_owned()));
        }
        Ok(header)
    }
}

/// The last line before the final signature.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    #[serde(rename = "type")]
    kind: String,
    /// The number of records by type.
    counts: BTreeMap<String, u64>,
    sha256: String,
}

/// A running hash over the lines.
#[derive(Clone, Debug, Default)]
struct RunningHash(Sha256);

impl RunningHash {
    /// Adds a line without its check, and returns the check.
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

/// Writes the lines of an export.
#[derive(Debug)]
pub struct Writer<'a> {
    signer: &'a Signer,
    hash: RunningHash,
    counts: BTreeMap<String, u64>,
    covered: SignedContent,
    /// The number of lines and bytes since the last signature.
    unsigned: (usize, usize),
}

impl<'a> Writer<'a> {
    /// Starts with the first line.
    pub fn begin(header: &Header, signer: &'a Signer, out: &mut Vec<u8>) -> Result<Self, WriteError> {
        let (hash, counts, covered) = (RunningHash::default(), BTreeMap::new(), SignedContent::default());
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

    /// Appends a record line to `out`, and a signature if one is due.
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

    /// Appends the last line and its signature.
    pub fn end(mut self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let end = End { kind: END.to_owned(), counts: std::mem::take(&mut self.counts), sha256: self.hash.whole() };
        self.put(&serde_json::to_vec(&end)?, out);
        self.sign(out)
    }
}

/// A parsed record line.
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
        serde_json::from_slice(line).map_err(|error| format!("it is not a record line: {error}"))
    }
}

/// The content of a line.
#[derive(Debug)]
pub enum Content<'a> {
    Record(RecordLine<'a>),
    End,
    Signature(SignatureLine),
}

/// Reads the lines after the first one, and detects changed lines.
#[derive(Debug, Default)]
pub struct Reader {
    hash: RunningHash,
    counts: BTreeMap<String, u64>,
    ended: bool,
    /// Whether the signature after the end was read.
    closed: bool,
}

impl Reader {
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether the last signature was read.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn read<'a>(&mut self, line: &'a [u8]) -> Result<Content<'a>, String> {
        if let Some(signature) = signature(line) {
            if self.closed {
                return Err("the file continues after its last line".to_owned());
            }
            self.closed = self.ended;
            return Ok(Content::Signature(signature));
        }
        if self.ended {
            return Err("the file continues after its last line".to_owned());
        }
        let checked = line.len().checked_sub(CHECK_LENGTH).and_then(|at| line.split_at_checked(at));
        let check = checked.and_then(|(front, back)| {
            let check = back.strip_prefix(CHECK_FRONT.as_bytes())?.strip_suffix(CHECK_BACK.as_bytes())?;
            Some((front, check))
        });
        let Some((front, check)) = check else { return self.end(line).map(|()| Content::End) };
        if self.hash.take(front).as_bytes() != check {
            return Err("the line was changed, or a line before it was removed, added or moved".to_owned());
        }
        let record = RecordLine::read(line)?;
        match self.counts.get_mut(record.kind) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(record.kind.to_owned(), 1)),
        }
        Ok(Content::Record(record))
    }

    fn end(&mut self, line: &[u8]) -> Result<(), String> {
        let end: End =
            serde_json::from_slice(line).map_err(|_| "the line was changed: it does not end with its check".to_owned())?;
        if end.kind != END {
            return Err("the line was changed: it does not end with its check".to_owned());
        }
        if (&end.counts, end.sha256) != (&self.counts, self.hash.whole()) {
            return Err("the counts or the hash of the last line do not match the lines before it".to_owned());
        }
        self.ended = true;
        Ok(())
    }
}

/// The signature in a line, if it has one.
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
        let tenant = ExportedTenant { id, name: "Acme".to_owned(), slug: "acme".to_owned(), kind: Some(TenantKind::Standard) };
        Header::new(tenant, Timestamp::from_millis(0), None, &signer().public_key().unwrap())
    }

    /// The lines after the first one, for this many records.
    fn lines(records: u64) -> Vec<Vec<u8>> {
        let (signer, mut out) = (signer(), Vec::new());
        let mut writer = Writer::begin(&header(), &signer, &mut out).unwrap();
        for number in 1..=records {
            writer.line("ticket", &to_raw_value(&[number]).unwrap(), &to_raw_value("x").unwrap(), &mut out).unwrap();
        }
        writer.end(&mut out).unwrap();
        out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).skip(1).map(<[u8]>::to_vec).collect()
    }

    /// The number of the first refused line, starting at 1. `None` if all lines are good and complete.
    fn refused(lines: &[Vec<u8>]) -> Option<usize> {
        let mut reader = Reader::default();
        let bad = lines.iter().position(|line| reader.read(line).is_err()).map(|at| at + 1);
        bad.or_else(|| (!reader.is_closed()).then_some(lines.len() + 1))
    }

    #[test]
    fn a_changed_line_is_reported_by_its_number() {
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
    fn signatures_follow_at_regular_intervals() {
        let lines = lines(1_000);
        let distances = lines.split(|line| signature(line).is_some()).map(<[Vec<u8>]>::len);
        assert!(distances.clone().count() >= 6 && distances.max().unwrap() <= SIGNED_LINES, "{}", lines.len());
    }

    #[test]
    fn the_first_line_identifies_an_export() {
        let header = header();
        let line = serde_json::to_string(&header).unwrap();
        assert!(header.is_signed());
        assert_eq!(Header::read(line.as_bytes()), Ok(header));
        assert_eq!(Header::read(line.replace("\"version\":2", "\"version\":3").as_bytes()), Err(BadHeader::NewerFormat(3)));
        assert!(!Header::read(line.replace("\"version\":2", "\"version\":1").as_bytes()).unwrap().is_signed());
        assert!(matches!(Header::read(b"{\"kind\":\"device\"}"), Err(BadHeader::NotAnExport(_))));
    }
}
