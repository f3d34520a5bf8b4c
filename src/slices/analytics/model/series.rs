//! The stored series. Each has a code, which is part of the keys of its rows. **Invariant:** codes never change and are never
//! reused.

/// How the values of a series combine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Values add up.
    Count,
    /// Values add up, and a sketch keeps their distribution.
    Spread,
    /// The newest value wins.
    Gauge,
}

macro_rules! series {
    ($($(#[$doc:meta])* $variant:ident $code:literal $kind:ident $shared:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Series { $($(#[$doc])* $variant),* }

        impl Series {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub(crate) const fn code(self) -> u8 {
                match self { $(Self::$variant => $code),* }
            }

            pub(crate) const fn kind(self) -> Kind {
                match self { $(Self::$variant => Kind::$kind),* }
            }

            /// Whether the series is also summed over all tenants. Its groups are then predefined words, never text from a tenant.
            pub(crate) const fn is_shared(self) -> bool {
                match self { $(Self::$variant => $shared),* }
            }
        }
    };
}

series! {
    /// By priority.
    TicketsCreated 1 Count true;
    /// By the id of the organization.
    TicketsCreatedByOrganization 2 Count false;
    /// By priority.
    TicketsResolved 3 Count true;
    TicketsResolvedByOrganization 4 Count false;
    TicketsReopened 5 Count true;
    /// Seconds from creation to the first response, by priority.
    FirstResponse 6 Spread true;
    /// Seconds from creation to resolution, by priority.
    Resolution 7 Spread true;
    /// Resolved tickets that met both SLA targets, by priority.
    SlaMet 8 Count true;
    RunsStarted 9 Count true;
    /// By the key of the workflow.
    RunsStartedByWorkflow 10 Count false;
    /// By outcome.
    RunsEnded 11 Count true;
    /// In milliseconds.
    RunDuration 12 Spread true;
    /// By outcome: whether the VM was created.
    Provisions 13 Count true;
    /// By outcome.
    BackupJobs 14 Count true;
    RpoBreaches 15 Count true;
    /// By status class.
    Requests 16 Count true;
    /// In microseconds.
    RequestLatency 17 Spread true;
    /// By operation, in microseconds.
    RequestsByRoute 18 Spread true;
    /// By the id of the user or key.
    RequestsByCaller 19 Count false;
    /// Attempts, by outcome.
    Deliveries 20 Count true;
    /// Milliseconds from the event to its delivery.
    DeliveryLag 21 Spread true;
    /// The usage of each quota, by quota name.
    QuotaUsed 22 Gauge false;
    /// The limit of each quota, by quota name.
    QuotaLimit 23 Gauge false;
    /// Unfinished tickets, by status.
    TicketBacklog 30 Gauge true;
    Devices 31 Gauge true;
    DevicesOnline 32 Gauge true;
    /// Devices whose update status has been reported.
    DevicesScanned 33 Gauge true;
    DevicesPatched 34 Gauge true;
    /// By state.
    Vms 35 Gauge true;
    BackupEligible 36 Gauge true;
    BackupProtected 37 Gauge true;
    StoredBytes 38 Gauge true;
    /// This and all following series are of the installation.
    TenantsByKind 40 Gauge false;
    TenantsByStatus 41 Gauge false;
    /// By the id of the tenant.
    RequestsByTenant 42 Count false;
    /// By queue name.
    QueueDepth 43 Gauge false;
    OldestUndelivered 44 Gauge false;
    DatabaseBytes 45 Gauge false;
    IndexBytes 46 Gauge false;
    /// Minutes in which no component was down.
    MinutesUp 47 Count false;
    /// All minutes since the server was first started.
    MinutesWatched 48 Count false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique() {
        let mut codes: Vec<u8> = Series::ALL.iter().map(|series| series.code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Series::ALL.len());
    }
}
