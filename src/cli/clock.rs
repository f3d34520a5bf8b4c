//! `tenantd clock`: advances the clocks of evaluation tenants on the running server.

use clap::Subcommand;
use serde_json::json;

use super::{Common, Failure, client::Client, output};

#[derive(Debug, Subcommand)]
pub(super) enum ClockCommand {
    /// Advance the clock of an evaluation tenant. Everything that is due by then happens at once, in this tenant only.
    ///
    /// Tickets breach their service levels, keys expire, backups become overdue, workflow schedules and timers fire, and deliveries
    /// are retried. Sessions, tokens and rate limits follow the clock of the installation. A clock cannot be set back.
    Advance {
        /// The duration in days, hours, minutes and seconds, such as 3d, 12h, 90m or 1d12h. At most 366 days.
        #[arg(value_parser = seconds)]
        span: u32,
        /// The tenant's id or slug.
        #[arg(long)]
        tenant: String,
    },
}

const FIELDS: [(&str, &str); 4] =
    [("tenant", "/id"), ("slug", "/slug"), ("current time", "/clock/now"), ("ahead, in seconds", "/clock/ahead_seconds")];

impl ClockCommand {
    pub(super) async fn run(self, common: &Common) -> Result<(), Failure> {
        let client = Client::new(common)?;
        let Self::Advance { span, tenant } = self;
        let path = format!("/api/platform/tenants/{}/clock", client.tenant_id(&tenant).await?);
        let tenant = client.post(&path, Some(&json!({"advance_seconds": span}))).await?;
        if common.json { output::json(&tenant) } else { output::record(&tenant, &FIELDS) }
    }
}

/// Parses a duration such as `1d12h` into seconds. Larger units come first, and each unit occurs at most once.
fn seconds(text: &str) -> Result<u32, String> {
    const UNITS: [(char, u32); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];
    let wrong = || format!("{text} is not a duration: use days, hours, minutes and seconds, such as 3d, 12h, 90m or 1d12h");
    let (mut rest, mut total, mut units) = (text, 0_u32, UNITS.iter());
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let (digits, unit) = rest.split_at(end);
        let mut letters = unit.chars();
        let given = letters.next().ok_or_else(wrong)?;
        let (_, length) = units.find(|(unit, _)| *unit == given).ok_or_else(wrong)?;
        let count: u32 = digits.parse().map_err(|_| wrong())?;
        total = count.checked_mul(*length).and_then(|more| total.checked_add(more)).ok_or_else(wrong)?;
        rest = letters.as_str();
    }
    if total == 0 { Err(wrong()) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units_in_order() {
        for (text, expected) in [("3d", 259_200), ("12h", 43_200), ("90m", 5_400), ("1d12h", 129_600), ("1h1s", 3_601)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for wrong in ["", "3", "d", "0d", "-1d", "1h1d", "1d1d", "1w", "1 d", "99999999d", "1.5h", "1dh"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
