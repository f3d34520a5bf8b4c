//! Folds what histograms have taken in into their buckets, as a reading of `/metrics` does too. Without it a server whose metrics
//! nobody reads would keep a number for every request that it has ever answered.

use std::time::Duration;

use tenantd_base::telemetry;

use super::{Done, Task, TaskError};

#[derive(Clone, Copy, Debug)]
pub struct MetricsUpkeep;

impl Task for MetricsUpkeep {
    fn name(&self) -> &'static str {
        "metrics_upkeep"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(10)
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        if let Some(metrics) = telemetry::metrics() {
            metrics.run_upkeep();
        }
        Ok(Done::All)
    }
}
