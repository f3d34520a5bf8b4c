//! The schema of the index.
//!
//! **Invariant:** every term except a document's key begins with its tenant. A walk over terms therefore never leaves the
//! tenant, and posting lists are as short as if the tenant were alone. Texts are not stored: a hit is shown from its record.

use std::sync::LazyLock;

use tantivy::{
    Index, IndexSettings, TantivyDocument, Term,
    schema::{BytesOptions, FAST, Field, IndexRecordOption, NumericOptions, Schema, TextFieldIndexing, TextOptions},
    tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer, TokenizerManager},
};

use tenantd_base::id::TenantId;

use super::super::{
    model::{Attribute, Document, DocumentKey, Kind, State},
    text,
};

/// Increase this with every change of the index contents. An index with a different format is rebuilt.
pub const FORMAT: u32 = 4;

const TOKENIZER: &str = "tenant";
/// Separates the tenant and the terms in the text that the tokenizer receives.
const SEPARATOR: char = '\u{1f}';

/// The maximum length of the beginnings of words and of names that are stored as terms, so that a short beginning needs only
/// one posting list.
pub const LONGEST_GRAM: usize = 8;
pub const LONGEST_START: usize = 12;
/// The maximum size of a document's text in bytes. The rest is ignored.
const MOST_TEXT: usize = 64 << 10;

/// Fields whose identifiers are also found without their separators.
const COMPACTED: [&str; 3] = ["serial", "external_id", "provider_vm_id"];
/// The maximum number of phone numbers per text.
const MOST_PHONES: usize = 20;

/// The meaning of a term in [`Fields::tokens`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A term that every document has.
    All,
    Kind,
    Organization,
    State,
    /// An exact identifier other than the record's id, which is in the [key](Fields::key).
    Identifier,
    /// An identifier without separators.
    Compact,
    /// The digits of a phone number, without leading zeros.
    Phone,
    /// The digits of an international phone number after its country code.
    NationalPhone,
    /// The whole name.
    Name,
    /// The beginning of the name.
    Start,
    /// The beginning of a word in the name.
    Gram,
    /// An installed package.
    Software,
    Attribute(Attribute),
}

