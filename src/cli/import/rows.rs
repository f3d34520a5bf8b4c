//! Converts a file to the lines that the server accepts: CSV rows become objects, JSON lines stay unchanged. Only one piece at a
//! time is in memory. **Boundary:** the server validates the records, because it knows all rules.

use std::{
    fs::File,
    io::{BufRead, BufReader, Read},
    path::Path,
};

use bytes::Bytes;
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde_json::{Map, Value};
use tokio::sync::mpsc;

use super::super::Failure;

const PIECE: usize = 64 << 10;

/// The columns with numbers. Columns that are not listed here contain text.
const NUMBERS: [&str; 4] = ["hardware.memory_bytes", "hardware.cpu.cores", "patch.missing_critical", "patch.missing_other"];
/// The columns with true or false.
const FLAGS: [&str; 4] = ["deleted", "os.reboot_required", "security.firewall", "security.disk_encryption"];
/// The column with several texts, separated by semicolons.
const TAGS: &str = "tags";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Csv,
    Ndjson,
}

pub(super) struct Rows {
    reader: Box<dyn Read + Send>,
    length: Option<u64>,
    format: Format,
    kind: Option<String>,
}

impl Rows {
    pub(super) fn open(path: &Path, format: Option<Format>, kind: Option<String>) -> Result<Self, Failure> {
        let named = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        let format = format.unwrap_or(if named { Format::Csv } else { Format::Ndjson });
        if path == Path::new("-") {
            return Ok(Self { reader: Box::new(std::io::stdin()), length: None, format, kind });
        }
        let fail = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(fail)?;
        let length = file.metadata().map_err(fail)?.len();
        Ok(Self { reader: Box::new(file), length: Some(length), format, kind })
    }

    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The unit of the numbers in the server's response.
    pub(super) fn noun(&self) -> &'static str {
        match self.format {
            Format::Csv => "record",
            Format::Ndjson => "line",
        }
    }

    /// Reads the whole file and sends its pieces. Stops early if the receiver is closed.
    pub(super) fn send(self, sender: &mpsc::Sender<Bytes>, bar: &ProgressBar) -> Result<(), Failure> {
        let mut out = Pieces { sender, text: Vec::with_capacity(PIECE * 2) };
        let reader = bar.wrap_read(self.reader);
        match self.format {
            Format::Csv => send_csv(reader, self.kind.as_deref(), &mut out)?,
            Format::Ndjson => send_lines(BufReader::with_capacity(PIECE, reader), self.kind.as_deref(), &mut out)?,
        }
        out.flush();
        Ok(())
    }
}

struct Pieces<'a> {
    sender: &'a mpsc::Sender<Bytes>,
    text: Vec<u8>,
}

impl Pieces<'_> {
    /// Returns false if the receiver is closed.
    fn push(&mut self, line: &[u8]) -> bool {
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        self.text.len() < PIECE || self.flush()
    }

    fn flush(&mut self) -> bool {
        let text = std::mem::replace(&mut self.text, Vec::with_capacity(PIECE * 2));
        text.is_empty() || self.sender.blocking_send(text.into()).is_ok()
    }
}

fn send_lines(mut reader: impl BufRead, kind: Option<&str>, out: &mut Pieces<'_>) -> Result<(), Failure> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line).map_err(|error| Failure::Failed(error.to_string()))?;
        if read == 0 {
            return Ok(());
        }
        let text = line.trim_ascii_end();
        let named = kind.and_then(|kind| with_kind(text, kind));
        if !out.push(named.as_deref().unwrap_or(text)) {
            return Ok(());
        }
    }
}

/// Adds the kind to an object. `None` if it already has a kind or is not an object.
fn with_kind(line: &[u8], kind: &str) -> Option<Vec<u8>> {
    let mut object: Map<String, Value> = serde_json::from_slice(line).ok()?;
    if object.contains_key("kind") {
        return None;
    }
    object.insert("kind".to_owned(), Value::from(kind));
    serde_json::to_vec(&object).ok()
}

