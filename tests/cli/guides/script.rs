//! The commands of a guide: the part of the shell's syntax that guides use, and nothing else.

use std::iter::Peekable;

/// A piece of a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    /// `$NAME`
    Variable(String),
    /// `$(…)`
    Command(String),
}

pub type Word = Vec<Piece>;

/// A fence of a guide.
#[derive(Debug)]
pub struct Block {
    pub language: String,
    pub text: String,
    /// The line of the guide on which the fence opens.
    pub line: usize,
    /// Whether nothing but blank lines is between this fence and the one before.
    pub follows: bool,
}

pub fn blocks(guide: &str) -> Vec<Block> {
    let (mut found, mut open, mut follows) = (Vec::new(), None::<Block>, false);
    for (number, line) in guide.lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                open = Some(Block { language: language.trim().to_owned(), text: String::new(), line: number + 1, follows });
            }
            (Some(_), Some("")) => {
                found.extend(open.take());
                follows = true;
            }
            (Some(block), _) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            (None, None) if !line.trim().is_empty() => follows = false,
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence does not end");
    found
}

/// The statements of a block, each as its words.
pub fn statements(text: &str) -> Vec<Vec<Word>> {
    let mut reader = Reader { letters: text.chars().peekable(), statements: Vec::new(), words: Vec::new(), word: None };
    reader.read();
    reader.statements
}

struct Reader<I: Iterator<Item = char>> {
    letters: Peekable<I>,
    statements: Vec<Vec<Word>>,
    words: Vec<Word>,
    word: Option<Word>,
}

impl<I: Iterator<Item = char>> Reader<I> {
    fn read(&mut self) {
        while let Some(letter) = self.letters.next() {
            match letter {
                '\\' => {
                    assert_eq!(self.letters.next(), Some('\n'), "a backslash continues a line");
                    self.end_word();
                }
                '\n' => self.end_statement(),
                ' ' | '\t' => self.end_word(),
                '#' if self.word.is_none() => while self.letters.next_if(|letter| *letter != '\n').is_some() {},
                '\'' => {
                    let text = self.until('\'');
                    self.push(Piece::Text(text));
                }
                '"' => self.double_quoted(),
                '$' => {
                    let piece = self.expansion();
                    self.push(piece);
                }
                letter if "|&;<>(){}*?[]`!".contains(letter) => panic!("{letter} is not part of the syntax of guides"),
                letter => self.push(Piece::Text(letter.to_string())),
            }
        }
        self.end_statement();
    }

    fn push(&mut self, piece: Piece) {
        self.word.get_or_insert_default().push(piece);
    }

    fn end_word(&mut self) {
        self.words.extend(self.word.take());
    }

    fn end_statement(&mut self) {
        self.end_word();
        if !self.words.is_empty() {
            self.statements.push(std::mem::take(&mut self.words));
        }
    }

    fn until(&mut self, end: char) -> String {
        let mut text = String::new();
        loop {
            match self.letters.next().expect("a quote ends") {
                letter if letter == end => return text,
                letter => text.push(letter),
            }
        }
    }

    fn double_quoted(&mut self) {
        self.push(Piece::Text(String::new()));
        loop {
            match self.letters.next().expect("a quote ends") {
                '"' => return,
                '\\' => {
                    let letter = self.letters.next().expect("a letter follows a backslash");
                    assert!("\"\\$`".contains(letter), "\\{letter} in double quotes");
                    self.push(Piece::Text(letter.to_string()));
                }
                '$' => {
                    let piece = self.expansion();
                    self.push(piece);
                }
                letter => self.push(Piece::Text(letter.to_string())),
            }
        }
    }

    /// What follows a `$`.
    fn expansion(&mut self) -> Piece {
        if self.letters.next_if_eq(&'(').is_none() {
            let mut name = String::new();
            while let Some(letter) =
                self.letters.next_if(|letter| letter.is_ascii_uppercase() || *letter == '_' || letter.is_ascii_digit())
            {
                name.push(letter);
            }
            assert!(!name.is_empty(), "a $ names a variable");
            return Piece::Variable(name);
        }
        let (mut text, mut depth, mut quote) = (String::new(), 1, None);
        loop {
            let letter = self.letters.next().expect("$( ends");
            match (quote, letter) {
                (Some(open), _) if open == letter => quote = None,
                (None, '\'' | '"') => quote = Some(letter),
                (None, '(') => depth += 1,
                (None, ')') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Piece::Command(text);
            }
            text.push(letter);
        }
    }
}

#[test]
fn words_are_read_as_a_shell_reads_them() {
    let read = statements("# a comment\nA='x y'\ncurl -d '{\n}' \"$URL/a?b=\\\"\" \\\n  $K\n");
    let text = |text: &str| Piece::Text(text.to_owned());
    assert_eq!(read.len(), 2);
    assert_eq!(read[0], [vec![text("A"), text("="), text("x y")]]);
    assert_eq!(read[1][2], [text("{\n}")]);
    assert_eq!(read[1][3][1], Piece::Variable("URL".to_owned()));
    assert_eq!(read[1][4], [Piece::Variable("K".to_owned())]);
    let command = statements("ID=$(curl \"x)\" | jq -r .id)");
    assert_eq!(command[0][0].last(), Some(&Piece::Command("curl \"x)\" | jq -r .id".to_owned())));
}

#[test]
fn a_block_knows_what_it_follows() {
    let found = blocks("```sh\na\n```\n```json\n{}\n```\n\ntext\n\n```json\n{}\n```\n");
    let shape: Vec<_> = found.iter().map(|block| (block.language.as_str(), block.line, block.follows)).collect();
    assert_eq!(shape, [("sh", 1, false), ("json", 4, true), ("json", 10, false)]);
}
