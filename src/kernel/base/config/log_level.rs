//! What is logged.

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// The filter that a setting asks for. A word alone is a level: the filter's own reading takes any other for the name of a module, and a
/// mistyped level would silence everything but that.
pub fn log_filter(level: &str) -> Result<EnvFilter, String> {
    let is_level = |part: &str| part.trim().parse::<LevelFilter>().is_ok();
    if let Some(wrong) = level.split(',').find(|part| !part.contains('=') && !is_level(part)) {
        let right = "error, warn, info, debug, trace or off, or a module with one of these as in tenantd=debug";
        return Err(format!("telemetry.log_level: \"{wrong}\" is no level; use {right}"));
    }
    EnvFilter::try_new(level).map_err(|error| format!("telemetry.log_level: {error}"))
}
