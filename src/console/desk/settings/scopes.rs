//! The scope picker: a row for each area, with a box for each scope. Nobody can give a scope that they do not have.

use maud::{Markup, html};
use serde_json::Value;

use tenantd_base::access::{Grants, Scope};

use crate::{
    components::words,
    form::{Fields, Shown},
    query::Query,
};

/// The field of the form, the parameter of the page, and the member of the body.
pub(crate) const FIELD: &str = "scopes";

/// Sets of scopes that people often want. The reader gets those of them that they have.
const PRESETS: [(&str, &[&str]); 5] = [
    ("Read only", &["*:read"]),
    ("Tickets", &["tickets:read", "tickets:write", "directory:read", "search:read"]),
    ("Reports", &["analytics:read", "backup:read", "directory:read", "inventory:read", "tickets:read"]),
    ("Agents and imports", &["ingest:write"]),
    ("Everything that you may do", &["*"]),
];

/// The columns of the picker. The last one has the actions that only some areas have.
const COLUMNS: [&str; 3] = ["read", "write", "other"];

/// The scopes that a link to the page chooses, as far as the reader has them.
pub(crate) fn asked(query: &Query, held: Grants) -> Grants {
    let patterns = query.pairs().filter(|(name, _)| *name == FIELD).flat_map(|(_, value)| value.split(','));
    Grants::from_patterns(patterns).intersection(held)
}

/// The fields of a form in which these scopes are chosen.
pub(crate) fn fields(chosen: Grants) -> impl Iterator<Item = (String, String)> {
    chosen.iter().map(|scope| (FIELD.to_owned(), scope.name().to_owned()))
}

/// The scopes that a form chooses.
pub(crate) fn chosen(fields: &Fields) -> Grants {
    Grants::from_patterns(fields.all(FIELD))
}

/// The member of a body: the names of the scopes.
pub(super) fn value(chosen: Grants) -> Value {
    chosen.iter().map(Scope::name).collect::<Vec<_>>().into()
}

/// Links that choose a set of scopes.
pub(crate) fn presets(path: &str, chosen: Grants, held: Grants) -> Markup {
    let sets = PRESETS.iter().map(|(name, patterns)| (*name, Grants::from_patterns(patterns.iter().copied()).intersection(held)));
    html! {
        nav.chips aria-label="Sets of scopes" {
            @for (name, set) in sets.filter(|(_, set)| *set != Grants::NONE) {
                @let names = set.iter().map(Scope::name).collect::<Vec<_>>().join(",");
                a.chip href=(Query::default().with(FIELD, &names).at(path)) aria-current=[(set == chosen).then_some("true")] { (name) }
            }
        }
    }
}

/// `hint` says what the scopes are for.
pub(crate) fn picker(shown: Shown<'_>, offered: Grants, hint: &str) -> Markup {
    let chosen = chosen(shown.fields);
    let problem = shown.refusal.and_then(|refusal| refusal.about(FIELD));
    let described = if problem.is_some() { "scopes-problem scopes-hint" } else { "scopes-hint" };
    html! {
        fieldset.choices id=(FIELD) aria-describedby=(described) {
            legend { "Scopes" }
            @if let Some(problem) = problem { p.problem #scopes-problem { (problem) } }
            p.hint #scopes-hint { (hint) " You see the scopes that you have." }
            div.scroll tabindex="0" role="group" aria-label="Scopes by area" {
                table.list.scopes {
                    thead { tr { th scope="col" { "Area" } @for column in COLUMNS { th scope="col" { (words(column)) } } } }
                    tbody {
                        @for area in areas(offered) {
                            tr {
                                th scope="row" { (area_name(area)) }
                                @for column in COLUMNS { td { (boxes(offered, chosen, area, column)) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn boxes(offered: Grants, chosen: Grants, area: &str, column: &str) -> Markup {
    let scopes = offered.iter().filter(|scope| area_of(*scope) == area && column_of(*scope) == column);
    html! {
        @for scope in scopes {
            label.check {
                input type="checkbox" name=(FIELD) value=(scope.name()) checked[chosen.allows(scope)];
                span { (words(action_of(scope))) " " small { (scope.description()) } }
            }
        }
    }
}

/// The name of a scope is its area and its action.
fn area_of(scope: Scope) -> &'static str {
    scope.name().split_once(':').map_or("", |(area, _)| area)
}

fn action_of(scope: Scope) -> &'static str {
    scope.name().split_once(':').map_or("", |(_, action)| action)
}

fn column_of(scope: Scope) -> &'static str {
    match action_of(scope) {
        "read" => "read",
        "write" => "write",
        _ => "other",
    }
}

/// The areas of scopes in their order.
fn areas(grants: Grants) -> Vec<&'static str> {
    let mut areas: Vec<&'static str> = Vec::new();
    for area in grants.iter().map(area_of) {
        if !areas.contains(&area) {
            areas.push(area);
        }
    }
    areas
}

pub(super) fn area_name(area: &str) -> String {
    match area {
        "api_keys" => "API keys".to_owned(),
        "vms" => "Virtual machines".to_owned(),
        "providers" => "Cloud providers".to_owned(),
        other => words(other),
    }
}

/// The scopes of a key in a few words: the first of them, and how many more there are.
pub(crate) fn summary(patterns: &[String]) -> String {
    match patterns {
        [all] if all == "*" => "All scopes".to_owned(),
        [one, two, rest @ ..] if !rest.is_empty() => format!("{one}, {two} and {} more", rest.len()),
        few => few.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_chooses_only_scopes_that_the_reader_has() {
        let held = Grants::of(&[Scope::TicketsRead, Scope::TicketsWrite, Scope::SearchRead]);
        let query = Query::parse("scopes=tickets:read,users:write&scopes=search:*&scopes=nothing");
        assert_eq!(asked(&query, held), Grants::of(&[Scope::TicketsRead, Scope::SearchRead]));
        assert_eq!(asked(&Query::parse("scopes=*"), held), held);
    }

    #[test]
    fn a_preset_without_a_scope_of_the_reader_is_not_offered() {
        let held = Grants::of(&[Scope::TicketsRead]);
        let shown = presets("/settings/keys/new", held, held).into_string();
        assert!(shown.contains("Read only") && !shown.contains("Agents and imports"), "{shown}");
        assert!(shown.contains("href=\"/settings/keys/new?scopes=tickets%3Aread\" aria-current=\"true\""), "{shown}");
    }

    #[test]
    fn every_scope_has_one_box() {
        let none = Fields::default();
        let page = picker(Shown { fields: &none, refusal: None }, Grants::all(), "").into_string();
        for scope in Scope::ALL {
            assert_eq!(page.matches(&format!("value=\"{}\"", scope.name())).count(), 1, "{}", scope.name());
        }
    }

    #[test]
    fn a_form_chooses_what_it_was_filled_with() {
        let grants = Grants::of(&[Scope::TicketsRead, Scope::WorkflowsRun]);
        let filled = Fields::new(&fields(grants).collect::<Vec<_>>());
        assert_eq!(chosen(&filled), grants);
        assert_eq!(value(grants), json!(["tickets:read", "workflows:run"]));
    }

    #[test]
    fn many_scopes_are_counted() {
        let of = |names: &[&str]| summary(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!((of(&["*"]), of(&["a:read", "b:read"])), ("All scopes".to_owned(), "a:read, b:read".to_owned()));
        assert_eq!(of(&["a:read", "b:read", "c:read", "d:read"]), "a:read, b:read and 2 more");
    }
}
