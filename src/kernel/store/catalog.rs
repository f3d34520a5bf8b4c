//! Every table of the store, named once. A table that is given up moves to [`RETIRED`] and its name is never used again.
//!
//! Tables that hold time-bounded data are segmented: the engine sees one table a segment (`events.00000012`), so that retention
//! drops whole tables instead of removing rows one by one.

/// A table of the catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableName {
    name: &'static str,
    index: usize,
}

impl TableName {
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// The place in the catalogue.
    pub const fn index(self) -> usize {
        self.index
    }
}

macro_rules! tables {
    (@at $index:expr;) => {
        /// How many tables there are.
        pub const COUNT: usize = $index;
    };
    (@at $index:expr; $(#[$doc:meta])* $constant:ident $name:literal; $($rest:tt)*) => {
        $(#[$doc])*
        pub const $constant: TableName = TableName { name: $name, index: $index };
        tables!(@at $index + 1; $($rest)*);
    };
    (@names $($(#[$doc:meta])* $constant:ident $name:literal;)*) => {
        pub const ALL: &[TableName] = &[$($constant),*];
    };
    ($($rows:tt)*) => {
        tables!(@at 0; $($rows)*);
        tables!(@names $($rows)*);
    };
}

tables! {
    /// Format version, installation id, fingerprint of the installation key.
    META "meta";
    /// Two rows: the last sequence number of the log, and the first that is still kept.
    EVENT_HEAD "event_head";
    /// Segmented: sequence number to event.
    EVENTS "events";
    /// Segmented: tenant and sequence number.
    EVENTS_BY_TENANT "events_by_tenant";
    /// Consumer to the last sequence number that it has handled.
    EVENT_CURSORS "event_cursors";
    /// Answers kept for `Idempotency-Key`.
    IDEMPOTENCY "idempotency";
    IDEMPOTENCY_BY_EXPIRY "idempotency_by_expiry";
    TENANTS "tenants";
    TENANTS_BY_SLUG "tenants_by_slug";
    /// Tenant to the count of its events and the time of the last.
    TENANT_ACTIVITY "tenant_activity";
    USERS "users";
    USERS_BY_EMAIL "users_by_email";
    SESSIONS "sessions";
    SESSIONS_BY_USER "sessions_by_user";
    SESSIONS_BY_EXPIRY "sessions_by_expiry";
    /// Wrong passwords by account.
    LOGIN_FAILURES "login_failures";
    LOGIN_FAILURES_BY_TIME "login_failures_by_time";
    API_KEYS "api_keys";
    API_KEYS_BY_HASH "api_keys_by_hash";
    API_KEYS_BY_NAME "api_keys_by_name";
    /// Installation-wide: when a key next changes by time alone.
    API_KEYS_BY_DUE "api_keys_by_due";
    /// Tenant to the number of its live keys.
    API_KEY_COUNTS "api_key_counts";
}

/// Names that were in use once and must not be used again.
pub const RETIRED: &[&str] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_places_match() {
        let mut names: Vec<&str> = ALL.iter().map(|table| table.name()).chain(RETIRED.iter().copied()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(ALL.len(), COUNT);
        assert!(ALL.iter().enumerate().all(|(place, table)| table.index() == place));
    }
}
