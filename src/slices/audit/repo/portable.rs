//! Export and import of chains when a tenant moves to another installation. Records keep their bytes and hashes. Signatures are not
//! exported; the importing installation signs the chain again.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};

use tenantd_base::{clock::Timestamp, id::TenantId, secrets::Signer};
use tenantd_store::{
    ReadTx, StoreError,
    portable::{Carrier, PortError, Portable},
};

use super::{
    super::model::{Entry, Hash, Statement},
    AuditRecord, CHECKPOINTS, CheckpointRecord, HEADS, HeadRecord, Imported, RECORDS,
};

const LAST_PLACE: u64 = 1 << 53;

/// A record in the export file.
#[derive(Debug, Serialize, Deserialize)]
struct RecordForm {
    number: u64,
    /// The hashed bytes.
    body: String,
    hash: String,
}

/// A checkpoint in the export file, without its signature.
#[derive(Debug, Serialize, Deserialize)]
struct CheckpointForm {
    first: u64,
    number: u64,
    hash: String,
    at: Timestamp,
    /// The key of the last record that the checkpoint covers.
    place: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct HeadForm {
    end: CheckpointForm,
    kept_at: Timestamp,
}

fn parse_hash(text: &str) -> Result<Hash, PortError> {
    let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| Hash::try_from(bytes).ok());
    bytes.ok_or_else(|| PortError::Wrong("hash: must be 64 hexadecimal digits".to_owned()))
}

impl CheckpointForm {
    /// Checks that numbers and places are in range. Later places count on from them, so they have an upper limit.
    fn check(&self) -> Result<(), PortError> {
        let is_sound = 1 <= self.first && self.first <= self.number && self.number <= LAST_PLACE && self.place <= LAST_PLACE;
        if is_sound { Ok(()) } else { Err(PortError::wrong("first, number or place is out of range")) }
    }

    fn new(record: &CheckpointRecord) -> Self {
        let CheckpointRecord { first, number, hash, at, seq, .. } = record;
        Self { first: *first, number: *number, hash: HEXLOWER.encode(hash), at: *at, place: *seq }
    }

    fn sign(&self, tenant_id: TenantId, signer: &Signer) -> Result<CheckpointRecord, PortError> {
        let Self { first, number, at, place, .. } = *self;
        let hash = parse_hash(&self.hash)?;
        let checkpoint = Statement { tenant_id, first, number, hash, at }.sign(signer);
        let signature = checkpoint.map_err(PortError::wrong)?.signature.as_bytes().to_vec();
        Ok(CheckpointRecord { first, number, hash, at, signature, seq: place })
    }
}

/// `verify` checks the tenant's chain after it is stored, and returns where it breaks.
pub(crate) fn portable(
    signer: &Arc<Signer>,
    verify: impl Fn(&ReadTx, TenantId) -> Result<Result<(), String>, StoreError> + Send + Sync + 'static,
) -> Vec<Box<dyn Portable>> {
    let (of_checkpoints, of_heads) = (signer.clone(), signer.clone());
    vec![
        Carrier::turning(
            "audit_record",
            &RECORDS,
            |_, key, AuditRecord { number, body, hash }| {
                let body = String::from_utf8(body).map_err(PortError::wrong)?;
                Ok(Some((key, RecordForm { number, body, hash: HEXLOWER.encode(&hash) })))
            },
            |_, key, RecordForm { number, body, hash }| {
                Ok(Some((key, AuditRecord { number, body: body.into_bytes(), hash: parse_hash(&hash)? })))
            },
        )
        .examined(|_, (tenant, _), record| {
            let entry: Entry = serde_json::from_slice(&record.body).map_err(PortError::wrong)?;
            if (entry.tenant_id, entry.number) == (*tenant, record.number) {
                return Ok(());
            }
            Err(PortError::Wrong(format!("the body contains record {} of {}", entry.number, entry.tenant_id)))
        })
        .boxed(),
        Carrier::turning(
            "audit_checkpoint",
            &CHECKPOINTS,
            |_, key, record| Ok(Some((key, CheckpointForm::new(&record)))),
            move |_, key, form: CheckpointForm| {
                form.check()?;
                Ok(Some((key, form.sign(key.0, &of_checkpoints)?)))
            },
        )
        .boxed(),
        Carrier::turning(
            "audit_head",
            &HEADS,
            |_, tenant, record| Ok(Some((tenant, HeadForm { end: CheckpointForm::new(&record.end), kept_at: record.kept_at }))),
            move |arrival, tenant, HeadForm { end, kept_at }: HeadForm| {
                end.check()?;
                let imported = Imported { number: end.number, offset: end.place.saturating_sub(arrival.last_number) };
                Ok(Some((tenant, HeadRecord { end: end.sign(tenant, &of_heads)?, kept_at, imported: Some(imported) })))
            },
        )
        // A broken chain would make the verification of the whole installation fail.
        .verified_by(move |tx, arrival| verify(tx, arrival.tenant)?.map_err(PortError::Wrong))
        .boxed(),
    ]
}
