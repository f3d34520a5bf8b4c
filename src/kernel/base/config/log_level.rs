//! The log filter.

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// Parses the filter of the setting. A word alone must be a level: the filter itself would read any other word as the name of a
/// module, and a misspelled level would silence everything else.
pub fn log_filter(level: &str) -> Result<EnvFilter, String> {
    let is_level = |part: &str| part.trim().parse::<LevelFilter>().is_ok();
    if let Some(wrong) = level.split(',').find(|part| !part.contains('=') && !is_level(part)) {
        let right = "error, warn, info, debug, trace or off, or a module with one of these as in tenantd=debug";
        return Err(format!("telemetry.log_level: \"{wrong}\" is not a log level; use {right}"));
    }
    EnvFilter::try_new(level).map_err(|error| format!("telemetry.log_level: {error}"))
}
