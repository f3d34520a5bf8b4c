//! Merges recorded histogram values into buckets, as a request to `/metrics` also does. Without this task, a server whose metrics
//! are never read would keep one value for every request that it has answered.

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