fn send_csv(reader: impl Read, kind: Option<&str>, out: &mut Pieces<'_>) -> Result<(), Failure> {
    let broken = |error: csv::Error| Failure::Failed(format!("the file is not valid CSV: {error}"));
    let mut reader = csv::Reader::from_reader(reader);
    let headers: Vec<String> = reader.headers().map_err(broken)?.iter().map(|header| header.trim().to_owned()).collect();
    if kind.is_none() && !headers.iter().any(|header| header == "kind") {
        let text = "the file has no column named kind; specify the kind of its records with --kind";
        return Err(Failure::Failed(text.to_owned()));
    }
    let mut row = csv::StringRecord::new();
    while reader.read_record(&mut row).map_err(broken)? {
        let object = object(&headers, &row, kind)?;
        let line = serde_json::to_vec(&object).map_err(|error| Failure::Failed(error.to_string()))?;
        if !out.push(&line) {
            return Ok(());
        }
    }
    Ok(())
}

fn object(headers: &[String], row: &csv::StringRecord, kind: Option<&str>) -> Result<Value, Failure> {
    let mut object = Map::new();
    if let Some(kind) = kind {
        object.insert("kind".to_owned(), Value::from(kind));
    }
    for (header, text) in headers.iter().zip(row) {
        // An empty cell means that the field is absent.
        if !text.is_empty() {
            put(&mut object, header, header, value(header, text))?;
        }
    }
    Ok(Value::Object(object))
}

fn put(object: &mut Map<String, Value>, header: &str, path: &str, value: Value) -> Result<(), Failure> {
    let Some((first, rest)) = path.split_once('.').filter(|(first, _)| !first.is_empty()) else {
        object.insert(path.to_owned(), value);
        return Ok(());
    };
    let inner = object.entry(first).or_insert_with(|| Value::Object(Map::new()));
    let clash =
        || Failure::Failed(format!("the column {header} conflicts with another column: one of them would be a field of the other"));
    // The name of a custom field can contain dots.
    if first == "custom_fields" {
        inner.as_object_mut().ok_or_else(clash)?.insert(rest.to_owned(), value);
        return Ok(());
    }
    put(inner.as_object_mut().ok_or_else(clash)?, header, rest, value)
}

fn value(header: &str, text: &str) -> Value {
    let number = || text.trim().parse::<u64>().ok().map(Value::from);
    let flag = || text.trim().to_lowercase().parse::<bool>().ok().map(Value::from);
    let typed = if NUMBERS.contains(&header) {
        number()
    } else if FLAGS.contains(&header) {
        flag()
    } else if header == TAGS {
        Some(text.split(';').map(str::trim).filter(|tag| !tag.is_empty()).collect())
    } else {
        None
    };
    typed.unwrap_or_else(|| Value::from(text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_become_objects_with_typed_fields() {
        let headers: Vec<String> =
            ["external_id", "os.family", "hardware.cpu.cores", "os.reboot_required", "tags", "custom_fields.a.b", "site"]
                .map(str::to_owned)
                .to_vec();
        let row = csv::StringRecord::from(vec!["7", "linux", "8", "TRUE", "a; b", "x", ""]);
        assert_eq!(
            object(&headers, &row, Some("device")).unwrap(),
            json!({
                "kind": "device", "external_id": "7", "os": {"family": "linux", "reboot_required": true},
                "hardware": {"cpu": {"cores": 8}}, "tags": ["a", "b"], "custom_fields": {"a.b": "x"},
            })
        );
        assert_eq!(value("patch.missing_other", "many"), json!("many"), "the server reports the error");
    }

    #[test]
    fn lines_without_a_kind_get_one() {
        assert_eq!(with_kind(b"{\"a\":1}", "user").unwrap(), b"{\"a\":1,\"kind\":\"user\"}");
        assert_eq!(with_kind(b"{\"kind\":\"device\"}", "user"), None);
        assert_eq!(with_kind(b"nonsense", "user"), None);
    }
}
