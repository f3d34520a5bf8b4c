//! `/internal/admin/support`: what a maker needs to help, of the live server. **Invariant:** sizes and words of ours, nothing of a tenant.

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
    /// What only the admin socket serves.
    Administration,
}

/// How large a table is.
#[derive(Debug, Object, Serialize)]
struct TableSize {
    name: String,
    /// Parts that retention drops as a whole; 0 for a table in one piece.
    #[oai(validator(minimum(value = "0")))]
    segments: u64,
    /// How many rows there are.
    #[oai(validator(minimum(value = "0")))]
    rows: u64,
    /// The size in bytes.
    #[oai(validator(minimum(value = "0")))]
    bytes: u64,
}

/// What is told of a server to whoever helps with it.
#[derive(Debug, Object, Serialize)]
struct SupportFacts {
    /// The version of tenantd.
    version: String,
    /// What each table of the store takes up.
    tables: Vec<TableSize>,
    /// Acts of the operator that are in the audit.
    #[oai(validator(minimum(value = "0")))]
    platform_audit_records: u64,
    /// What was logged last, without requests and without anything that tenants wrote. The oldest first.
    log: Vec<String>,
}

pub(crate) struct SupportApi {
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/internal/admin", tag = "Area::Administration")]
impl SupportApi {
    /// Show what helps to find a fault
    ///
    /// Sizes of tables and the last lines of the log, without any secret and without anything that tenants wrote. Reads the whole store.
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
