//! Provisioning: where an identity provider sends people and groups, and which roles groups give.

use http::Method;
use maud::{Markup, html};
use serde::Deserialize;
use serde_json::{Value, json};

use tenantd_base::access::{Role, Scope};

use super::{PATH as SETTINGS, roles, users::role_name};
use crate::{
    components::{card, code, curl, page_head},
    desk::{
        Content, Reply,
        organizations::{is_correctable, optional, pages, trail},
        records::List,
    },
    form::{Control, Fields, Shown, VERSION},
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const RULES: &str = "/api/admin/provisioning/role-rules";
const GROUPS: &str = "/api/admin/provisioning/groups";
const PATH: &str = "/settings/provisioning";
/// The word for no organization at all. An empty field means the whole tenant.
const NONE: &str = "none";
const REACH: &str = "IDs of organizations, separated by commas. Leave it empty for the whole tenant, or write none for no records.";

#[derive(Debug, Deserialize)]
struct Group {
    id: String,
    display_name: String,
    member_count: u64,
    updated_at: String,
}

#[derive(Debug, Deserialize)]
struct Rule {
    group_id: String,
    role: String,
    organization_ids: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct RoleRules {
    rules: Vec<Rule>,
    default_role: String,
    default_organization_ids: Option<Vec<String>>,
    version: u64,
}

pub(super) async fn show(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    page(&visitor, None).await
}

pub(super) async fn change(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let fields = visitor.fields();
    match visitor.act(Method::PUT, RULES, Some(body(&fields))).await {
        Ok(_) => Ok(Reply::SeeOther(format!("{PATH}?saved=true"))),
        Err(refusal) if is_correctable(&refusal) => page(&visitor, Some((&fields, &refusal))).await,
        Err(refusal) => Err(refusal),
    }
}

fn reach_text(ids: Option<&[String]>) -> String {
    ids.map_or_else(String::new, |ids| if ids.is_empty() { NONE.to_owned() } else { ids.join(", ") })
}

fn reach_value(fields: &Fields, name: &str) -> Value {
    match fields.get(name) {
        "" => Value::Null,
        NONE => json!([]),
        _ => fields.words(name).into(),
    }
}

/// The fields of the form. A rule has three, with its number.
fn filled(rules: &RoleRules) -> Fields {
    let mut fields = Fields::default();
    for (place, rule) in rules.rules.iter().enumerate() {
        fields.set(&format!("group_{place}"), rule.group_id.clone());
        fields.set(&format!("role_{place}"), rule.role.clone());
        fields.set(&format!("reach_{place}"), reach_text(rule.organization_ids.as_deref()));
    }
    fields.set("default_role", rules.default_role.clone());
    fields.set("default_organization_ids", reach_text(rules.default_organization_ids.as_deref()));
    fields
}

/// The numbers of the rules that a form has.
fn places(fields: &Fields) -> impl Iterator<Item = usize> {
    (0..).take_while(|place| fields.has(&format!("group_{place}")))
}

/// The rules that the form asks for. A rule without a group is left out.
fn body(fields: &Fields) -> Value {
    let mut rules = Vec::new();
    for place in places(fields) {
        let group = fields.get(&format!("group_{place}"));
        if !group.is_empty() {
            let role = fields.get(&format!("role_{place}"));
            let rule = json!({"group_id": group, "role": role});
            rules.push(reaching(rule, "organization_ids", reach_value(fields, &format!("reach_{place}"))));
        }
    }
    let body = json!({"rules": rules, "default_role": fields.get("default_role")});
    reaching(body, "default_organization_ids", reach_value(fields, "default_organization_ids"))
}

/// Adds the organizations to an object, unless they are those of the whole tenant.
fn reaching(mut object: Value, name: &str, ids: Value) -> Value {
    if let Some(members) = object.as_object_mut().filter(|_| !ids.is_null()) {
        members.insert(name.to_owned(), ids);
    }
    object
}

async fn page(visitor: &Visitor<'_>, refused: Option<(&Fields, &Refusal)>) -> Result<Reply, Refusal> {
    let rules: RoleRules = visitor.read(RULES).await?;
    let query = visitor.query().without("saved");
    let target = query.clone().or("limit", "200").at(GROUPS);
    let groups: List<Group> = visitor.read(&target).await?;
    let custom = roles::all(visitor).await?;
    let mut fields = refused.map_or_else(|| filled(&rules), |(fields, _)| fields.clone());
    // A row for one more rule.
    let next = places(&fields).count();
    if refused.is_none() {
        fields.set(&format!("group_{next}"), "");
        fields.set(&format!("role_{next}"), Role::Viewer.name());
    }
    // A form that nobody has filled in chooses the first role.
    let offered = [Role::Viewer, Role::Technician, Role::Admin];
    let built_in = offered.map(|role| (role.name().to_owned(), role_name(role.name()).to_owned())).into_iter();
    let roles: Vec<(String, String)> = built_in.chain(custom.iter().map(|role| (role.id.clone(), role.name.clone()))).collect();
    let shown = Shown { fields: &fields, refusal: refused.map(|(_, refusal)| refusal) };
    let head = page_head(
        &html! { "Provisioning" },
        &html! { "An identity provider creates, changes and disables staff with SCIM 2.0, and sends groups. Rules turn groups into roles." },
        &curl(visitor.visit.base_url, "GET", RULES, None),
    );
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (head)
        @if visitor.query().first("saved") == "true" { p.note role="status" { "The rules are saved." } }
        (card("Connect an identity provider", &connection(visitor)))
        (card("Role rules", &if visitor.may(Scope::UsersWrite) {
            form(visitor, shown, &rules, &groups.data, &roles)
        } else {
            listed(&rules, &groups.data, &roles)
        }))
        (card("Groups", &html! {
            @if groups.data.is_empty() {
                p.muted { "There are no groups. The identity provider creates them." }
            } @else {
                (table(visitor, &groups.data, &rules, &roles))
            }
        }))
        (pages(&query, PATH, groups.data.len(), &groups.page))
    };
    let content = Content::new("Provisioning", body);
    Ok(Reply::Page(match refused {
        Some((_, refusal)) => content.refused(refusal),
        None => content,
    }))
}

fn connection(visitor: &Visitor<'_>) -> Markup {
    let new_key = Query::default().with("scopes", Scope::ProvisioningWrite.name()).at("/settings/keys/new");
    html! {
        p { "Address: " (code(&format!("{}/scim/v2", visitor.visit.base_url))) }
        p {
            "Credential: an API key with the scope " (code(Scope::ProvisioningWrite.name())) ", as a bearer token. "
            @if visitor.may(Scope::ApiKeysWrite) && visitor.may(Scope::ProvisioningWrite) { a href=(new_key) { "Create the key" } }
        }
        p.muted { a href="/documentation/guides/provisioning/" { "Guide to provisioning with Entra ID and Okta" } }
    }
}

/// The name of the role that a rule gives.
fn named(roles: &[(String, String)], id: &str) -> String {
    roles.iter().find(|(known, _)| known == id).map_or_else(|| format!("deleted role ({id})"), |(_, name)| name.clone())
}

/// The roles to choose from, and the chosen one if it no longer exists. So a form never saves another role than it showed.
fn offered(roles: &[(String, String)], chosen: &str) -> Vec<(String, String)> {
    let is_gone = !chosen.is_empty() && roles.iter().all(|(known, _)| known != chosen);
    let gone = is_gone.then(|| (chosen.to_owned(), named(roles, chosen)));
    roles.iter().cloned().chain(gone).collect()
}

fn form(visitor: &Visitor<'_>, shown: Shown<'_>, rules: &RoleRules, groups: &[Group], roles: &[(String, String)]) -> Markup {
    let mut choices = vec![(String::new(), "No group".to_owned())];
    choices.extend(groups.iter().map(|group| (group.id.clone(), group.display_name.clone())));
    // A rule may be about a group on another page.
    for rule in rules.rules.iter().filter(|rule| !groups.iter().any(|group| group.id == rule.group_id)) {
        choices.push((rule.group_id.clone(), rule.group_id.clone()));
    }
    let roles_for = |name: &str| offered(roles, shown.fields.get(name));
    let example = json!({"rules": [], "default_role": Role::Viewer.name(), "default_organization_ids": []});
    html! {
        form.stack method="post" action=(PATH) {
            (visitor.tokens())
            input type="hidden" name=(VERSION) value=(rules.version);
            (shown.summary())
            p.hint { "The first rule whose group a person is in decides." }
            @for place in places(shown.fields) {
                fieldset {
                    legend { "Rule " (place + 1) }
                    (shown.field(&format!("group_{place}"), "Group", Control::Choice(&choices), "", false))
                    @let role = format!("role_{place}");
                    (shown.field(&role, "Role", Control::Choice(&roles_for(&role)), "", false))
                    (shown.field(&format!("reach_{place}"), "Organizations", Control::Input("text"), REACH, false))
                }
            }
            fieldset {
                legend { "Everybody else" }
                @let default = roles_for("default_role");
                (shown.field("default_role", "Role", Control::Choice(&default), "For provisioned people whom no rule is about.", true))
                (shown.field("default_organization_ids", "Organizations", Control::Input("text"), REACH, false))
            }
            div.actions { button { "Save" } (curl(visitor.visit.base_url, "PUT", RULES, Some(&example))) }
        }
    }
}

/// The rules for somebody who cannot change them.
fn listed(rules: &RoleRules, groups: &[Group], roles: &[(String, String)]) -> Markup {
    let group =
        |id: &str| groups.iter().find(|group| group.id == id).map_or_else(|| id.to_owned(), |group| group.display_name.clone());
    html! {
        ul.lines { @for rule in &rules.rules { li.row { strong { (group(&rule.group_id)) } (named(roles, &rule.role)) } } }
        p { "Everybody else: " (named(roles, &rules.default_role)) "." }
    }
}

fn table(visitor: &Visitor<'_>, groups: &[Group], rules: &RoleRules, roles: &[(String, String)]) -> Markup {
    let role = |group: &Group| rules.rules.iter().find(|rule| rule.group_id == group.id).map(|rule| named(roles, &rule.role));
    html! {
        div.scroll tabindex="0" role="group" aria-label="Groups" {
            table.list {
                thead { tr { @for head in ["Name", "Members", "Role", "Changed"] { th scope="col" { (head) } } } }
                tbody {
                    @for group in groups {
                        tr {
                            td.main { (group.display_name) }
                            td { (group.member_count) }
                            td { (optional(role(group).as_deref())) }
                            td.time { (visitor.clock.relative(&group.updated_at)) }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_that_no_longer_exists_stays_chosen() {
        let roles = [("viewer".to_owned(), "Viewer".to_owned()), ("rol_1".to_owned(), "Desk".to_owned())];
        for chosen in ["viewer", "rol_1", ""] {
            assert_eq!(offered(&roles, chosen), roles, "{chosen}");
        }
        let with_gone = offered(&roles, "rol_2");
        assert_eq!(with_gone.len(), 3);
        assert_eq!(with_gone.last(), Some(&("rol_2".to_owned(), "deleted role (rol_2)".to_owned())));
    }

    #[test]
    fn a_form_asks_for_the_rules_that_have_a_group() {
        let rules = json!({"rules": [{"group_id": "grp_1", "role": "admin"}, {"group_id": "grp_2", "role": "viewer", "organization_ids": []}],
            "default_role": "viewer", "default_organization_ids": ["org_1", "org_2"], "version": 3});
        let read: RoleRules = serde_json::from_value(rules.clone()).unwrap();
        let mut fields = filled(&read);
        fields.set("group_2", "");
        fields.set("role_2", "admin");
        let mut expected = rules;
        expected.as_object_mut().unwrap().remove("version");
        assert_eq!(body(&fields), expected);
        fields.set("group_0", "");
        assert_eq!(body(&fields)["rules"].as_array().unwrap().len(), 1);
    }
}