impl TokenKind {
    const fn letter(self) -> char {
        match self {
            Self::All => '*',
            Self::Kind => 'k',
            Self::Organization => 'o',
            Self::State => 's',
            Self::Identifier => 'i',
            Self::Name => 'x',
            Self::Start => 'b',
            Self::Gram => 'g',
            Self::Software => 'w',
            Self::Attribute(Attribute::Os) => 'f',
            Self::Attribute(Attribute::Ip) => 'p',
            Self::Attribute(Attribute::Mac) => 'm',
            Self::Attribute(Attribute::Serial) => 'n',
            Self::Attribute(Attribute::Tag) => 't',
            Self::Attribute(Attribute::Assignee) => 'a',
            Self::Attribute(Attribute::Priority) => 'r',
            Self::Attribute(Attribute::Number) => '#',
            Self::Attribute(Attribute::Address) => 'h',
            Self::Compact => 'c',
            Self::Phone => 'q',
            Self::NationalPhone => 'l',
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Identifies the document, to replace or remove it.
    pub key: Field,
    pub name: Field,
    pub body: Field,
    /// Values that are compared as a whole, each with its [`TokenKind`].
    pub tokens: Field,
    pub id_high: Field,
    pub id_low: Field,
    pub traits: Field,
    pub updated: Field,
    pub organization: Field,
}

pub const ID_HIGH: &str = "id_high";
pub const ID_LOW: &str = "id_low";
pub const TRAITS: &str = "traits";
pub const UPDATED: &str = "updated";
pub const ORGANIZATION: &str = "organization";

struct Layout {
    schema: Schema,
    fields: Fields,
}

static LAYOUT: LazyLock<Layout> = LazyLock::new(|| {
    let text = |option: IndexRecordOption, norms: bool| {
        let indexing = TextFieldIndexing::default().set_tokenizer(TOKENIZER).set_index_option(option).set_fieldnorms(norms);
        TextOptions::default().set_indexing_options(indexing)
    };
    let mut builder = Schema::builder();
    let fields = Fields {
        key: builder.add_bytes_field("key", BytesOptions::default().set_indexed()),
        name: builder.add_text_field("name", text(IndexRecordOption::WithFreqsAndPositions, true)),
        body: builder.add_text_field("body", text(IndexRecordOption::WithFreqsAndPositions, true)),
        tokens: builder.add_text_field("tokens", text(IndexRecordOption::Basic, false)),
        id_high: builder.add_u64_field(ID_HIGH, FAST),
        id_low: builder.add_u64_field(ID_LOW, FAST),
        traits: builder.add_u64_field(TRAITS, FAST),
        updated: builder.add_u64_field(UPDATED, NumericOptions::default().set_fast()),
        organization: builder.add_bytes_field(ORGANIZATION, BytesOptions::default().set_fast()),
    };
    Layout { schema: builder.build(), fields }
});

pub fn fields() -> Fields {
    LAYOUT.fields
}

pub fn schema() -> Schema {
    LAYOUT.schema.clone()
}

/// A builder for an index on disk or in memory.
pub fn builder() -> tantivy::IndexBuilder {
    Index::builder().schema(schema()).settings(IndexSettings::default()).tokenizers(tokenizers())
}

pub fn tokenizers() -> TokenizerManager {
    let tokenizers = TokenizerManager::default();
    tokenizers.register(TOKENIZER, TextAnalyzer::from(TenantTokenizer::default()));
    tokenizers
}

/// The prefix of all terms of a tenant.
pub fn tenant_prefix(tenant: TenantId) -> String {
    let text = tenant.to_string();
    text.split_once('_').map_or(text.clone(), |(_, id)| id.to_owned())
}

/// Builds the terms of one tenant.
#[derive(Clone, Debug)]
pub struct Terms {
    pub prefix: String,
}

impl Terms {
    pub fn new(tenant: TenantId) -> Self {
        Self { prefix: tenant_prefix(tenant) }
    }

    /// A word of a name or of another text.
    pub fn word(&self, field: Field, word: &str) -> Term {
        Term::from_field_text(field, &format!("{}{word}", self.prefix))
    }

    /// The text of a term in [`Fields::tokens`].
    pub fn token_text(&self, mark: TokenKind, value: &str) -> String {
        format!("{}{}{value}", self.prefix, mark.letter())
    }

    pub fn token(&self, mark: TokenKind, value: &str) -> Term {
        Term::from_field_text(fields().tokens, &self.token_text(mark, value))
    }
}

pub fn key_term(key: &DocumentKey) -> Term {
    Term::from_field_bytes(fields().key, &key_bytes(key))
}

fn key_bytes(key: &DocumentKey) -> Vec<u8> {
    [&key.id[..], &[key.kind.code()]].concat()
}

/// Type, state and openness in one number.
pub fn traits(kind: Kind, state: Option<State>) -> u64 {
    let open = state.is_none_or(State::is_open);
    u64::from(kind.code()) | u64::from(state.map_or(0, |state| state.code() + 1)) << 8 | u64::from(open) << 16
}

pub fn read_traits(traits: u64) -> (Option<Kind>, Option<State>) {
    let byte = |shift: u32| u8::try_from((traits >> shift) & 0xff).unwrap_or_default();
    (Kind::from_code(byte(0)), byte(8).checked_sub(1).and_then(State::from_code))
}

#[inline]
pub const fn is_open(traits: u64) -> bool {
    traits >> 16 & 1 == 1
}

/// The beginnings of a text, up to a maximum length in letters.
fn beginnings(text: &str, longest: usize) -> impl Iterator<Item = &str> {
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8()).take(longest);
    ends.filter_map(|end| text.get(..end))
}

/// Truncates a text to a number of letters.
pub fn cut(text: &str, letters: usize) -> &str {
    text.char_indices().nth(letters).and_then(|(at, _)| text.get(..at)).unwrap_or(text)
}

struct Joined {
    prefix: String,
    text: String,
}

impl Joined {
    fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), text: prefix.to_owned() }
    }

    fn push(&mut self, term: &str) {
        if self.text.len() < self.prefix.len() + MOST_TEXT {
            self.text.push(SEPARATOR);
            self.text.push_str(term);
        }
    }

    fn mark(&mut self, mark: TokenKind, value: &str) {
        let mut letter = [0; 4];
        self.text.push(SEPARATOR);
        self.text.push_str(mark.letter().encode_utf8(&mut letter));
        self.text.push_str(value);
    }
}

fn mark_phones(tokens: &mut Joined, value: &str) {
    for phone in text::phones(value).into_iter().take(MOST_PHONES) {
        tokens.mark(TokenKind::Phone, &phone.digits);
        phone.national.iter().for_each(|digits| tokens.mark(TokenKind::NationalPhone, digits));
    }
}

