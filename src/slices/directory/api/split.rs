//! Splits a request body into values while it arrives: lines of NDJSON, or the elements of one array. The splitter only finds the
//! ends of values; the receiver parses them. **Invariant:** it holds at most one value in memory, and nothing of a value that is
//! too long.

use tenantd_http::incoming::Form;

/// The maximum length of a value in bytes.
pub(super) const MAX_VALUE: usize = 256 << 10;

/// A value of the body with its line number or its position in the array, starting at 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) number: u64,
    /// `None` if it is too long.
    pub(super) bytes: Option<Vec<u8>>,
}

/// The body as a whole is not a valid array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum BrokenArray {
    #[error("the body is not a JSON array")]
    NoArray,
    #[error("the array is not closed")]
    Unclosed,
    #[error("unexpected data after the array")]
    Trailing,
    #[error("expected an element, or `,` between two elements")]
    Separator,
}

#[derive(Debug)]
pub(super) struct Splitter {
    form: Form,
    number: u64,
    value: Vec<u8>,
    too_long: bool,
    array: Array,
}

/// The position in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Array {
    Before,
    /// An element may start, or the array may end.
    First,
    /// An element must start.
    Next,
    Inside {
        depth: u32,
        text: bool,
        escaped: bool,
    },
    /// A comma or the end of the array must follow.
    Behind,
    After,
}

impl Splitter {
    pub(super) fn new(form: Form) -> Self {
        Self { form, number: 0, value: Vec::new(), too_long: false, array: Array::Before }
    }

    /// Processes the next bytes of the body and outputs the values that end in them.
    pub(super) fn push(&mut self, bytes: &[u8], out: &mut Vec<Piece>) -> Result<(), BrokenArray> {
        match self.form {
            Form::Lines => {
                self.push_lines(bytes, out);
                Ok(())
            }
            Form::Array => bytes.iter().try_for_each(|byte| self.push_element_byte(*byte, out)),
        }
    }

    /// Processes the end of the body.
    pub(super) fn finish(mut self, out: &mut Vec<Piece>) -> Result<(), BrokenArray> {
        match (self.form, self.array) {
            (Form::Lines, _) => {
                self.end_line(out);
                Ok(())
            }
            (Form::Array, Array::After) => Ok(()),
            (Form::Array, Array::Before) => Err(BrokenArray::NoArray),
            (Form::Array, _) => Err(BrokenArray::Unclosed),
        }
    }

