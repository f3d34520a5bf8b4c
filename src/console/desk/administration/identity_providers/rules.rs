//! The rules of an identity provider: enforcement, freshness and strength of sign-ons, and the roles that groups give.

use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    components::{code, facts, words},
    form::{Control, Fields, Shown},
};

/// Separates a group from its role in a line of the form. A group can contain `=`, a role cannot.
const SEPARATOR: char = '=';

#[derive(Debug, Deserialize)]
pub(super) struct Rules {
    enforcement: String,
    break_glass_user_ids: Vec<String>,
    groups_claim: String,
    role_mappings: Vec<RoleMapping>,
    unmapped: String,
    max_age_seconds: Option<u32>,
    required_acr: Vec<String>,
    own_redirect_uri: bool,
}

#[derive(Debug, Deserialize)]
struct RoleMapping {
    group: String,
    role: String,
}

const ENFORCEMENTS: [(&str, &str); 3] =
    [("off", "Optional"), ("domains", "Required for the proven domains"), ("tenant", "Required for all staff")];
const UNMAPPED: [(&str, &str); 2] = [("default_role", "Get the role of new users"), ("refuse", "Are refused")];
const REDIRECTS: [(&str, &str); 2] = [("true", "Its own"), ("false", "Shared with other providers")];

fn choices(known: &[(&str, &str)]) -> Vec<(String, String)> {
    known.iter().map(|(value, name)| ((*value).to_owned(), (*name).to_owned())).collect()
}

fn name_of<'a>(known: &[(&'a str, &'a str)], value: &str) -> &'a str {
    known.iter().find(|(known, _)| *known == value).map_or("", |(_, name)| name)
}

/// The fields of the form as a new provider has them.
pub(super) fn set_defaults(fields: &mut Fields) {
    for (name, value) in [("enforcement", "off"), ("groups_claim", "groups"), ("unmapped", "default_role")] {
        fields.set(name, value);
    }
}

impl Rules {
    pub(super) fn has_own_redirect_uri(&self) -> bool {
        self.own_redirect_uri
    }

    /// Sets the fields of the form.
    pub(super) fn fill(&self, fields: &mut Fields) {
        let mappings = self.role_mappings.iter().map(|mapping| format!("{} {SEPARATOR} {}", mapping.group, mapping.role));
        fields.set("enforcement", self.enforcement.clone());
        fields.set("break_glass_user_ids", self.break_glass_user_ids.join("\n"));
        fields.set("groups_claim", self.groups_claim.clone());
        fields.set("role_mappings", mappings.collect::<Vec<_>>().join("\n"));
        fields.set("unmapped", self.unmapped.clone());
        fields.set("max_age_seconds", self.max_age_seconds.map(|seconds| seconds.to_string()).unwrap_or_default());
        fields.set("required_acr", self.required_acr.join(", "));
        fields.set("own_redirect_uri", self.own_redirect_uri.to_string());
    }

    pub(super) fn details(&self) -> Markup {
        let accounts = html! {
            ul.plain { @for id in &self.break_glass_user_ids { li { a href={ "/settings/users/" (id) } { code { (id) } } } } }
        };
        let mappings = html! {
            ul.plain { @for mapping in &self.role_mappings { li { code { (mapping.group) } " → " (words(&mapping.role)) } } }
        };
        let max_age = self.max_age_seconds.map(|seconds| html! { (seconds) " seconds" });
        facts(&[
            ("Single sign-on", Some(html! { (name_of(&ENFORCEMENTS, &self.enforcement)) })),
            ("Break-glass accounts", Some(accounts).filter(|_| !self.break_glass_user_ids.is_empty())),
            ("Groups claim", Some(code(&self.groups_claim))),
            ("Roles of groups", Some(mappings).filter(|_| !self.role_mappings.is_empty())),
            ("Other people", Some(html! { (name_of(&UNMAPPED, &self.unmapped)) }).filter(|_| !self.role_mappings.is_empty())),
            ("Oldest authentication", max_age),
            ("Accepted classes", Some(code(&self.required_acr.join(" "))).filter(|_| !self.required_acr.is_empty())),
        ])
    }
}

