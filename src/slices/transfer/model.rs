//! The form of an export: a first line about the whole, a line for each record, a last line that holds them together.
//!
//! Every line of a record ends with the beginning of a hash over all lines of records up to it, so a line that was changed, left out or moved
//! is told by its number; the last line has the whole hash and the counts, so a file that was cut off is told too. The hash leaves out the
//! first line, which alone tells when and where the export was made. **Invariant:** the same records make the same lines.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use crate::kernel::{clock::Timestamp, id::TenantId};

pub const FORMAT: &str = "tenantd-export";
const VERSION: u64 = 1;
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    pub id: TenantId,
    pub name: String,
    pub slug: String,
}

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    pub format: String,
    pub version: u64,
    /// The release of tenantd that made it.
    pub release: String,
    pub exported_at: Timestamp,
    pub tenant: Exported,
    pub secrets: Secrets,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
}

/// Why the first line is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadHeader {
    NotAnExport(String),
    NewerFormat(u64),
}

impl Header {
    pub fn new(tenant: Exported, exported_at: Timestamp, salt: Option<String>) -> Self {
        let secrets = if salt.is_some() { Secrets::Sealed } else { Secrets::LeftOut };
        let (format, release) = (FORMAT.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        Self { format, version: VERSION, release, exported_at, tenant, secrets, salt }
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
        if kind.version != VERSION {
            return Err(BadHeader::NewerFormat(kind.version));
        }
        serde_json::from_slice(line).map_err(told)
    }
}

/// The last line.
#[derive(Debug, Serialize, Deserialize)]
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

/// Makes the lines behind the first.
#[derive(Debug, Default)]
pub struct Writer {
    hash: Running,
    counts: BTreeMap<String, u64>,
}

impl Writer {
    /// Appends the line of a record to `out`.
    pub fn line(&mut self, kind: &str, key: &RawValue, record: &RawValue, out: &mut Vec<u8>) {
        let line = format!("{{\"type\":\"{kind}\",\"key\":{},\"record\":{}", key.get(), record.get());
        let check = self.hash.take(line.as_bytes());
        for part in [&line, CHECK_FRONT, &check, CHECK_BACK, "\n"] {
            out.extend_from_slice(part.as_bytes());
        }
        match self.counts.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.counts.insert(kind.to_owned(), 1)),
        }
    }

    /// The last line.
    pub fn end(self) -> Result<Vec<u8>, serde_json::Error> {
        let mut line = serde_json::to_vec(&End { kind: END.to_owned(), counts: self.counts, sha256: self.hash.whole() })?;
        line.push(b'\n');
        Ok(line)
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
}

/// Reads the lines behind the first, and tells those that are not what was written.
#[derive(Debug, Default)]
pub struct Reader {
    hash: Running,
    counts: BTreeMap<String, u64>,
    ended: bool,
}

impl Reader {
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }

    pub fn read<'a>(&mut self, line: &'a [u8]) -> Result<Content<'a>, String> {
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

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;

    fn lines() -> Vec<Vec<u8>> {
        let (mut writer, mut out) = (Writer::default(), Vec::new());
        for number in 1..=3_u64 {
            writer.line("ticket", &to_raw_value(&[number]).unwrap(), &to_raw_value("x").unwrap(), &mut out);
        }
        out.extend(writer.end().unwrap());
        out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect()
    }

    /// The first line that is refused, from 1; `None` when all are good and the last came.
    fn refused(lines: &[Vec<u8>]) -> Option<usize> {
        let mut reader = Reader::default();
        let bad = lines.iter().position(|line| reader.read(line).is_err()).map(|at| at + 1);
        bad.or_else(|| (!reader.has_ended()).then_some(lines.len() + 1))
    }

    #[test]
    fn every_line_that_is_not_what_was_written_is_told_by_its_number() {
        let whole = lines();
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
        let mut more = whole.clone();
        more.push(whole[0].clone());
        assert_eq!(refused(&more), Some(5));
        let mut short = whole;
        short[2].truncate(20);
        assert_eq!(refused(&short), Some(3));
    }

    #[test]
    fn the_first_line_tells_an_export_from_other_files() {
        let id = TenantId::from_bytes([1; 16]);
        let tenant = Exported { id, name: "Acme".to_owned(), slug: "acme".to_owned() };
        let header = Header::new(tenant, Timestamp::from_millis(0), None);
        let line = serde_json::to_string(&header).unwrap();
        assert_eq!(Header::read(line.as_bytes()), Ok(header));
        assert_eq!(Header::read(line.replace("\"version\":1", "\"version\":2").as_bytes()), Err(BadHeader::NewerFormat(2)));
        assert!(matches!(Header::read(b"{\"kind\":\"device\"}"), Err(BadHeader::NotAnExport(_))));
    }
}
