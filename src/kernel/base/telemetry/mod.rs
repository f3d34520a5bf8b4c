//! Logs and metrics. Logs are structured lines on standard output, or on standard error if standard output has an answer. Metrics are rendered for Prometheus on request. Neither contains
//! secrets, because secrets are in types that do not print. `usage` counts the requests of each tenant until they are stored.

mod described;
mod recent;
mod sketch;
mod text;
mod usage;

pub use recent::recent_lines;
pub use sketch::{RANGES, RELATIVE_ERROR, Sketch};
pub use usage::{Caller, Counted, RequestKey, StatusClass, Usage, UsageTaken};

use std::sync::{Arc, OnceLock};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::{EnvFilter, Registry, fmt::writer::BoxMakeWriter, layer::SubscriberExt, reload, util::SubscriberInitExt};

use super::config::{LogFormat, Telemetry, log_filter};

type FilterHandle = reload::Handle<EnvFilter, Registry>;

/// Sets the log level of the running process.
#[derive(Clone)]
pub struct LogControl(Arc<FilterHandle>);

impl std::fmt::Debug for LogControl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogControl")
    }
}

impl LogControl {
    pub fn set_level(&self, level: &str) -> Result<(), String> {
        let filter = log_filter(level)?;
        self.0.reload(filter).map_err(|error| error.to_string())
    }
}

/// Where the log lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogOutput {
    Stdout,
    /// For a command whose answer is on standard output.
    Stderr,
}

/// Installs the log output of the process. It works once per process; later calls fail.
pub fn install_logs(settings: &Telemetry, output: LogOutput) -> Result<LogControl, String> {
    let filter = log_filter(&settings.log_level)?;
    let (filter, handle) = reload::Layer::new(filter);
    let registry = tracing_subscriber::registry().with(filter).with(recent::KeepRecent);
    let writer = match output {
        LogOutput::Stdout => BoxMakeWriter::new(std::io::stdout),
        LogOutput::Stderr => BoxMakeWriter::new(std::io::stderr),
    };
    let installed = match settings.log_format {
        LogFormat::Text => registry.with(text::layer(writer)).try_init(),
        LogFormat::Json => {
            registry.with(tracing_subscriber::fmt::layer().json().flatten_event(true).with_writer(writer)).try_init()
        }
    };
    installed.map_err(|error| error.to_string())?;
    Ok(LogControl(Arc::new(handle)))
}

static METRICS: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Upper bounds of the latency buckets, in seconds.
const LATENCY_BUCKETS: [f64; 12] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0];
const BATCH_BUCKETS: [f64; 9] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// The metrics recorder of the process, installed on first use. All servers of a process share it.
pub fn metrics() -> Option<&'static PrometheusHandle> {
    METRICS
        .get_or_init(|| {
            let builder = PrometheusBuilder::new()
                .set_buckets(&LATENCY_BUCKETS)
                .and_then(|builder| {
                    let batch = metrics_exporter_prometheus::Matcher::Full("tenantd_store_batch_size".to_owned());
                    builder.set_buckets_for_metric(batch, &BATCH_BUCKETS)
                })
                .map_err(|error| error.to_string());
            match builder.and_then(|builder| builder.install_recorder().map_err(|error| error.to_string())) {
                Ok(handle) => {
                    described::describe();
                    Some(handle)
                }
                Err(error) => {
                    tracing::error!(%error, "metrics are not available");
                    None
                }
            }
        })
        .as_ref()
}

/// The message of a panic.
pub fn panic_text(cause: &(dyn std::any::Any + Send)) -> String {
    cause
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| cause.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}