/// The members of the body. A line that is no mapping is sent with an empty role, so that the API refuses it with its place.
pub(super) fn members(fields: &Fields) -> Map<String, Value> {
    let mapping = |line: &str| {
        let (group, role) = line.rsplit_once(SEPARATOR).unwrap_or((line, ""));
        json!({"group": group.trim(), "role": role.trim()})
    };
    let lines = fields.get("role_mappings").lines().map(str::trim).filter(|line| !line.is_empty());
    let age = fields.get("max_age_seconds");
    let mut body = fields.filled(&["enforcement", "groups_claim", "unmapped"]);
    body.insert("break_glass_user_ids".to_owned(), fields.each_line("break_glass_user_ids").into());
    body.insert("role_mappings".to_owned(), lines.map(mapping).collect());
    body.insert(
        "max_age_seconds".to_owned(),
        if age.is_empty() { Value::Null } else { age.parse::<u32>().map_or(age.into(), Value::from) },
    );
    body.insert("required_acr".to_owned(), fields.words("required_acr").into());
    if fields.has("own_redirect_uri") {
        body.insert("own_redirect_uri".to_owned(), (fields.get("own_redirect_uri") == "true").into());
    }
    body
}

/// The inputs of the form. A new provider always has its own redirect URI.
pub(super) fn inputs(shown: Shown<'_>, is_new: bool) -> Markup {
    html! {
        h2 { "Groups and roles" }
        (shown.field("groups_claim", "Groups claim", Control::Input("text"), "The claim with the groups of a person, or the path to it, such as realm_access.roles.", true))
        (shown.field("role_mappings", "Roles of groups", Control::Text { rows: 4 }, "One group a line, such as: helpdesk = technician. At every sign-on, the first line whose group the person has decides their role.", false))
        (shown.field("unmapped", "People without such a group", Control::Choice(&choices(&UNMAPPED)), "", true))
        h2 { "Security" }
        @if !is_new {
            (shown.field("enforcement", "Single sign-on", Control::Choice(&choices(&ENFORCEMENTS)), "When it is required, passwords stop working at once, except those of break-glass accounts. Test the provider first.", true))
            (shown.field("break_glass_user_ids", "Break-glass accounts", Control::Text { rows: 3 }, "IDs of staff who keep their password for when the provider fails, one a line, at most 5. One must be an administrator.", false))
        }
        (shown.field("max_age_seconds", "Oldest authentication in seconds", Control::Input("number"), "How long ago a person may have authenticated at the provider. Empty: it does not matter.", false))
        (shown.field("required_acr", "Accepted classes of authentication", Control::Input("text"), "Values of acr, such as phr. Separate them with commas. Empty: any.", false))
        @if !is_new {
            (shown.field("own_redirect_uri", "Redirect URI", Control::Choice(&choices(&REDIRECTS)), "Register the provider's own redirect URI there before you change this.", true))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_form_is_a_mapping() {
        let mut fields = Fields::default();
        set_defaults(&mut fields);
        fields.set("role_mappings", "cn=admins,dc=acme = admin\n\nhelpdesk=technician\nodd");
        fields.set("max_age_seconds", "3600");
        let body = Value::Object(members(&fields));
        let mapping = |group: &str, role: &str| json!({"group": group, "role": role});
        let wanted = [mapping("cn=admins,dc=acme", "admin"), mapping("helpdesk", "technician"), mapping("odd", "")];
        assert_eq!(body["role_mappings"], json!(wanted));
        assert_eq!((&body["max_age_seconds"], &body["enforcement"]), (&json!(3600), &json!("off")));
        assert!(body.get("own_redirect_uri").is_none());
    }
}
