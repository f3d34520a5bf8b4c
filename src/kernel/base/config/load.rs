//! Reads the configuration in layers: the defaults, a file, `TENANTD_SECTION__KEY` variables, and flags. An unknown key or a value
//! of the wrong type is refused with the file, the line and the closest known key.

use std::{ops::Range, path::Path};

use toml::{
    Table, Value,
    de::{DeTable, DeValue},
};

use super::{Config, DEFAULTS, log_filter};
use crate::vocabulary::nearest;

/// Everything that is wrong with the configuration. The text is for the operator. It has one line for each fault, with its place,
/// its cause and the correction.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ConfigError(Vec<String>);

/// Collects faults while the layers are read.
#[derive(Default)]
struct Faults(Vec<String>);

impl Faults {
    fn add(&mut self, place: &str, problem: impl std::fmt::Display) {
        self.0.push(format!("{place}: {problem}"));
    }

    fn check(self) -> Result<(), ConfigError> {
        if self.0.is_empty() { Ok(()) } else { Err(ConfigError(self.0)) }
    }
}

const VARIABLE_PREFIX: &str = "TENANTD_";

/// Reads the configuration from the defaults, then `file`, then `variables`, then `flags` (dotted key and value). Only variables
/// that start with `TENANTD_` and contain `__` count.
pub fn load(
    file: Option<&Path>,
    variables: impl IntoIterator<Item = (String, String)>,
    flags: &[(&str, String)],
) -> Result<Config, ConfigError> {
    let defaults: Table = DEFAULTS.parse().map_err(|error| ConfigError(vec![format!("built-in defaults: {error}")]))?;
    let (mut settings, mut faults) = (defaults.clone(), Faults::default());
    if let Some(path) = file {
        merge_file(&mut settings, &defaults, path, &mut faults);
    }
    for (name, text) in variables {
        let Some((section, key)) = name.strip_prefix(VARIABLE_PREFIX).and_then(|rest| rest.split_once("__")) else { continue };
        let path: Vec<String> = std::iter::once(section).chain(key.split("__")).map(str::to_lowercase).collect();
        merge_text(&mut settings, &path, &text, &format!("environment variable {name}"), &mut faults);
    }
    for (key, text) in flags {
        let path: Vec<String> = key.split('.').map(str::to_owned).collect();
        merge_text(&mut settings, &path, text, &format!("flag for {key}"), &mut faults);
    }
    faults.check()?;
    let unusable = |error: toml::de::Error| ConfigError(vec![format!("settings: {}", error.to_string().trim().replace('\n', " "))]);
    let config: Config = settings.try_into().map_err(unusable)?;
    let mut faults = Faults::default();
    let conflicts = conflict(&config).map(str::to_owned).into_iter().chain(config.egress.conflict());
    for problem in range_problems(&config).into_iter().chain(conflicts) {
        faults.add("settings", problem);
    }
    faults.check().map(|()| config)
}

/// Finds settings that are valid by themselves but not together.
fn conflict(config: &Config) -> Option<&'static str> {
    if config.api_keys.default_expires_days > config.api_keys.max_expires_days {
        return Some("api_keys.default_expires_days is longer than api_keys.max_expires_days");
    }
    if config.tls.certificate_file.is_some() != config.tls.private_key_file.is_some() {
        return Some("tls.certificate_file and tls.private_key_file belong together: set both or neither");
    }
    config.offsite.conflict()
}

fn merge_file(settings: &mut Table, defaults: &Table, path: &Path, faults: &mut Faults) {
    let shown = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return faults.add(&shown, error),
    };
    match DeTable::parse(&text) {
        Ok(parsed) => {
            let mut file = FileContext { shown: &shown, text: &text, faults };
            merge_table(settings, defaults, parsed.get_ref(), "", &mut file);
        }
        Err(error) => {
            let line = error.span().map_or(1, |span| line_of(&text, &span));
            faults.add(&format!("{shown}:{line}"), error.message());
        }
    }
}