/// Converts a document into the form that the index stores.
pub fn render(document: &Document) -> TantivyDocument {
    let fields = fields();
    let prefix = tenant_prefix(document.tenant_id);
    let (mut name, mut body, mut tokens) = (Joined::new(&prefix), Joined::new(&prefix), Joined::new(&prefix));
    let words = text::tokens(&document.name);
    let whole = words.join(" ");
    for word in &words {
        name.push(word);
    }
    for (_, value) in document.texts.iter().chain(&document.identifiers) {
        let value = value.get(..value.floor_char_boundary(MOST_TEXT)).unwrap_or_default();
        for word in text::words(value) {
            body.push(&word.text);
        }
    }

    tokens.mark(TokenKind::All, "");
    tokens.mark(TokenKind::Kind, document.kind.name());
    tokens.mark(TokenKind::Name, &whole);
    // Words with a common beginning produce the same term more than once. That has no effect.
    words.iter().flat_map(|word| beginnings(word, LONGEST_GRAM)).for_each(|gram| tokens.mark(TokenKind::Gram, gram));
    beginnings(&whole, LONGEST_START).for_each(|start| tokens.mark(TokenKind::Start, start));
    document.identifiers.iter().for_each(|(_, value)| tokens.mark(TokenKind::Identifier, &text::identifier(value)));
    mark_phones(&mut tokens, &document.name);
    for (field, value) in document.texts.iter().chain(&document.identifiers) {
        let value = value.get(..value.floor_char_boundary(MOST_TEXT)).unwrap_or_default();
        if let Some(compact) = text::compact(value).filter(|_| COMPACTED.contains(field)) {
            tokens.mark(TokenKind::Compact, &compact);
        }
        mark_phones(&mut tokens, value);
    }
    for (attribute, value) in &document.attributes {
        tokens.mark(TokenKind::Attribute(*attribute), value);
        if let (Attribute::Ip, Ok(address)) = (attribute, value.parse()) {
            tokens.mark(TokenKind::Attribute(Attribute::Address), &text::sortable(address));
        }
    }
    document.software.iter().for_each(|name| tokens.mark(TokenKind::Software, &text::whole(name)));
    if let Some(state) = document.state {
        tokens.mark(TokenKind::State, state.name());
    }
    let mut rendered = TantivyDocument::default();
    if let Some(organization) = document.organization_id {
        tokens.mark(TokenKind::Organization, &organization.to_string());
        rendered.add_bytes(fields.organization, organization.as_bytes());
    }
    let id = u128::from_be_bytes(document.id);
    rendered.add_bytes(fields.key, &key_bytes(&document.key()));
    rendered.add_text(fields.name, name.text);
    rendered.add_text(fields.body, body.text);
    rendered.add_text(fields.tokens, tokens.text);
    rendered.add_u64(fields.id_high, u64::try_from(id >> 64).unwrap_or_default());
    rendered.add_u64(fields.id_low, u64::try_from(id & u128::from(u64::MAX)).unwrap_or_default());
    rendered.add_u64(fields.traits, traits(document.kind, document.state));
    rendered.add_u64(fields.updated, u64::try_from(document.updated_at.as_millis()).unwrap_or_default());
    rendered
}

/// Splits the text that [`render`] has joined, and adds the tenant prefix to every term.
#[derive(Clone, Debug, Default)]
struct TenantTokenizer {
    token: Token,
}

struct TenantTokens<'a> {
    prefix: &'a str,
    rest: Option<&'a str>,
    token: &'a mut Token,
}

impl Tokenizer for TenantTokenizer {
    type TokenStream<'a> = TenantTokens<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> TenantTokens<'a> {
        self.token.reset();
        let (prefix, rest) = text.split_once(SEPARATOR).map_or((text, None), |(prefix, rest)| (prefix, Some(rest)));
        TenantTokens { prefix, rest, token: &mut self.token }
    }
}

impl TokenStream for TenantTokens<'_> {
    fn advance(&mut self) -> bool {
        let Some(rest) = self.rest else { return false };
        // Terms are short, so a byte loop is faster than preparing a search.
        let end = rest.bytes().position(|byte| char::from(byte) == SEPARATOR);
        let (term, rest) = end.and_then(|end| Some((rest.get(..end)?, Some(rest.get(end + 1..)?)))).unwrap_or((rest, None));
        self.rest = rest;
        self.token.position = self.token.position.wrapping_add(1);
        self.token.text.clear();
        self.token.text.push_str(self.prefix);
        self.token.text.push_str(term);
        true
    }

    fn token(&self) -> &Token {
        self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        self.token
    }
}
