//! How a document lies in the index.
//!
//! **Invariant:** every term but a document's key begins with its tenant, so that no walk over terms leaves the tenant and a tenant's
//! lists are as short as if it were alone. Texts are not kept: a hit is shown from its record.

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

/// Raised with every change of what is in the index: an index of another format is built anew.
pub const FORMAT: u32 = 3;

const TOKENIZER: &str = "tenant";
/// Between the tenant and each term of a text that is handed to the tokenizer.
const SEPARATOR: char = '\u{1f}';

/// How many letters of the beginnings of words and of names are terms of their own, so that a short beginning is one list.
pub const LONGEST_GRAM: usize = 8;
pub const LONGEST_START: usize = 12;
/// The most bytes of a document's text that count.
const MOST_TEXT: usize = 64 << 10;

/// The fields whose identifiers are also found without the signs between their parts.
const COMPACTED: [&str; 3] = ["serial", "external_id", "provider_vm_id"];
/// The most phone numbers of one text that count.
const MOST_PHONES: usize = 20;

/// What a term in [`Fields::tokens`] stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Every document has it.
    All,
    Kind,
    Organization,
    State,
    /// What it is named by exactly, but for its id: that is in its [key](Fields::key).
    Identifier,
    /// The same without the signs between its parts, and phone numbers by their digits.
    Compact,
    /// The whole name.
    Name,
    /// How the name begins.
    Start,
    /// How a word of the name begins.
    Gram,
    /// An installed package.
    Software,
    Attribute(Attribute),
}

impl Mark {
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
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Fields {
    /// Names the document, to replace and remove it.
    pub key: Field,
    pub name: Field,
    pub body: Field,
    /// Everything that is compared as a whole, by its [`Mark`].
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

/// Prepares an index, on the disk or in memory.
pub fn builder() -> tantivy::IndexBuilder {
    Index::builder().schema(schema()).settings(IndexSettings::default()).tokenizers(tokenizers())
}

pub fn tokenizers() -> TokenizerManager {
    let tokenizers = TokenizerManager::default();
    tokenizers.register(TOKENIZER, TextAnalyzer::from(TenantTokenizer::default()));
    tokenizers
}

/// What all terms of a tenant begin with.
pub fn tenant_prefix(tenant: TenantId) -> String {
    let text = tenant.to_string();
    text.split_once('_').map_or(text.clone(), |(_, id)| id.to_owned())
}

/// Makes the terms of one tenant.
#[derive(Clone, Debug)]
pub struct Terms {
    pub prefix: String,
}

impl Terms {
    pub fn new(tenant: TenantId) -> Self {
        Self { prefix: tenant_prefix(tenant) }
    }

    /// A word of a name or of other text.
    pub fn word(&self, field: Field, word: &str) -> Term {
        Term::from_field_text(field, &format!("{}{word}", self.prefix))
    }

    /// The text of a term in [`Fields::tokens`].
    pub fn token_text(&self, mark: Mark, value: &str) -> String {
        format!("{}{}{value}", self.prefix, mark.letter())
    }

    pub fn token(&self, mark: Mark, value: &str) -> Term {
        Term::from_field_text(fields().tokens, &self.token_text(mark, value))
    }
}

pub fn key_term(key: &DocumentKey) -> Term {
    Term::from_field_bytes(fields().key, &key_bytes(key))
}

fn key_bytes(key: &DocumentKey) -> Vec<u8> {
    [&key.id[..], &[key.kind.code()]].concat()
}

/// Type, state and whether it is open, in one number.
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

/// The beginnings of a text, up to a length in letters.
fn beginnings(text: &str, longest: usize) -> impl Iterator<Item = &str> {
    let ends = text.char_indices().map(|(at, letter)| at + letter.len_utf8()).take(longest);
    ends.filter_map(|end| text.get(..end))
}

/// Cuts a text at a boundary of letters.
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

    fn mark(&mut self, mark: Mark, value: &str) {
        let mut letter = [0; 4];
        self.text.push(SEPARATOR);
        self.text.push_str(mark.letter().encode_utf8(&mut letter));
        self.text.push_str(value);
    }
}

/// The document as the index takes it.
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

    tokens.mark(Mark::All, "");
    tokens.mark(Mark::Kind, document.kind.name());
    tokens.mark(Mark::Name, &whole);
    // Where words begin alike, a document has a term more than once, which is the same as having it.
    words.iter().flat_map(|word| beginnings(word, LONGEST_GRAM)).for_each(|gram| tokens.mark(Mark::Gram, gram));
    beginnings(&whole, LONGEST_START).for_each(|start| tokens.mark(Mark::Start, start));
    document.identifiers.iter().for_each(|(_, value)| tokens.mark(Mark::Identifier, &text::identifier(value)));
    for (field, value) in document.texts.iter().chain(&document.identifiers) {
        let value = value.get(..value.floor_char_boundary(MOST_TEXT)).unwrap_or_default();
        let identifier = text::compact(value).filter(|_| COMPACTED.contains(field));
        text::phones(value).into_iter().take(MOST_PHONES).chain(identifier).for_each(|term| tokens.mark(Mark::Compact, &term));
    }
    for (attribute, value) in &document.attributes {
        tokens.mark(Mark::Attribute(*attribute), value);
        if let (Attribute::Ip, Ok(address)) = (attribute, value.parse()) {
            tokens.mark(Mark::Attribute(Attribute::Address), &text::sortable(address));
        }
    }
    document.software.iter().for_each(|name| tokens.mark(Mark::Software, &text::whole(name)));
    if let Some(state) = document.state {
        tokens.mark(Mark::State, state.name());
    }
    let mut rendered = TantivyDocument::default();
    if let Some(organization) = document.organization_id {
        tokens.mark(Mark::Organization, &organization.to_string());
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

/// Splits what [`render`] has joined, and puts the tenant in front of every term.
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
        // Terms are short: to look at each byte takes less than to prepare a search.
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
