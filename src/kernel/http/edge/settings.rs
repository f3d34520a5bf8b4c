//! The settings of the edge, which a reload replaces.

use std::{sync::Arc, time::Duration};

use tenantd_base::config::{AccessLog, Config, Limits, Origin};

/// Settings that a reload changes.
#[derive(Clone, Debug)]
pub struct EdgeSettings {
    pub limits: Limits,
    pub public_url: Option<Arc<str>>,
    pub trusted_proxies: Vec<ipnet::IpNet>,
    pub cors_origins: Vec<Origin>,
    pub access_log: AccessLog,
    /// How long a proof of identity counts as recent.
    pub recent_within: Duration,
}

impl EdgeSettings {
    pub fn new(config: &Config) -> Self {
        Self {
            limits: config.limits.clone(),
            public_url: config.listen.public_url.as_ref().map(|url| url.trim_end_matches('/').into()),
            trusted_proxies: config.listen.trusted_proxies.clone(),
            cors_origins: config.listen.cors_origins.clone(),
            access_log: config.telemetry.access_log,
            recent_within: Duration::from_secs(config.sessions.recent_seconds),
        }
    }
}
