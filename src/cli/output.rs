//! Standard output: tables for people, JSON for scripts.

use std::io::{IsTerminal, Write};

use serde_json::Value;

use super::Failure;

/// Prints a line. A closed pipe is not an error.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Failed(error.to_string())),
        _ => Ok(()),
    }
}

/// The text in bold if standard output is a terminal and `NO_COLOR` is not set.
pub(super) fn bold(text: &str) -> String {
    let is_bold = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if is_bold { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
}

pub(super) fn json(value: &Value) -> Result<(), Failure> {
    line(&value.to_string())
}

/// The text at a JSON pointer, or a dash if it is absent.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => items.iter().map(|item| text(item, "")).collect::<Vec<_>>().join(" "),
        Some(other) => other.to_string(),
    }
}

/// The size at a JSON pointer with its unit.
pub(super) fn bytes(value: &Value, pointer: &str) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let Some(bytes) = value.pointer(pointer).and_then(Value::as_f64) else { return text(value, pointer) };
    let (mut size, mut units) = (bytes, UNITS.iter());
    let mut unit = units.next();
    while size >= 1024.0
        && let Some(larger) = units.next()
    {
        (size, unit) = (size / 1024.0, Some(larger));
    }
    let digits = usize::from(bytes >= 1024.0);
    format!("{size:.digits$} {}", unit.copied().unwrap_or_default())
}

/// The duration in seconds at a JSON pointer with its unit.
pub(super) fn seconds(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer).and_then(Value::as_f64) {
        Some(seconds) if seconds < 1.0 => format!("{:.0} ms", seconds * 1000.0),
        Some(seconds) if seconds < 120.0 => format!("{seconds:.1} seconds"),
        Some(seconds) => format!("{:.1} minutes", seconds / 60.0),
        None => text(value, pointer),
    }
}

/// Prints a table. Each column is as wide as its longest cell.
pub(super) fn table(rows: &[Value], columns: &[(&str, &str)]) -> Result<(), Failure> {
    let mut cells: Vec<Vec<String>> = vec![columns.iter().map(|(head, _)| (*head).to_owned()).collect()];
    cells.extend(rows.iter().map(|row| columns.iter().map(|(_, pointer)| text(row, pointer)).collect()));
    let width = |column: usize| cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for (place, row) in cells.iter().enumerate() {
        let padded: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        let shown = padded.join("  ");
        line(&if place == 0 { bold(shown.trim_end()) } else { shown.trim_end().to_owned() })?;
    }
    Ok(())
}

/// Prints a record, with one field per line.
pub(super) fn record(value: &Value, fields: &[(&str, &str)]) -> Result<(), Failure> {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, pointer) in fields {
        line(&format!("{name:<width$}  {}", text(value, pointer)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_and_durations_have_units() {
        let value = json!({"small": 512, "large": 3_435_973_837_u64, "short": 0.0456, "middle": 3.055_784_028, "long": 754.2});
        assert_eq!([bytes(&value, "/small"), bytes(&value, "/large")], ["512 bytes", "3.2 GiB"]);
        assert_eq!(["/short", "/middle", "/long"].map(|at| seconds(&value, at)), ["46 ms", "3.1 seconds", "12.6 minutes"]);
        assert_eq!((bytes(&value, "/none"), seconds(&value, "/none")), ("-".to_owned(), "-".to_owned()));
    }
}