struct FileContext<'a> {
    shown: &'a str,
    text: &'a str,
    faults: &'a mut Faults,
}

impl FileContext<'_> {
    fn fault(&mut self, span: &Range<usize>, problem: impl std::fmt::Display) {
        self.faults.add(&format!("{}:{}", self.shown, line_of(self.text, span)), problem);
    }
}

fn line_of(text: &str, span: &Range<usize>) -> usize {
    text.bytes().take(span.start).filter(|byte| *byte == b'\n').count() + 1
}

fn merge_table(settings: &mut Table, defaults: &Table, given: &DeTable<'_>, prefix: &str, file: &mut FileContext<'_>) {
    for (key, value) in given {
        let name: &str = key.get_ref();
        let Some(default) = defaults.get(name) else {
            file.fault(&key.span(), unknown_key(prefix, name, defaults));
            continue;
        };
        let dotted = format!("{prefix}{name}");
        match (default, value.get_ref()) {
            (Value::Table(default), DeValue::Table(inner)) => {
                let Some(Value::Table(target)) = settings.get_mut(name) else { continue };
                merge_table(target, default, inner, &format!("{dotted}."), file);
            }
            (default, inner) => {
                let span = value.span();
                let source = file.text.get(span.clone()).unwrap_or_default();
                if !same_type(default, inner) {
                    file.fault(&span, format!("{dotted} is {}, but {source} is not", type_name(default)));
                } else if let Some(laid) = parse_value(source) {
                    settings.insert(name.to_owned(), laid.clone());
                    check_value(&dotted, &laid).unwrap_or_else(|problem| file.fault(&span, problem));
                } else {
                    file.fault(&span, format!("{dotted}: {source} cannot be parsed"));
                }
            }
        }
    }
}

fn parse_value(source: &str) -> Option<Value> {
    format!("value = {source}").parse::<Table>().ok()?.remove("value")
}

fn merge_text(settings: &mut Table, path: &[String], text: &str, place: &str, faults: &mut Faults) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut table = settings;
    let mut prefix = String::new();
    for parent in parents {
        let unknown = unknown_key(&prefix, parent, table);
        table = match table.get_mut(parent) {
            Some(Value::Table(inner)) => inner,
            _ => return faults.add(place, unknown),
        };
        prefix = format!("{prefix}{parent}.");
    }
    let Some(default) = table.get(last) else { return faults.add(place, unknown_key(&prefix, last, table)) };
    let value = match default {
        Value::String(_) => Some(Value::String(text.to_owned())),
        _ => parse_value(text),
    };
    let dotted = format!("{prefix}{last}");
    match value {
        Some(value) if value.same_type(default) => {
            check_value(&dotted, &value).unwrap_or_else(|problem| faults.add(place, problem));
            table.insert(last.clone(), value);
        }
        _ => faults.add(place, format!("{dotted} is {}, but {text} is not", type_name(default))),
    }
}

fn same_type(default: &Value, given: &DeValue<'_>) -> bool {
    matches!(
        (default, given),
        (Value::String(_), DeValue::String(_))
            | (Value::Integer(_), DeValue::Integer(_))
            | (Value::Boolean(_), DeValue::Boolean(_))
            | (Value::Array(_), DeValue::Array(_))
    )
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a text in quotes",
        Value::Integer(_) => "a whole number",
        Value::Boolean(_) => "true or false",
        Value::Array(_) => "a list",
        Value::Table(_) => "a section",
        Value::Float(_) | Value::Datetime(_) => "another kind of value",
    }
}

fn unknown_key(prefix: &str, name: &str, known: &Table) -> String {
    if let Some(key) = nearest(name, known.keys().map(String::as_str)) {
        return format!("unknown key {prefix}{name}; did you mean {prefix}{key}?");
    }
    let keys: Vec<&str> = known.keys().map(String::as_str).collect();
    format!("unknown key {prefix}{name}; known here: {}", keys.join(", "))
}

