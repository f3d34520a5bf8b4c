//! The lines of an export, and their verification on any machine. It needs only the lines and the public key.
//!
//! **Invariant:** a line contains its record byte for byte as it was written, because the hash covers those bytes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::TenantId, secrets::PublicKey};

use super::super::{
    model::{Checkpoint, Hash, Statement, hex},
    verify::{Break, Verified, Walk},
};

/// The first line: the tenant of the chain, and what its first record follows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainForm {
    pub(super) tenant_id: TenantId,
    /// The number of the first record.
    pub(super) first: u64,
    pub(super) previous_hash: String,
    pub(super) public_key: String,
}

/// The JSON form of a checkpoint.
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CheckpointForm {
    pub(super) tenant_id: TenantId,
    pub(super) first: u64,
    pub(super) number: u64,
    pub(super) hash: String,
    pub(super) at: Timestamp,
    pub(super) signature: String,
    #[serde(default)]
    pub(super) public_key: Option<String>,
}

impl CheckpointForm {
    pub(super) fn new(checkpoint: &Checkpoint) -> Self {
        let Statement { tenant_id, first, number, hash, at } = checkpoint.statement;
        let signature = checkpoint.signature.to_string();
        Self { tenant_id, first, number, hash: hex(&hash), at, signature, public_key: None }
    }

    pub(super) fn checkpoint(&self) -> Result<Checkpoint, String> {
        let Self { tenant_id, first, number, at, .. } = *self;
        let signature = self.signature.parse().map_err(|error| format!("the signature of a checkpoint is not valid: {error}"))?;
        let statement = Statement { tenant_id, first, number, hash: read_hash(&self.hash)?, at };
        Ok(Checkpoint { statement, signature })
    }
}

/// Returns a checkpoint as JSON.
pub fn show_checkpoint(checkpoint: &Checkpoint, key: &PublicKey) -> Result<Value, serde_json::Error> {
    serde_json::to_value(CheckpointForm { public_key: Some(key.to_string()), ..CheckpointForm::new(checkpoint) })
}

/// Parses the output of [`show_checkpoint`], or a checkpoint line of an export.
pub fn parse_checkpoint(text: &str) -> Result<Checkpoint, String> {
    let wrong = |error: serde_json::Error| format!("this is not a checkpoint: {error}");
    let line: Value = serde_json::from_str(text).map_err(wrong)?;
    let form = line.get("checkpoint").cloned().unwrap_or(line);
    serde_json::from_value::<CheckpointForm>(form).map_err(wrong)?.checkpoint()
}

/// A line with a record.
#[derive(Debug, Serialize)]
pub(super) struct RecordLine<'a> {
    pub(super) record: &'a RawValue,
    pub(super) hash: String,
}

#[derive(Debug, Serialize)]
pub(super) struct CheckpointLine {
    pub(super) checkpoint: CheckpointForm,
}

#[derive(Debug, Serialize)]
pub(super) struct ChainLine {
    pub(super) chain: ChainForm,
}

fn read_hash(text: &str) -> Result<Hash, String> {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(|error| format!("a hash is not valid: {error}"))?;
    bytes.try_into().map_err(|_| "a hash must have 64 hexadecimal digits".to_owned())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    #[serde(default)]
    chain: Option<ChainForm>,
    #[serde(default)]
    record: Option<Box<RawValue>>,
    #[serde(default)]
    hash: Option<String>,
    #[serde(default)]
    checkpoint: Option<CheckpointForm>,
    #[serde(default, rename = "_end")]
    end: Option<bool>,
    #[serde(default, rename = "count")]
    _count: Option<u64>,
}

/// Verifies an export, line by line.
#[derive(Debug)]
pub struct ExportCheck<'a> {
    key: &'a PublicKey,
    known: &'a [Checkpoint],
    walk: Option<Walk<'a>>,
    ended: bool,
    lines: u64,
    verified: Verified,
}

impl<'a> ExportCheck<'a> {
    /// `known` are checkpoints that were stored elsewhere.
    pub fn new(key: &'a PublicKey, known: &'a [Checkpoint]) -> Self {
        Self { key, known, walk: None, ended: false, lines: 0, verified: Verified::default() }
    }

    /// Checks the next line. Fails if it is not a line of an export; [`Self::end`] reports a break of the chain.
    pub fn line(&mut self, text: &str) -> Result<(), String> {
        self.lines += 1;
        let number = self.lines;
        let fail = |reason: String| format!("line {number}: {reason}");
        if !self.verified.is_sound() {
            return Ok(());
        }
        let line: Line = serde_json::from_str(text).map_err(|error| fail(error.to_string()))?;
        match (line, &mut self.walk) {
            (Line { chain: Some(chain), .. }, None) => {
                let previous = read_hash(&chain.previous_hash).map_err(fail)?;
                self.walk = Some(Walk::new(chain.tenant_id, chain.first, previous, Some(self.key), self.known));
                self.verified.chains = 1;
                Ok(())
            }
            (Line { record: Some(_), .. }, None) => {
                Err(fail("this export does not begin with its chain; only an export without filters can be verified".to_owned()))
            }
            (Line { record: Some(record), hash: Some(hash), .. }, Some(walk)) => {
                let hash = read_hash(&hash).map_err(fail)?;
                self.verified.records += 1;
                let walked = walk.record(record.get().as_bytes(), &hash, None);
                self.found(walked);
                Ok(())
            }
            (Line { checkpoint: Some(checkpoint), .. }, Some(walk)) => {
                let checkpoint = checkpoint.checkpoint().map_err(fail)?;
                self.verified.checkpoints += 1;
                let walked = walk.checkpoint(&checkpoint);
                self.found(walked);
                Ok(())
            }
            (Line { end: Some(true), .. }, _) => {
                self.ended = true;
                Ok(())
            }
            _ => Err(fail("this is not a line of an audit export".to_owned())),
        }
    }

    fn found(&mut self, walked: Result<(), Break>) {
        self.verified.breaks.extend(walked.err());
    }

    /// Returns the result after all lines were read.
    pub fn end(mut self) -> Result<Verified, String> {
        if !self.verified.is_sound() {
            return Ok(self.verified);
        }
        let walk = self.walk.take().ok_or("this audit export cannot be verified: it has no chain; export again without filters")?;
        let walked = walk.end(None);
        self.found(walked);
        if self.verified.is_sound() && !self.ended {
            return Err("the export is incomplete: its last line is missing; export again".to_owned());
        }
        Ok(self.verified)
    }
}
