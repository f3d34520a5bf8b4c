//! Chains as they leave for another installation and arrive there. Records keep their bytes and hashes; signatures stay behind, and the
//! other installation signs anew what it has got.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use super::{
    super::model::{Hash, Statement},
    AuditRecord, CHECKPOINTS, CheckpointRecord, HEADS, HeadRecord, Imported, RECORDS,
};
use crate::kernel::{
    clock::Timestamp,
    id::TenantId,
    portable::{Carrier, PortError, Portable},
    secrets::Signer,
};

/// A record as it is written in a line.
#[derive(Debug, Serialize, Deserialize)]
struct RecordForm {
    number: u64,
    /// The bytes that are hashed.
    body: String,
    hash: String,
}

/// A checkpoint without its signature.
#[derive(Debug, Serialize, Deserialize)]
struct CheckpointForm {
    first: u64,
    number: u64,
    hash: String,
    at: Timestamp,
    /// The key of its last record.
    place: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct HeadForm {
    end: CheckpointForm,
    kept_at: Timestamp,
}

fn parse_hash(text: &str) -> Result<Hash, PortError> {
    let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| Hash::try_from(bytes).ok());
    bytes.ok_or_else(|| PortError::Wrong("its hash is not 64 hexadecimal digits".to_owned()))
}

impl CheckpointForm {
    fn new(record: &CheckpointRecord) -> Self {
        let CheckpointRecord { first, number, hash, at, seq, .. } = record;
        Self { first: *first, number: *number, hash: HEXLOWER.encode(hash), at: *at, place: *seq }
    }

    fn sign(&self, tenant_id: TenantId, signer: &Signer) -> Result<CheckpointRecord, PortError> {
        let Self { first, number, at, place, .. } = *self;
        let hash = parse_hash(&self.hash)?;
        let checkpoint = Statement { tenant_id, first, number, hash, at }.sign(signer);
        let signature = checkpoint.map_err(|error| PortError::Wrong(error.to_string()))?.signature.as_bytes().to_vec();
        Ok(CheckpointRecord { first, number, hash, at, signature, seq: place })
    }
}

pub(in super::super) fn portable(signer: &Arc<Signer>) -> Vec<Box<dyn Portable>> {
    let (of_checkpoints, of_heads) = (signer.clone(), signer.clone());
    vec![
        Carrier::turning(
            "audit_record",
            &RECORDS,
            |_, key, AuditRecord { number, body, hash }| {
                let body = String::from_utf8(body).map_err(|error| PortError::Wrong(error.to_string()))?;
                Ok(Some((key, RecordForm { number, body, hash: HEXLOWER.encode(&hash) })))
            },
            |_, key, RecordForm { number, body, hash }| {
                Ok((key, AuditRecord { number, body: body.into_bytes(), hash: parse_hash(&hash)? }))
            },
        ),
        Carrier::turning(
            "audit_checkpoint",
            &CHECKPOINTS,
            |_, key, record| Ok(Some((key, CheckpointForm::new(&record)))),
            move |_, key, form| Ok((key, form.sign(key.0, &of_checkpoints)?)),
        ),
        Carrier::turning(
            "audit_head",
            &HEADS,
            |_, tenant, record| Ok(Some((tenant, HeadForm { end: CheckpointForm::new(&record.end), kept_at: record.kept_at }))),
            move |arrival, tenant, HeadForm { end, kept_at }| {
                let imported = Imported { number: end.number, offset: end.place.saturating_sub(arrival.head) };
                Ok((tenant, HeadRecord { end: end.sign(tenant, &of_heads)?, kept_at, imported: Some(imported) }))
            },
        ),
    ]
}