    fn push_lines(&mut self, bytes: &[u8], out: &mut Vec<Piece>) {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        // The text after the last line break is the start of the next line.
        let rest = lines.next_back().unwrap_or_default();
        for line in lines {
            self.keep(line);
            self.end_line(out);
        }
        self.keep(rest);
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.value.len() + bytes.len() > MAX_VALUE {
            self.too_long = true;
            self.value.clear();
        }
        if !self.too_long {
            self.value.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, out: &mut Vec<Piece>) {
        self.number += 1;
        let (value, too_long) = (std::mem::take(&mut self.value), std::mem::take(&mut self.too_long));
        // Blank lines are skipped, but they count as lines.
        if too_long || !value.trim_ascii().is_empty() {
            out.push(Piece { number: self.number, bytes: (!too_long).then_some(value) });
        }
    }

    fn push_element_byte(&mut self, byte: u8, out: &mut Vec<Piece>) -> Result<(), BrokenArray> {
        let blank = byte.is_ascii_whitespace();
        self.array = match (self.array, byte) {
            (Array::Inside { depth, text, escaped }, _) => return self.push_inside(byte, depth, text, escaped, out),
            (state, _) if blank => state,
            (Array::Before, b'[') => Array::First,
            (Array::Before, _) => return Err(BrokenArray::NoArray),
            (Array::First | Array::Behind, b']') => Array::After,
            (Array::First | Array::Next, b',' | b']') => return Err(BrokenArray::Separator),
            (Array::First | Array::Next, _) => {
                self.number += 1;
                self.array = Array::Inside { depth: 0, text: false, escaped: false };
                return self.push_element_byte(byte, out);
            }
            (Array::Behind, b',') => Array::Next,
            (Array::Behind, _) => return Err(BrokenArray::Separator),
            (Array::After, _) => return Err(BrokenArray::Trailing),
        };
        Ok(())
    }

    fn push_inside(&mut self, byte: u8, depth: u32, text: bool, escaped: bool, out: &mut Vec<Piece>) -> Result<(), BrokenArray> {
        let (depth, text, escaped) = match (byte, text) {
            (_, true) if escaped => (depth, true, false),
            (b'\\', true) => (depth, true, true),
            (b'"', _) => (depth, !text, false),
            (b'{' | b'[', false) => (depth + 1, false, false),
            (b'}' | b']', false) if depth > 0 => (depth - 1, false, false),
            // Outside of all brackets, these end an element that is a scalar.
            (b',' | b']', false) if depth == 0 => {
                self.end_element(out);
                return self.push_element_byte(byte, out);
            }
            _ => (depth, text, false),
        };
        self.keep(&[byte]);
        self.array = Array::Inside { depth, text, escaped };
        if depth == 0 && matches!(byte, b'}' | b']') && !text {
            self.end_element(out);
        }
        Ok(())
    }

    fn end_element(&mut self, out: &mut Vec<Piece>) {
        self.array = Array::Behind;
        let (value, too_long) = (std::mem::take(&mut self.value), std::mem::take(&mut self.too_long));
        out.push(Piece { number: self.number, bytes: (!too_long).then_some(value) });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split(form: Form, body: &[u8], step: usize) -> Result<Vec<(u64, Option<String>)>, BrokenArray> {
        let mut splitter = Splitter::new(form);
        let mut out = Vec::new();
        for piece in body.chunks(step) {
            splitter.push(piece, &mut out)?;
        }
        splitter.finish(&mut out)?;
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ok(out.into_iter().map(|piece| (piece.number, piece.bytes.map(text))).collect())
    }

    #[test]
    fn lines_have_numbers_and_blank_lines_are_skipped() {
        for step in 1..10 {
            let found = split(Form::Lines, b"{\"a\":1}\r\n\n  \n{\"b\":2}", step).unwrap();
            assert_eq!(found, [(1, Some("{\"a\":1}\r".to_owned())), (4, Some("{\"b\":2}".to_owned()))]);
        }
        assert_eq!(split(Form::Lines, b"", 1).unwrap(), []);
    }

    #[test]
    fn a_line_that_is_too_long_does_not_stop_the_split() {
        let body = format!("{}\n{{}}\n", "a".repeat(MAX_VALUE + 1));
        for step in [1 << 10, 1 << 20] {
            assert_eq!(split(Form::Lines, body.as_bytes(), step).unwrap(), [(1, None), (2, Some("{}".to_owned()))]);
        }
        let body = format!("[\"{}\",{{}}]", "a".repeat(MAX_VALUE));
        assert_eq!(split(Form::Array, body.as_bytes(), 1 << 10).unwrap(), [(1, None), (2, Some("{}".to_owned()))]);
    }

    #[test]
    fn a_body_that_is_not_an_array_is_refused() {
        for (body, expected) in [
            ("", BrokenArray::NoArray),
            ("{}", BrokenArray::NoArray),
            ("[{}", BrokenArray::Unclosed),
            ("[{}{}]", BrokenArray::Separator),
            ("[,{}]", BrokenArray::Separator),
            ("[{},]", BrokenArray::Separator),
            ("[] x", BrokenArray::Trailing),
        ] {
            assert_eq!(split(Form::Array, body.as_bytes(), 1), Err(expected), "{body}");
        }
        assert_eq!(split(Form::Array, b" [ ] \n", 1), Ok(Vec::new()));
    }

    fn json_value() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(serde_json::Value::from),
            any::<i32>().prop_map(serde_json::Value::from),
            "[\\[\\]{},\"\\\\a ]{0,6}".prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                proptest::collection::btree_map("[a\"]{0,3}", inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        })
    }

    proptest! {
        #[test]
        fn an_array_splits_into_its_elements_at_any_chunk_size(values in proptest::collection::vec(json_value(), 0..6), step in 1_usize..20) {
            let body = serde_json::to_string_pretty(&values).unwrap();
            let found = split(Form::Array, body.as_bytes(), step).unwrap();
            let read: Vec<serde_json::Value> = found.iter().map(|(_, text)| serde_json::from_str(text.as_ref().unwrap()).unwrap()).collect();
            prop_assert_eq!(read, values);
            prop_assert!(found.iter().enumerate().all(|(place, (number, _))| *number == place as u64 + 1));
        }
    }
}
