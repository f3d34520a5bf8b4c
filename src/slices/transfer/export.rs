//! Writes all records of a tenant from one snapshot.

use tenantd_base::{access::TenantKind, clock::Timestamp, entropy::Entropy, id::TenantId, secrets::Sealer};
use tenantd_platform::Tenant;
use tenantd_store::{
    ReadTx, StoreError, events,
    portable::{Departure, Places, PortError},
};

use super::{
    Core,
    error::TransferError,
    model::{ExportedTenant, Header, Writer},
};

/// The size in bytes at which collected lines are sent.
const PIECE: usize = 64 << 10;

/// The key that seals secrets in the export, and the salt from which it was derived.
#[derive(Clone, Debug)]
pub(super) struct Travel {
    pub(super) sealer: Sealer,
    pub(super) salt: String,
}

/// A requested export.
#[derive(Clone, Debug)]
pub(super) struct ExportRequest {
    pub(super) tenant: TenantId,
    pub(super) travel: Option<Travel>,
}

impl Core {
    /// The tenant, if it can be exported.
    pub(super) fn leaving(&self, tx: &ReadTx, id: TenantId) -> Result<Tenant, TransferError> {
        let tenant = self.others.tenants.get(tx, id)?;
        if tenant.kind == TenantKind::Platform { Err(TransferError::PlatformTenant) } else { Ok(tenant) }
    }

    /// Whether all consumers whose work is exported with the tenant have processed all of its events. Imported events have no
    /// effect, so anything that is not processed in this snapshot would be lost.
    pub(super) fn is_settled(&self, tx: &ReadTx, tenant: TenantId) -> Result<bool, StoreError> {
        for consumer in &self.others.consumers {
            let handled = events::number_at(tx, tenant, events::cursor(tx, consumer)?)?;
            if handled < events::last_number(tx, tenant)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the whole export. `send` receives it in pieces.
    pub(super) fn write_all(
        &self,
        tx: &ReadTx,
        request: &ExportRequest,
        now: Timestamp,
        send: &mut dyn FnMut(Vec<u8>) -> Result<(), PortError>,
    ) -> Result<(), TransferError> {
        let Tenant { id, name, slug, kind, .. } = self.leaving(tx, request.tenant)?;
        let salt = request.travel.as_ref().map(|travel| travel.salt.clone());
        let header = Header::new(ExportedTenant { id, name, slug, kind: Some(kind) }, now, salt, &self.public_key);
        let mut out = Vec::new();
        let mut writer = Writer::begin(&header, &self.signer, &mut out).map_err(StoreError::engine)?;
        let places = Places::new(tx, id)?;
        let travel = request.travel.as_ref().map(|travel| &travel.sealer);
        let (home, entropy) = (&self.others.sealer, Entropy::from_os());
        let mut departure = Departure { tx, tenant: id, places: &places, home, travel, entropy };
        for portable in &self.others.portables {
            portable.leave(&mut departure, &mut |key, record| {
                writer.line(portable.kind(), key, record, &mut out).map_err(StoreError::engine)?;
                if out.len() >= PIECE {
                    send(std::mem::take(&mut out))?;
                }
                Ok(())
            })?;
        }
        writer.end(&mut out).map_err(StoreError::engine)?;
        Ok(send(out)?)
    }
}
