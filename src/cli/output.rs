//! Standard output: tables for people, JSON for scripts.

use std::io::Write;

use serde_json::Value;

use super::Failure;

/// Prints a line. A reader that has gone away is no failure of ours.
pub(super) fn line(text: &str) -> Result<(), Failure> {
    match writeln!(std::io::stdout(), "{text}") {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::Failed(error.to_string())),
        _ => Ok(()),
    }
}

pub(super) fn json(value: &Value) -> Result<(), Failure> {
    line(&value.to_string())
}

/// The text at a JSON pointer; absent values are a dash.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(items)) => items.iter().map(|item| text(item, "")).collect::<Vec<_>>().join(" "),
        Some(other) => other.to_string(),
    }
}

/// Rows of a list in columns as wide as they need to be.
pub(super) fn table(rows: &[Value], columns: &[(&str, &str)]) -> Result<(), Failure> {
    let mut cells: Vec<Vec<String>> = vec![columns.iter().map(|(head, _)| (*head).to_owned()).collect()];
    cells.extend(rows.iter().map(|row| columns.iter().map(|(_, pointer)| text(row, pointer)).collect()));
    let width = |column: usize| cells.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    for row in &cells {
        let padded: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        line(padded.join("  ").trim_end())?;
    }
    Ok(())
}

/// One record as `name: value` lines.
pub(super) fn record(value: &Value, fields: &[(&str, &str)]) -> Result<(), Failure> {
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, pointer) in fields {
        line(&format!("{name:<width$}  {}", text(value, pointer)))?;
    }
    Ok(())
}
