//! Finds the line of a text in JSON that a JSON pointer means.

/// The line of the value that a pointer means, from 1. The line of the closest value around it if the text does not have it.
/// For a member of an object it is the line of its name.
pub(super) fn line_of(text: &str, pointer: &str) -> usize {
    let parts: Vec<String> = pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    let mut scanner = Scanner { text, at: 0 };
    let mut found = scanner.space();
    for part in &parts {
        match scanner.enter(part) {
            Some(place) => found = place,
            None => break,
        }
    }
    1 + text.get(..found).unwrap_or_default().matches('\n').count()
}

/// Reads a text that is valid JSON. At other text it stops early.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips spaces, and returns where it is then.
    fn space(&mut self) -> usize {
        while self.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
        self.at
    }

    /// Skips one byte if it is this one.
    fn skip(&mut self, byte: u8) -> bool {
        let is_so = self.peek() == Some(byte);
        self.at += usize::from(is_so);
        is_so
    }

    /// Moves to the value of a member or an item of the value that begins here. Returns where its line is.
    fn enter(&mut self, part: &str) -> Option<usize> {
        self.space();
        match self.peek()? {
            b'{' => self.member(part),
            b'[' => self.item(part.parse().ok()?),
            _ => None,
        }
    }

    /// If a name is repeated, its last value counts.
    fn member(&mut self, wanted: &str) -> Option<usize> {
        self.at += 1;
        let mut found = None;
        while self.space() < self.text.len() && self.peek() == Some(b'"') {
            let start = self.at;
            self.string();
            let is_wanted = self.text.get(start..self.at).is_some_and(|name| is_name(name, wanted));
            self.space();
            if !self.skip(b':') {
                break;
            }
            let value = self.space();
            if is_wanted {
                found = Some((start, value));
            }
            self.value();
            self.space();
            if !self.skip(b',') {
                break;
            }
        }
        let (start, value) = found?;
        self.at = value;
        Some(start)
    }

    fn item(&mut self, wanted: usize) -> Option<usize> {
        self.at += 1;
        for place in 0.. {
            let start = self.space();
            if self.peek()? == b']' {
                break;
            }
            if place == wanted {
                return Some(start);
            }
            self.value();
            self.space();
            if !self.skip(b',') {
                break;
            }
        }
        None
    }

    /// Skips a value, however deep it is.
    fn value(&mut self) {
        let mut depth = 0_usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => self.string(),
                b'{' | b'[' => {
                    depth += 1;
                    self.at += 1;
                }
                b'}' | b']' | b',' if depth == 0 => return,
                b'}' | b']' => {
                    depth -= 1;
                    self.at += 1;
                }
                _ => self.at += 1,
            }
            if depth == 0 && matches!(byte, b'"' | b'}' | b']') {
                return;
            }
        }
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }
}

/// Whether a name in quotation marks is this one.
fn is_name(quoted: &str, wanted: &str) -> bool {
    serde_json::from_str::<String>(quoted).is_ok_and(|name| name == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{
  "key": "a",
  "steps": [
    {"id": "one", "with": {"a]\"}": ["{", "]"], "b/c": 1}},
    {
      "id": "two",
      "with": {
        "text": "x,
  \"type\": 1",
        "ty\u0070e": [1, [2, 3],
          {"deep": true}]
      }
    }
  ],
  "key": 5
}"#;

    #[test]
    fn a_pointer_leads_to_the_line_of_its_value() {
        for (pointer, line) in [
            ("", 1),
            ("/steps", 3),
            ("/steps/0", 4),
            ("/steps/0/with/b~1c", 4),
            ("/steps/1", 5),
            ("/steps/1/id", 6),
            ("/steps/1/with/type/1/1", 10),
            ("/steps/1/with/type/2/deep", 11),
        ] {
            assert_eq!(line_of(TEXT, pointer), line, "{pointer}");
        }
    }

    #[test]
    fn the_last_of_repeated_names_counts() {
        assert_eq!(line_of(TEXT, "/key"), 15);
    }

    #[test]
    fn what_is_missing_is_at_the_value_around_it() {
        for (pointer, line) in [("/name", 1), ("/steps/7", 3), ("/steps/x", 3), ("/steps/1/type", 5), ("/steps/1/id/deeper", 6)] {
            assert_eq!(line_of(TEXT, pointer), line, "{pointer}");
        }
    }

    #[test]
    fn any_text_has_a_line() {
        for text in ["", "{", "[", "{\"a", "{\"a\"", "{\"a\":", "[1,", "\n\n  [", "{\"a\":\"\\", "ä{", "[[[[", "}"] {
            assert!(line_of(text, "/a/0/b") >= 1);
            assert!(line_of(text, "/0/0") >= 1);
        }
    }
}
