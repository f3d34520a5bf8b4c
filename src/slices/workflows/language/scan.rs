//! Finds the templates in a text, and refuses words that the compiler would notice only at run time.

use tenantd_base::vocabulary::nearest;

use super::filters::{FILTERS, TESTS};

/// A part of a text with templates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Expression(&'a str),
}

pub(crate) fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}

/// Splits a text into its parts. Braces inside an expression belong to it, even if the last one precedes the closing braces.
pub(crate) fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    if text.contains("{%") {
        return Err("{% … %} is not supported; use {{ … }}".to_owned());
    }
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        if !before.is_empty() {
            found.push(Piece::Text(before));
        }
        let end = end_of(after).ok_or("{{ is not closed by }}")?;
        let expression = after.get(..end).unwrap_or_default().trim();
        if expression.is_empty() {
            return Err("{{ }} is empty".to_owned());
        }
        found.push(Piece::Expression(expression));
        rest = after.get(end + 2..).unwrap_or_default();
    }
    if !rest.is_empty() {
        found.push(Piece::Text(rest));
    }
    Ok(found)
}

/// The position of the `}}` that closes an expression.
fn end_of(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut letters = Outside::new(text).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            '}' if letters.peek().is_some_and(|(_, next)| *next == '}') => return Some(at),
            _ => {}
        }
    }
    None
}

/// The characters of an expression outside of quoted texts.
struct Outside<'a> {
    letters: std::str::CharIndices<'a>,
}

impl<'a> Outside<'a> {
    fn new(text: &'a str) -> Self {
        Self { letters: text.char_indices() }
    }
}

impl Iterator for Outside<'_> {
    type Item = (usize, char);

    fn next(&mut self) -> Option<(usize, char)> {
        let (at, letter) = self.letters.next()?;
        if letter == '"' || letter == '\'' {
            let mut escaped = false;
            for (_, inner) in self.letters.by_ref() {
                match inner {
                    _ if escaped => escaped = false,
                    '\\' => escaped = true,
                    inner if inner == letter => break,
                    _ => {}
                }
            }
        }
        Some((at, letter))
    }
}

/// The number of operators, brackets and other signs in an expression, and of words that act as operators. Each may read whole
/// values.
pub(super) fn signs(expression: &str) -> u64 {
    let plain: String = Outside::new(expression).map(|(_, letter)| letter).collect();
    let signs = plain.chars().filter(|letter| !letter.is_alphanumeric() && !matches!(letter, ' ' | '_' | '.')).count();
    let words = plain.split(' ').filter(|word| matches!(*word, "in" | "is" | "and" | "or" | "not" | "if" | "else")).count();
    (signs + words) as u64
}

/// How often an expression concatenates values.
pub(super) fn joins(expression: &str) -> usize {
    Outside::new(expression).filter(|(_, letter)| matches!(letter, '~' | '+')).count()
}

/// Whether every slice step is a positive number. The template engine panics when it slices an empty value backwards.
fn has_plain_steps(plain: &str) -> bool {
    // For each open bracket: whether it is square, its number of colons, and where its last part begins.
    let mut open: Vec<(bool, u8, usize)> = Vec::new();
    for (at, letter) in plain.char_indices() {
        match letter {
            '[' | '(' | '{' => open.push((letter == '[', 0, at)),
            ':' => {
                if let Some((true, colons, begins)) = open.last_mut() {
                    (*colons, *begins) = (colons.saturating_add(1), at + 1);
                }
            }
            ']' | ')' | '}' => {
                let Some((true, 2.., begins)) = open.pop() else { continue };
                let step = plain.get(begins..at).unwrap_or_default().trim();
                if !step.is_empty() && !step.parse::<u32>().is_ok_and(|step| step > 0) {
                    return false;
                }
            }
            _ => {}
        }
    }
    true
}

/// Refuses operators, filters, tests and slices that the language does not support.
pub(super) fn check_words(expression: &str) -> Result<(), String> {
    let plain: String = Outside::new(expression).map(|(_, letter)| letter).collect();
    if !has_plain_steps(&plain) {
        return Err("the step of a slice must be a positive number; use `a | reverse` to reverse a value".to_owned());
    }
    if plain.contains('*') {
        return Err("* is not supported; use `a | times(b)`".to_owned());
    }
    for (at, _) in plain.match_indices('|') {
        known(word_after(&plain, at + 1), "filter", FILTERS)?;
    }
    let mut words =
        plain.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        if word == "is" {
            let test = words.next().unwrap_or_default();
            let test = if test == "not" { words.next().unwrap_or_default() } else { test };
            known(test, "test", TESTS)?;
        }
    }
    Ok(())
}

fn word_after(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default().trim_start();
    rest.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).next().unwrap_or_default()
}

fn known(word: &str, what: &str, list: &[&str]) -> Result<(), String> {
    if list.contains(&word) {
        return Ok(());
    }
    let meant = nearest(word, list.iter().copied()).map(|near| format!("; did you mean {near}?")).unwrap_or_default();
    Err(format!("there is no {what} {word}{meant}"))
}
