//! The series that are stored. Each has a code, which is a part of its rows' keys: never changed, never used again.

/// How the figures of a series come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// They add up.
    Count,
    /// They add up, and are spread over a sketch.
    Spread,
    /// The newest counts.
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

            /// Whether it is also summed over all tenants: its groups are words of ours, never a tenant's.
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
    /// Seconds from creation to the first answer, by priority.
    FirstResponse 6 Spread true;
    /// Seconds from creation to resolution, by priority.
    Resolution 7 Spread true;
    /// Resolved with both promises kept, by priority.
    SlaMet 8 Count true;
    RunsStarted 9 Count true;
    /// By the key of the workflow.
    RunsStartedByWorkflow 10 Count false;
    /// By how they ended.
    RunsEnded 11 Count true;
    /// Milliseconds.
    RunDuration 12 Spread true;
    /// By whether the VM came to be.
    Provisions 13 Count true;
    /// By how they ended.
    BackupJobs 14 Count true;
    RpoBreaches 15 Count true;
    /// By class of status.
    Requests 16 Count true;
    /// Microseconds.
    RequestLatency 17 Spread true;
    /// By operation; microseconds.
    RequestsByRoute 18 Spread true;
    /// By the id of the user or key.
    RequestsByCaller 19 Count false;
    /// Attempts, by what came of them.
    Deliveries 20 Count true;
    /// Milliseconds from the event to its delivery.
    DeliveryLag 21 Spread true;
    /// What is used of each quota, by its name.
    QuotaUsed 22 Gauge false;
    /// The limit of each quota, by its name.
    QuotaLimit 23 Gauge false;
    /// Tickets that are not finished, by status.
    TicketBacklog 30 Gauge true;
    Devices 31 Gauge true;
    DevicesOnline 32 Gauge true;
    /// Devices of whose updates somebody has told.
    DevicesScanned 33 Gauge true;
    DevicesPatched 34 Gauge true;
    /// By state.
    Vms 35 Gauge true;
    BackupEligible 36 Gauge true;
    BackupProtected 37 Gauge true;
    StoredBytes 38 Gauge true;
    /// Of the installation, as all that follow.
    TenantsByKind 40 Gauge false;
    TenantsByStatus 41 Gauge false;
    /// By the id of the tenant.
    RequestsByTenant 42 Count false;
    /// By the name of the queue.
    QueueDepth 43 Gauge false;
    OldestUndelivered 44 Gauge false;
    DatabaseBytes 45 Gauge false;
    IndexBytes 46 Gauge false;
    /// Minutes in which the server answered and stored.
    MinutesUp 47 Count false;
    /// Minutes in which it should have.
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
