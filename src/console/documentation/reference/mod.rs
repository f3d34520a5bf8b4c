//! The API reference, made from the published document: areas, a page for each operation, a page for each schema.

mod effects;
mod list;
mod operation;
mod samples;
mod schema;
mod try_it;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use tenantd_http::pages::PageVisit;

use super::Content;

pub(super) use try_it::Tried;

pub(super) const PATH: &str = "/documentation/api/";
pub(super) const SCHEMAS_PATH: &str = "/documentation/schemas/";

/// Where the page of a schema is.
pub(super) fn schema_path(name: &str) -> String {
    format!("{SCHEMAS_PATH}{name}/")
}

pub(super) fn is_below(path: &str) -> bool {
    path.starts_with(PATH) || path.starts_with(SCHEMAS_PATH)
}

pub(super) struct Reference {
    pub(super) document: Arc<Value>,
    pub(super) areas: Vec<Area>,
}

/// The operations with one tag.
pub(super) struct Area {
    slug: String,
    pub(super) title: String,
    pub(super) description: String,
    operations: Vec<Operation>,
}

impl Area {
    pub(super) fn path(&self) -> String {
        format!("{PATH}{}/", self.slug)
    }
}

pub(super) struct Operation {
    pub(super) id: String,
    /// In capital letters.
    pub(super) method: String,
    pub(super) path: String,
    pub(super) summary: String,
    area: String,
}

impl Operation {
    /// Where its page is.
    pub(super) fn page(&self) -> String {
        format!("{PATH}{}/{}/", self.area, self.id)
    }

    fn value<'a>(&self, document: &'a Value) -> &'a Value {
        let methods = document.get("paths").and_then(|paths| paths.get(&self.path));
        methods.and_then(|methods| methods.get(self.method.to_lowercase())).unwrap_or(&Value::Null)
    }

    pub(super) fn description<'a>(&self, document: &'a Value) -> &'a str {
        text(self.value(document), "description")
    }
}

/// A member of an object that is a text.
fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// `ApiKeys` as words and as a part of a path.
fn names_of(tag: &str) -> (String, String) {
    let mut words = String::new();
    for letter in tag.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(if words.is_empty() { letter.to_uppercase().next() } else { letter.to_lowercase().next() });
    }
    let slug = words.to_lowercase().replace(' ', "-");
    (words.replace("Api ", "API "), slug)
}

impl Reference {
    pub(super) fn new(document: Arc<Value>) -> Self {
        let mut areas: BTreeMap<String, Vec<Operation>> = BTreeMap::new();
        for (path, methods) in document.get("paths").and_then(Value::as_object).into_iter().flatten() {
            for (method, operation) in methods.as_object().into_iter().flatten() {
                let tag = operation.pointer("/tags/0").and_then(Value::as_str).unwrap_or("Other");
                areas.entry(tag.to_owned()).or_default().push(Operation {
                    id: text(operation, "operationId").to_owned(),
                    method: method.to_uppercase(),
                    path: path.clone(),
                    summary: text(operation, "summary").to_owned(),
                    area: names_of(tag).1,
                });
            }
        }
        let description = |tag: &str| {
            let mut tags = document.get("tags").and_then(Value::as_array).into_iter().flatten();
            tags.find(|known| text(known, "name") == tag).map(|known| text(known, "description").to_owned()).unwrap_or_default()
        };
        let areas = areas.into_iter().map(|(tag, operations)| {
            let (title, slug) = names_of(&tag);
            Area { slug, title, description: description(&tag), operations }
        });
        Self { areas: areas.collect(), document }
    }

    pub(super) fn operations(&self) -> impl Iterator<Item = &Operation> {
        self.areas.iter().flat_map(|area| &area.operations)
    }

    /// The name, the page and the description of each schema.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&str, String, &str)> {
        let schemas = self.document.pointer("/components/schemas").and_then(Value::as_object).into_iter().flatten();
        schemas.map(|(name, schema)| (name.as_str(), schema_path(name), text(schema, "description")))
    }

    fn area(&self, slug: &str) -> Option<&Area> {
        self.areas.iter().find(|area| area.slug == slug)
    }

    fn find(&self, path: &str) -> Option<Target<'_>> {
        if let Some(rest) = path.strip_prefix(SCHEMAS_PATH) {
            let Some(name) = rest.strip_suffix('/') else { return rest.is_empty().then_some(Target::Schemas) };
            let schema = self.document.pointer("/components/schemas")?.as_object()?.get_key_value(name)?;
            return Some(Target::Schema(schema.0, schema.1));
        }
        let rest = path.strip_prefix(PATH)?;
        let Some(rest) = rest.strip_suffix('/') else { return rest.is_empty().then_some(Target::All) };
        match rest.split_once('/') {
            None => self.area(rest).map(Target::Area),
            Some((slug, id)) => {
                let area = self.area(slug)?;
                area.operations.iter().find(|operation| operation.id == id).map(|operation| Target::Operation(area, operation))
            }
        }
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.find(path).is_some()
    }

    /// The operation whose page is at a path.
    fn operation(&self, path: &str) -> Option<&Operation> {
        if let Some(Target::Operation(_, operation)) = self.find(path) { Some(operation) } else { None }
    }

    /// Whether the page has a form that calls its operation.
    pub(super) fn takes_forms(&self, path: &str) -> bool {
        self.operation(path).is_some_and(|operation| try_it::is_offered(&self.document, operation))
    }

    /// Does what the form of an operation asks for.
    pub(super) async fn act(&self, visit: &PageVisit<'_>) -> Option<Tried> {
        match (self.operation(visit.path), visit.form) {
            (Some(operation), Some(_)) => Some(try_it::act(&self.document, operation, visit).await),
            _ => None,
        }
    }

    pub(super) fn content(&self, path: &str, visit: &PageVisit<'_>, tried: Option<&Tried>) -> Option<Content> {
        Some(match self.find(path)? {
            Target::All => list::operations(self, &list::Filter::new(visit)),
            Target::Area(area) => list::area(area),
            Target::Operation(area, operation) => {
                operation::content(&self.document, area, operation, &try_it::show(&self.document, operation, visit, tried))
            }
            Target::Schemas => list::schemas(self),
            Target::Schema(name, schema) => schema::content(&self.document, name, schema),
        })
    }
}

/// What a path leads to.
enum Target<'a> {
    All,
    Area(&'a Area),
    Operation(&'a Area, &'a Operation),
    Schemas,
    Schema(&'a str, &'a Value),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_words_and_paths() {
        assert_eq!(names_of("ApiKeys"), ("API keys".to_owned(), "api-keys".to_owned()));
        assert_eq!(names_of("IdentityProviders"), ("Identity providers".to_owned(), "identity-providers".to_owned()));
        assert_eq!(names_of("Tickets"), ("Tickets".to_owned(), "tickets".to_owned()));
    }
}
