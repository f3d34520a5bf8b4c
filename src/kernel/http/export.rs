//! Rows of exports, in two formats. JSON lines end with a line that says that the export is complete. Tables are for spreadsheets,
//! and their columns are paths into the record.
//!
//! **Invariant:** no cell is a formula. **Boundary:** the slice decides what the rows are and how fast they are read.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use tenantd_base::letters::is_unseen;

use super::{CSV, LINES, outgoing::StreamError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFormat {
    Csv,
    Ndjson,
}

impl RowFormat {
    /// The format that an `Accept` header asks for, if it accepts nothing but rows.
    pub fn accepted(accept: &str) -> Option<Self> {
        let mut formats = accept.split(',').map(|range| match range.split(';').next().unwrap_or_default().trim() {
            CSV => Some(Self::Csv),
            LINES => Some(Self::Ndjson),
            _ => None,
        });
        let first = formats.next()??;
        formats.all(|format| format.is_some()).then_some(first)
    }

    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Csv => CSV,
            Self::Ndjson => LINES,
        }
    }
}

/// Turns records into the bytes of an export, piece by piece.
#[derive(Debug)]
pub struct Rows {
    format: RowFormat,
    /// The columns of a table, as paths into the record.
    columns: Vec<&'static str>,
    count: u64,
}

impl Rows {
    pub fn new(format: RowFormat, columns: impl Into<Vec<&'static str>>) -> Self {
        Self { format, columns: columns.into(), count: 0 }
    }

    /// The bytes before the rows.
    pub fn head(&self) -> Result<Bytes, StreamError> {
        match self.format {
            RowFormat::Csv => table([self.columns.iter().map(|column| (*column).to_owned()).collect()]),
            RowFormat::Ndjson => Ok(Bytes::new()),
        }
    }

    pub fn piece(&mut self, records: &[impl Serialize]) -> Result<Bytes, StreamError> {
        self.count += records.len() as u64;
        match self.format {
            RowFormat::Ndjson => {
                let mut lines = Vec::with_capacity(records.len() << 10);
                for record in records {
                    serde_json::to_writer(&mut lines, record).map_err(StreamError::failed)?;
                    lines.push(b'\n');
                }
                Ok(lines.into())
            }
            RowFormat::Csv => {
                let values =
                    records.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>().map_err(StreamError::failed)?;
                table(values.iter().map(|record| self.columns.iter().map(|path| cell(record, path)).collect()))
            }
        }
    }

    /// The bytes after the rows. Lines have no other way to show that none is missing.
    pub fn end(&self) -> Bytes {
        match self.format {
            RowFormat::Csv => Bytes::new(),
            RowFormat::Ndjson => format!("{}\n", json!({"_end": true, "count": self.count})).into(),
        }
    }
}

fn table(rows: impl IntoIterator<Item = Vec<String>>) -> Result<Bytes, StreamError> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    for row in rows {
        writer.write_record(row).map_err(StreamError::failed)?;
    }
    writer.into_inner().map(Bytes::from).map_err(StreamError::failed)
}

/// The text of a record's member. For a list it is the members of its entries. An entry without the member leaves its place empty,
/// so that the columns of one list line up.
fn cell(record: &Value, path: &str) -> String {
    let mut texts = Vec::new();
    collect(Some(record), path, false, &mut texts);
    if texts.iter().all(String::is_empty) { String::new() } else { guarded(texts.join("; ")) }
}

fn collect(value: Option<&Value>, path: &str, in_list: bool, texts: &mut Vec<String>) {
    match value {
        Some(Value::Array(items)) => items.iter().for_each(|item| collect(Some(item), path, true, texts)),
        Some(value) if !path.is_empty() => {
            let (name, rest) = path.split_once('.').unwrap_or((path, ""));
            collect(value.get(name), rest, in_list, texts);
        }
        Some(value) if in_list => texts.push(entry(plain(value))),
        Some(value) => texts.push(plain(value)),
        None => texts.push(String::new()),
    }
}

/// An entry of a list. An entry that contains the separator is quoted, like a field with a comma in CSV.
fn entry(text: String) -> String {
    if text.contains(';') || text.starts_with('"') { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(members) if members.is_empty() => String::new(),
        other => other.to_string(),
    }
}

