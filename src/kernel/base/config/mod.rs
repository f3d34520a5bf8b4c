//! The configuration as plain data. `config/tenantd.toml` is compiled in as the defaults, and it is the documentation. `load`
//! merges a file, the environment and flags into it. Nothing here knows what a setting is used for.

mod compare;
mod egress;
mod load;
mod log_level;
mod offsite;
mod only_target;
mod origin;

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::quotas::Quotas;

pub use egress::{Egress, PRIVATE_NETWORKS};
pub use load::{ConfigError, load};
pub use log_level::log_filter;
pub use offsite::Offsite;
pub use only_target::OnlyTarget;
pub use origin::Origin;

/// The file with every key and its default.
pub const DEFAULTS: &str = include_str!("../../../../config/tenantd.toml");

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub data: Data,
    pub listen: Listen,
    pub tls: Tls,
    pub limits: Limits,
    pub rate_limits: RateLimits,
    pub quotas: Quotas,
    pub storage: Storage,
    pub snapshots: Snapshots,
    pub offsite: Offsite,
    pub upgrade: Upgrade,
    pub disk: Disk,
    pub secrets: Secrets,
    pub sessions: Sessions,
    pub api_keys: ApiKeys,
    pub directory: Directory,
    pub tickets: Tickets,
    pub backup: Backup,
    pub events: Events,
    pub audit: Audit,
    pub webhooks: Webhooks,
    pub workflows: Workflows,
    pub cloud: Cloud,
    pub analytics: Analytics,
    pub egress: Egress,
    pub telemetry: Telemetry,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Upgrade {
    pub legacy_days: u32,
}

impl Upgrade {
    /// How long records of older releases work without an owner.
    pub fn grace(self) -> Duration {
        Duration::from_hours(24 * u64::from(self.legacy_days))
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Analytics {
    pub count_requests: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    pub directory: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listen {
    pub address: SocketAddr,
    pub tls: bool,
    #[serde(with = "empty_is_none")]
    pub redirect_address: Option<SocketAddr>,
    #[serde(with = "empty_is_none")]
    pub public_url: Option<String>,
    pub trusted_proxies: Vec<IpNet>,
    pub cors_origins: Vec<Origin>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    #[serde(with = "empty_is_none")]
    pub certificate_file: Option<PathBuf>,
    #[serde(with = "empty_is_none")]
    pub private_key_file: Option<PathBuf>,
    #[serde(with = "empty_is_none")]
    pub client_ca_file: Option<PathBuf>,
    pub reload_seconds: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub connections: usize,
    pub connections_per_address: usize,
    pub handshake_seconds: u64,
    pub header_seconds: u64,
    pub request_seconds: u64,
    pub idle_seconds: u64,
    pub header_bytes: usize,
    pub header_count: usize,
    pub body_bytes: usize,
    pub public_body_bytes: usize,
    pub buffered_body_bytes: usize,
    pub body_min_bytes_per_second: usize,
    pub stream_idle_seconds: u64,
    pub streams: usize,
    pub http2_streams: u32,
    pub json_depth: usize,
    pub shutdown_seconds: u64,
    pub evaluation_events: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RateLimits {
    pub enabled: bool,
    pub read: Rate,
    pub search: Rate,
    pub report: Rate,
    pub write: Rate,
    pub provision: Rate,
    pub evaluation_percent: u32,
    pub sign_in_per_address: u32,
    pub public_per_address: u32,
}

/// Requests per minute.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    pub credential: u32,
    pub tenant: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storage {
    pub cache_bytes: usize,
    pub journal_bytes: u64,
    pub batch_size: usize,
    pub queue_length: usize,
    pub stall_seconds: u64,
    pub scrub_days: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshots {
    #[serde(with = "empty_is_none")]
    pub directory: Option<PathBuf>,
    pub max_age_hours: u32,
    pub before_upgrade: bool,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub low_percent: u32,
    pub low_bytes: u64,
    pub full_percent: u32,
    pub full_bytes: u64,
    pub reserve_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Secrets {
    #[serde(with = "empty_is_none")]
    pub installation_key_file: Option<PathBuf>,
    pub password_hashes: usize,
    pub password_queue: usize,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sessions {
    pub idle_seconds: u64,
    pub absolute_seconds: u64,
    pub most_per_user: usize,
    pub recent_seconds: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApiKeys {
    pub max_live: u64,
    pub max_personal: u64,
    pub max_expires_days: u32,
    pub default_expires_days: u32,
    pub expiring_days: u32,
    pub retention_days: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Directory {
    pub agent_offline_seconds: u64,
    pub agent_overdue_seconds: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tickets {
    pub auto_close_days: u32,
    pub time_zone: String,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Backup {
    pub job_retention_days: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    pub retention_days: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Audit {
    pub retention_days: u32,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhooks {
    pub max_endpoints: usize,
    pub in_flight: usize,
    pub in_flight_per_endpoint: usize,
    pub max_pending_per_tenant: u64,
    pub degraded_after_seconds: u64,
    pub shutdown_seconds: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workflows {
    pub max_descendants: u64,
    pub in_flight: usize,
    pub retention_days: u32,
    pub shutdown_seconds: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cloud {
    pub max_providers: usize,
    pub sync_interval_seconds: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Telemetry {
    pub log_format: LogFormat,
    pub log_level: String,
    pub access_log: AccessLog,
    #[serde(with = "empty_is_none")]
    pub metrics_token_file: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessLog {
    All,
    Changes,
    Errors,
    None,
}

/// In a configuration file an empty text means "not set".
mod empty_is_none {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

    #[allow(clippy::ref_option, reason = "serde hands fields over by reference")]
    pub(super) fn serialize<T: Serialize, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_str(""),
        }
    }

    pub(super) fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = String::deserialize(deserializer)?;
        if text.is_empty() {
            return Ok(None);
        }
        text.parse().map(Some).map_err(D::Error::custom)
    }
}
