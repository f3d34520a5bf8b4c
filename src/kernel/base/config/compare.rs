//! Finds the settings that differ between two configurations, and those that need a restart.

use toml::{Table, Value};

use super::Config;

/// Settings that a reload applies. A name that ends with a dot stands for all settings of its section.
const RELOADED: &[&str] = &[
    "listen.public_url",
    "listen.trusted_proxies",
    "listen.cors_origins",
    "limits.",
    "rate_limits.",
    "disk.",
    "storage.stall_seconds",
    "telemetry.access_log",
    "telemetry.log_level",
];
/// Settings of those sections that a reload does not apply.
const FIXED: &[&str] = &["limits.connections", "limits.connections_per_address", "limits.streams", "limits.evaluation_events"];

impl Config {
    /// The changed settings of `next` that need a restart.
    pub fn needs_restart(&self, next: &Self) -> Vec<String> {
        let table = |config: &Self| Table::try_from(config).unwrap_or_default();
        let mut found = Vec::new();
        differences(&table(self), &table(next), "", &mut found);
        found.retain(|key| {
            let is_reloaded = RELOADED.iter().any(|name| key == name || (name.ends_with('.') && key.starts_with(name)));
            !is_reloaded || FIXED.contains(&key.as_str())
        });
        found
    }
}

fn differences(before: &Table, after: &Table, prefix: &str, found: &mut Vec<String>) {
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let key = format!("{prefix}{name}");
        match (before.get(name), after.get(name)) {
            (Some(Value::Table(before)), Some(Value::Table(after))) => differences(before, after, &format!("{key}."), found),
            (before, after) if before != after => found.push(key),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load;

    #[test]
    fn settings_that_need_a_restart_are_listed() {
        let with = |flags: &[(&str, &str)]| {
            let flags: Vec<(&str, String)> = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
            load(None, [], &flags).unwrap()
        };
        let next = with(&[
            ("listen.address", "127.0.0.1:9999"),
            ("limits.connections", "99"),
            ("limits.body_bytes", "2048"),
            ("rate_limits.enabled", "false"),
            ("telemetry.log_level", "warn"),
        ]);
        assert_eq!(with(&[]).needs_restart(&next), ["limits.connections", "listen.address"]);
        assert_eq!(next.needs_restart(&next), Vec::<String>::new());
    }
}