/// Characters that a spreadsheet may read as the start of a formula, including their full-width and small forms, which it treats
/// alike.
const FORMULA_SIGNS: [char; 14] = [
    '=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}', '\u{fe66}', '\u{fe62}', '\u{fe63}', '\u{fe6b}', '\u{2212}',
    '\u{207c}',
];
/// Characters that may separate cells if the table is read by line or with another separator than the comma.
const SEPARATORS: [char; 9] = ['\n', '\r', '\t', ';', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'];

/// Puts a quote before a text that starts like a formula, because a spreadsheet would run it. The same applies to each part of a
/// text that a spreadsheet may read as a cell of its own.
fn guarded(text: String) -> String {
    let is_formula = |part: &str| part.trim_start_matches(is_unseen).starts_with(FORMULA_SIGNS);
    let begins_like_control = text.starts_with(['\t', '\r', '\n']);
    if !begins_like_control && !text.contains(FORMULA_SIGNS) {
        return text;
    }
    let mut guarded = String::with_capacity(text.len() + 2);
    for (place, part) in text.split_inclusive(SEPARATORS).enumerate() {
        if is_formula(part) || (place == 0 && begins_like_control) {
            guarded.push('\'');
        }
        guarded.push_str(part);
    }
    guarded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_path() {
        let record = json!({
            "subject": "=1+1",
            "sla": {"state": "met"},
            "devices": [{"id": "dev_1", "name": "A"}, {"id": "dev_2"}, {"id": "dev_3", "name": "C"}],
            "nets": [{"ips": ["1", "2"]}, {"ips": []}],
            "tags": ["x", "y"],
            "words": ["a;b", "c", "\"d\"", "e\"f"],
            "note": "a;b",
            "custom_fields": {},
            "number": 7,
        });
        for (path, text) in [
            ("subject", "'=1+1"),
            ("sla.state", "met"),
            ("devices.id", "dev_1; dev_2; dev_3"),
            ("devices.name", "A; ; C"),
            ("devices.site", ""),
            ("nets.ips", "1; 2"),
            ("tags", "x; y"),
            ("words", "\"a;b\"; c; \"\"\"d\"\"\"; e\"f"),
            ("note", "a;b"),
            ("custom_fields", ""),
            ("number", "7"),
            ("contact.name", ""),
        ] {
            assert_eq!(cell(&record, path), text, "{path}");
        }
        for risky in ["=a", "+a", "-a", "@a", "\ta", "\ra", "\na"] {
            assert_eq!(guarded(risky.to_owned()), format!("'{risky}"));
        }
    }

    #[test]
    fn no_cell_starts_like_a_formula() {
        let blanks = ["", " ", "   ", "\u{a0}", "\u{3000}", "\u{feff}", "\u{200b}", "\u{ad} ", "\u{1}", "\u{202e}"];
        let before = ["", "a;", "a; ", "a\n", "a\r\n", "\n", "\r", "\t", "a\tb\n", "-5;"];
        for sign in FORMULA_SIGNS {
            for blank in blanks {
                for text in before.map(|before| format!("{before}{blank}{sign}cmd|'/c calc'!A1")) {
                    let shown = guarded(text.clone());
                    for cell in shown.split(SEPARATORS) {
                        assert!(!cell.trim_start_matches(is_unseen).starts_with(FORMULA_SIGNS), "{text:?} became {shown:?}");
                    }
                    assert_eq!(shown.replace('\'', ""), text.replace('\'', ""), "only quotes are added");
                }
            }
        }
        for harmless in ["a=b", "a - b", "x@y.example", "2026-01-31; 2026-02-01", "A; ; C", "1+1", "a\nb", ""] {
            assert_eq!(guarded(harmless.to_owned()), harmless);
        }
    }

    #[test]
    fn the_last_line_holds_the_count() {
        let mut lines = Rows::new(RowFormat::Ndjson, ["a"]);
        assert!(lines.head().unwrap().is_empty());
        assert_eq!(lines.piece(&[json!({"a": 1}), json!({"a": 2})]).unwrap(), "{\"a\":1}\n{\"a\":2}\n");
        assert_eq!(lines.end(), "{\"_end\":true,\"count\":2}\n");
        let mut table = Rows::new(RowFormat::Csv, ["a", "b.c"]);
        assert_eq!(table.head().unwrap(), "a,b.c\r\n");
        assert_eq!(table.piece(&[json!({"a": "x, y", "b": {"c": "\"q\""}})]).unwrap(), "\"x, y\",\"\"\"q\"\"\"\r\n");
        assert!(table.end().is_empty());
    }

    #[test]
    fn accept_headers_select_the_row_format() {
        for (accept, format) in [
            ("text/csv", Some(RowFormat::Csv)),
            ("application/x-ndjson, text/csv;q=0.5", Some(RowFormat::Ndjson)),
            ("text/csv, */*", None),
            ("application/json", None),
            ("", None),
        ] {
            assert_eq!(RowFormat::accepted(accept), format, "{accept}");
        }
    }
}