/// Checks a single value by itself, so that the message can point to its line.
fn check_value(dotted: &str, value: &Value) -> Result<(), String> {
    let mut probe: Table = DEFAULTS.parse().map_err(|error| format!("{error}"))?;
    let Some((section, key)) = dotted.split_once('.') else { return Ok(()) };
    let mut table = &mut probe;
    let mut keys: Vec<&str> = std::iter::once(section).chain(key.split('.')).collect();
    let last = keys.pop().unwrap_or_default();
    for parent in keys {
        match table.get_mut(parent) {
            Some(Value::Table(inner)) => table = inner,
            _ => return Ok(()),
        }
    }
    table.insert(last.to_owned(), value.clone());
    let reason = |error: toml::de::Error| format!("{dotted} = {value}: {}", error.message());
    let config: Config = probe.try_into().map_err(reason)?;
    let problems = range_problems(&config);
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

/// The settings that are out of range.
fn range_problems(config: &Config) -> Vec<String> {
    let limits = &config.limits;
    let at_least = [
        ("limits.connections", limits.connections as u64, 16),
        ("limits.connections_per_address", limits.connections_per_address as u64, 1),
        ("limits.handshake_seconds", limits.handshake_seconds, 1),
        ("limits.header_seconds", limits.header_seconds, 1),
        ("limits.request_seconds", limits.request_seconds, 1),
        ("limits.idle_seconds", limits.idle_seconds, 1),
        ("limits.header_bytes", limits.header_bytes as u64, 8192),
        ("limits.header_count", limits.header_count as u64, 16),
        ("limits.body_bytes", limits.body_bytes as u64, 1024),
        ("limits.public_body_bytes", limits.public_body_bytes as u64, 1024),
        ("limits.buffered_body_bytes", limits.buffered_body_bytes as u64, limits.body_bytes as u64),
        ("limits.stream_idle_seconds", limits.stream_idle_seconds, 1),
        ("limits.streams", limits.streams as u64, 1),
        ("limits.http2_streams", u64::from(limits.http2_streams), 1),
        ("limits.json_depth", limits.json_depth as u64, 8),
        ("tls.reload_seconds", config.tls.reload_seconds, 1),
        ("storage.cache_bytes", config.storage.cache_bytes as u64, 1 << 20),
        ("storage.journal_bytes", config.storage.journal_bytes, 1 << 16),
        ("storage.batch_size", config.storage.batch_size as u64, 1),
        ("storage.queue_length", config.storage.queue_length as u64, 1),
        ("storage.stall_seconds", config.storage.stall_seconds, 1),
        ("secrets.password_hashes", config.secrets.password_hashes as u64, 1),
        ("sessions.idle_seconds", config.sessions.idle_seconds, 60),
        ("sessions.absolute_seconds", config.sessions.absolute_seconds, 60),
        ("sessions.most_per_user", config.sessions.most_per_user as u64, 1),
        ("sessions.recent_seconds", config.sessions.recent_seconds, 60),
        ("api_keys.max_live", config.api_keys.max_live, 1),
        ("api_keys.max_personal", config.api_keys.max_personal, 1),
        ("api_keys.max_expires_days", u64::from(config.api_keys.max_expires_days), 1),
        ("api_keys.default_expires_days", u64::from(config.api_keys.default_expires_days), 1),
        ("directory.agent_offline_seconds", config.directory.agent_offline_seconds, 1),
        ("directory.agent_overdue_seconds", config.directory.agent_overdue_seconds, config.directory.agent_offline_seconds),
        ("tickets.auto_close_days", u64::from(config.tickets.auto_close_days), 1),
        ("backup.job_retention_days", u64::from(config.backup.job_retention_days), 30),
        ("events.retention_days", u64::from(config.events.retention_days), 1),
        ("webhooks.in_flight", config.webhooks.in_flight as u64, 1),
        ("webhooks.in_flight_per_endpoint", config.webhooks.in_flight_per_endpoint as u64, 1),
        ("webhooks.max_pending_per_tenant", config.webhooks.max_pending_per_tenant, 1),
        ("workflows.max_descendants", config.workflows.max_descendants, 1),
        ("workflows.in_flight", config.workflows.in_flight as u64, 2),
        ("cloud.max_providers", config.cloud.max_providers as u64, 1),
        ("cloud.sync_interval_seconds", u64::from(config.cloud.sync_interval_seconds), 60),
        ("workflows.retention_days", u64::from(config.workflows.retention_days), 1),
        ("egress.pool_connections_per_target", config.egress.pool_connections_per_target as u64, 1),
        ("egress.pool_idle_seconds", config.egress.pool_idle_seconds, 1),
        ("egress.pool_lifetime_seconds", config.egress.pool_lifetime_seconds, 1),
        ("limits.evaluation_events", config.limits.evaluation_events, 1),
        ("rate_limits.evaluation_percent", u64::from(config.rate_limits.evaluation_percent), 1),
        ("rate_limits.sign_in_per_address", u64::from(config.rate_limits.sign_in_per_address), 1),
        ("rate_limits.public_per_address", u64::from(config.rate_limits.public_per_address), 1),
    ];
    let rates = &config.rate_limits;
    let rates = [
        ("rate_limits.read", rates.read),
        ("rate_limits.search", rates.search),
        ("rate_limits.report", rates.report),
        ("rate_limits.write", rates.write),
        ("rate_limits.provision", rates.provision),
    ];
    let too_small = at_least.into_iter().filter(|(_, value, least)| value < least);
    let mut found: Vec<String> =
        too_small.map(|(key, value, least)| format!("{key} is {value}, but must be at least {least}")).collect();
    let closed = rates.into_iter().filter(|(_, rate)| rate.credential == 0 || rate.tenant == 0);
    found.extend(closed.map(|(key, _)| format!("{key} must allow at least one request per minute")));
    let disk = &config.disk;
    let percents = [("disk.low_percent", disk.low_percent), ("disk.full_percent", disk.full_percent)];
    let beyond = percents.into_iter().filter(|(_, percent)| *percent > 100);
    found.extend(beyond.map(|(key, percent)| format!("{key} is {percent}, but must be at most 100")));
    if config.api_keys.max_personal > 100 {
        found.push("api_keys.max_personal must be at most 100".to_owned());
    }
    if config.api_keys.max_expires_days > 36_500 {
        found.push("api_keys.max_expires_days must be at most 36500".to_owned());
    }
    if jiff::tz::TimeZone::get(&config.tickets.time_zone).is_err() {
        found.push(format!("tickets.time_zone: {} is not an IANA time zone such as Europe/Berlin", config.tickets.time_zone));
    }
    found.extend(log_filter(&config.telemetry.log_level).err());
    found.extend(config.egress.problem());
    found.extend(config.offsite.problem());
    if limits.json_depth > 120 {
        found.push("limits.json_depth must be at most 120".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_text(text: &str) -> Result<Config, String> {
        let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
        std::fs::write(file.path(), text).map_err(|error| error.to_string())?;
        let shown = file.path().display().to_string();
        load(Some(file.path()), [], &[]).map_err(|error| error.to_string().replace(&shown, "FILE"))
    }

    #[test]
    fn the_defaults_are_complete() {
        let config = load(None, [], &[]).map_err(|error| error.to_string());
        assert!(config.is_ok_and(|config| config.limits.body_bytes == 1 << 20 && config.tls.certificate_file.is_none()));
    }

    #[test]
    fn errors_in_a_file_name_the_line_and_a_suggestion() {
        for (text, expected) in [
            ("[limits]\n\nbody_bites = 1\n", "FILE:3: unknown key limits.body_bites; did you mean limits.body_bytes?"),
            ("[limit]\n", "FILE:1: unknown key limit; did you mean limits?"),
            ("[limits]\nbody_bytes = \"1\"\n", "FILE:2: limits.body_bytes is a whole number, but \"1\" is not"),
            ("[limits]\nbody_bytes = 5\n", "FILE:2: limits.body_bytes is 5, but must be at least 1024"),
            (
                "[rate_limits]\nread = { credential = 1, tennant = 2 }\n",
                "FILE:2: unknown key rate_limits.read.tennant; did you mean rate_limits.read.tenant?",
            ),
        ] {
            assert_eq!(load_text(text).map(|_| ()), Err(expected.to_owned()));
        }
        let unlike = load_text("[log]\n").map(|_| ());
        assert!(unlike.as_ref().is_err_and(|error| error.starts_with("FILE:1: unknown key log; known here: ")), "{unlike:?}");
        for (text, expected) in [
            (
                "allowed_networks = [\"127.0.0.0/8\"]",
                "FILE:2: egress.allowed_networks: 127.0.0.0/8 is not part of a private network",
            ),
            ("allowed_networks = [\"0.0.0.0/0\"]", "FILE:2: egress.allowed_networks: 0.0.0.0/0 is not part of a private network"),
            ("allowed_addresses = [\"10.0.0.0/8\"]", "FILE:2: egress.allowed_addresses = [\"10.0.0.0/8\"]"),
            ("dns_servers = [\"10.0.0.53\"]", "FILE:2: egress.dns_servers = [\"10.0.0.53\"]"),
            ("pool_idle_seconds = 0", "FILE:2: egress.pool_idle_seconds is 0, but must be at least 1"),
            (
                "only_targets = [\"https://a.example\"]",
                "FILE:2: egress.only_targets = [\"https://a.example\"]: https://a.example is",
            ),
        ] {
            let refused = load_text(&format!("[egress]\n{text}\n")).map(|_| ());
            assert!(refused.as_ref().is_err_and(|error| error.starts_with(expected)), "{refused:?}");
        }
        let wrong_address = load_text("[listen]\naddress = \"here\"\n");
        assert!(wrong_address.is_err_and(|error| error.starts_with("FILE:2: listen.address = \"here\"")));
    }

    #[test]
    fn every_fault_is_reported_at_once() {
        let text = "[limits]\nbody_bites = 1\nbody_bytes = 5\n[listen]\naddress = 8443\n[nowhere]\n";
        let faults = load_text(text).map(|_| ()).unwrap_err();
        let lines: Vec<&str> = faults.lines().filter_map(|line| line.split(": ").next()).collect();
        assert_eq!(lines, ["FILE:2", "FILE:3", "FILE:5", "FILE:6"], "{faults}");
    }

    #[test]
    fn settings_that_belong_together_are_checked_together() {
        let (certificate, key) = ("certificate_file = \"/a\"\n", "private_key_file = \"/b\"\n");
        assert!(load_text(&format!("[tls]\n{certificate}{key}")).is_ok());
        for alone in [certificate, key] {
            let refused = load_text(&format!("[tls]\n{alone}")).map(|_| ());
            assert!(refused.as_ref().is_err_and(|error| error.contains("belong together")), "{refused:?}");
        }
        assert!(load_text("[api_keys]\nmax_expires_days = 30\ndefault_expires_days = 30\n").is_ok());
        let refused = load_text("[api_keys]\nmax_expires_days = 30\n").map(|_| ());
        assert!(refused.as_ref().is_err_and(|error| error.contains("is longer than")), "{refused:?}");
    }

    #[test]
    fn listed_targets_are_shown_and_never_open_a_private_network() {
        let listed = |text: &str| load_text(&format!("[egress]\nonly_targets = [\"*.Example.com:443\", \"10.20.1.0/24\"]\n{text}"));
        let refused = listed("").map(|_| ());
        assert!(refused.as_ref().is_err_and(|error| error.contains("10.20.1.0/24 is in a private network")), "{refused:?}");
        for open in ["allowed_networks = [\"10.20.0.0/16\"]\n", "allowed_addresses = [\"10.20.1.7\"]\n"] {
            let shown = listed(open).map(|config| toml::to_string(&config.egress).unwrap()).unwrap();
            assert!(shown.contains("only_targets = [\"*.example.com:443\", \"10.20.1.0/24\"]"), "{shown}");
        }
        assert!(listed("allowed_networks = [\"10.21.0.0/16\"]\n").is_err());
    }

    #[test]
    fn off_site_backups_need_a_recipient_or_consent() {
        let place = "[offsite]\nurl = \"file:///mnt/backup\"\n";
        let recipient = "recipients = [\"age1x\"]\n";
        let refused = load_text(place).map(|_| ());
        assert!(refused.as_ref().is_err_and(|error| error.contains("would leave the host unencrypted")), "{refused:?}");
        assert!(load_text(&format!("{place}{recipient}")).is_ok());
        assert!(load_text(&format!("{place}unencrypted = true\n")).is_ok());
        assert!(load_text(&format!("{place}{recipient}unencrypted = true\n")).is_err());
        let bucket = load_text(&format!("[offsite]\nurl = \"s3://bucket/tenantd\"\n{recipient}")).map(|_| ());
        assert!(bucket.as_ref().is_err_and(|error| error.contains("credentials_file")), "{bucket:?}");
        for (text, expected) in [
            ("url = \"ftp://host\"", "FILE:2: offsite.url: ftp://host is neither s3://BUCKET/PREFIX nor file:///DIRECTORY"),
            ("url = \"file:///\"", "FILE:2: offsite.url: file:/// is neither"),
            ("recipients = [\"ssh-ed25519 AAAA\"]", "FILE:2: offsite.recipients: ssh-ed25519 AAAA is not an age recipient"),
            ("recipients = [\"AGE-SECRET-KEY-1ABC\"]", "FILE:2: offsite.recipients contains an identity"),
            ("endpoint = \"http://user:secret@host\"", "FILE:2: offsite.endpoint must not contain a user or a password"),
            ("keep_last = 0", "FILE:2: offsite.keep_last is 0, but must be at least 1"),
            ("every_hours = 100000", "FILE:2: offsite.every_hours is 100000, but must be at most 8784"),
        ] {
            let refused = load_text(&format!("[offsite]\n{text}\n")).map(|_| ());
            assert!(refused.as_ref().is_err_and(|error| error.starts_with(expected)), "{refused:?}");
        }
    }

    #[test]
    fn log_levels_are_checked() {
        for level in ["warn", "INFO", "off", "info,tenantd_store=debug", "tenantd=trace, warn"] {
            assert!(load_text(&format!("[telemetry]\nlog_level = \"{level}\"\n")).is_ok(), "{level}");
        }
        for (level, problem) in [
            ("lowd", "\"lowd\" is not a log level; use error,"),
            ("info,tenantd", "\"tenantd\" is not a log level"),
            ("tenantd_store=verbose", "error parsing level filter"),
        ] {
            let refused = load_text(&format!("[telemetry]\nlog_level = \"{level}\"\n")).map(|_| ());
            let expected = format!("FILE:2: telemetry.log_level: {problem}");
            assert!(refused.as_ref().is_err_and(|error| error.starts_with(&expected)), "{refused:?}");
        }
    }

    #[test]
    fn variables_override_the_file_and_flags_override_both() {
        let variables =
            || [("TENANTD_LIMITS__BODY_BYTES".to_owned(), "2048".to_owned()), ("TENANTD_CONFIG".to_owned(), "x".to_owned())];
        let from_variable = load(None, variables(), &[]).map(|config| config.limits.body_bytes);
        assert!(from_variable.is_ok_and(|bytes| bytes == 2048));
        let from_flag = load(None, variables(), &[("limits.body_bytes", "4096".to_owned())]).map(|config| config.limits.body_bytes);
        assert!(from_flag.is_ok_and(|bytes| bytes == 4096));
        let unknown = load(None, [("TENANTD_LIMITS__BODY_BYTE".to_owned(), "1".to_owned())], &[]).map(|_| ());
        assert!(unknown.is_err_and(|error| error.to_string().contains("did you mean limits.body_bytes?")));
    }
}
