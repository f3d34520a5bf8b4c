//! `/internal/admin/support`: diagnostic data of the live server. **Invariant:** it contains sizes and tenantd's own texts, never
//! tenant data.

use poem_openapi::{Object, OpenApi, Tags};
use serde::Serialize;

use tenantd_base::telemetry;
use tenantd_http::{
    need::{Allowed, LocalOperator},
    problem::Problem,
    reply::Answer,
};
use tenantd_store::{Store, StoreError, catalog, rows_under, table_sizes};

#[derive(Tags)]
enum Area {
    /// Operations that only the admin socket serves.
    Administration,
}

/// The size of a table.
#[derive(Debug, Object, Serialize)]
struct TableSize {
    /// The name of the table.
    name: String,
    /// The number of segments, which retention drops as a whole. 0 if the table is not segmented.
    #[oai(validator(minimum(value = "0")))]
    segments: u64,
    /// The number of rows.
    #[oai(validator(minimum(value = "0")))]
    rows: u64,
    /// The size in bytes.
    #[oai(validator(minimum(value = "0")))]
    bytes: u64,
}

/// Diagnostic data for support.
#[derive(Debug, Object, Serialize)]
struct SupportFacts {
    /// The version of tenantd.
    version: String,
    /// The size of each table in the store.
    tables: Vec<TableSize>,
    /// The number of operator actions in the audit log.
    #[oai(validator(minimum(value = "0")))]
    platform_audit_records: u64,
    /// The last log lines, oldest first. Contains no requests and nothing that tenants wrote.
    log: Vec<String>,
}

pub(crate) struct SupportApi {
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl SupportApi {
    /// Get diagnostic data
    ///
    /// Returns the table sizes and the last log lines, without secrets and without anything that tenants wrote. Reads the whole
    /// store.
    #[oai(path = "/support", method = "get", operation_id = "get_support_facts")]
    async fn get_support_facts(&self, auth: Allowed<LocalOperator>) -> Result<Answer<SupportFacts>, Problem> {
        let platform = auth.principal.tenant_id;
        let read = self
            .store
            .scan(move |tx| Ok::<_, StoreError>((table_sizes(tx)?, rows_under(tx, catalog::AUDIT_RECORDS, platform.as_bytes())?)));
        let (sizes, platform_audit_records) = read.await?;
        let tables = sizes.into_iter().map(|size| TableSize {
            name: size.name.to_owned(),
            segments: size.segments,
            rows: size.rows,
            bytes: size.bytes,
        });
        Ok(Answer::new(&SupportFacts {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            tables: tables.collect(),
            platform_audit_records,
            log: telemetry::recent_lines(),
        }))
    }
}
