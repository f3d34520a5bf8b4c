//! An export as lines, and the check of one on any machine: nothing but the lines and the public key is needed.
//!
//! **Invariant:** a record is in its line byte for byte as it was written, for its hash is over those bytes.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::TenantId, secrets::PublicKey};

use super::super::{
    model::{Checkpoint, Hash, Statement, hex},
    verify::{Break, Verified, Walk},
};

/// The first line: whose chain it is, and what its first record follows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainForm {
    pub(super) tenant_id: TenantId,
    /// The number of the first record.
    pub(super) first: u64,
    pub(super) previous_hash: String,
    pub(super) public_key: String,
}

/// A checkpoint, as it is shown, exported and kept elsewhere.
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
        let signature = self.signature.parse().map_err(|error| format!("the signature of a checkpoint: {error}"))?;
        let statement = Statement { tenant_id, first, number, hash: read_hash(&self.hash)?, at };
        Ok(Checkpoint { statement, signature })
    }
}

/// A checkpoint as JSON.
pub fn show_checkpoint(checkpoint: &Checkpoint, key: &PublicKey) -> Result<Value, serde_json::Error> {
    serde_json::to_value(CheckpointForm { public_key: Some(key.to_string()), ..CheckpointForm::new(checkpoint) })
}

/// Reads what [`show_checkpoint`] gives, or a line of an export with a checkpoint in it.
pub fn parse_checkpoint(text: &str) -> Result<Checkpoint, String> {
    let wrong = |error: serde_json::Error| format!("not a checkpoint: {error}");
    let line: Value = serde_json::from_str(text).map_err(wrong)?;
    let form = line.get("checkpoint").cloned().unwrap_or(line);
    serde_json::from_value::<CheckpointForm>(form).map_err(wrong)?.checkpoint()
}

/// A record in its line.
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
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(|error| format!("a hash cannot be read: {error}"))?;
    bytes.try_into().map_err(|_| "a hash has 64 hexadecimal digits".to_owned())
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

/// The check of an export, line by line.
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
    /// `known` are checkpoints that were kept elsewhere.
    pub fn new(key: &'a PublicKey, known: &'a [Checkpoint]) -> Self {
        Self { key, known, walk: None, ended: false, lines: 0, verified: Verified::default() }
    }

    /// The next line. An error says what is no line of an export; a break of the chain is found at the end.
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
                Err(fail("this export does not begin with its chain: only one without filters can be checked".to_owned()))
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
            _ => Err(fail("this is no line of an export of the audit".to_owned())),
        }
    }

    fn found(&mut self, walked: Result<(), Break>) {
        self.verified.breaks.extend(walked.err());
    }

    /// What was found, once all lines were read.
    pub fn end(mut self) -> Result<Verified, String> {
        if !self.verified.is_sound() {
            return Ok(self.verified);
        }
        let walk = self.walk.take().ok_or("this is no export of the audit that can be checked: it has no chain")?;
        let walked = walk.end(None);
        self.found(walked);
        if self.verified.is_sound() && !self.ended {
            return Err("the export is cut off: its last line is missing".to_owned());
        }
        Ok(self.verified)
    }
}
