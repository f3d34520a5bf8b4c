//! The list of users.

use maud::{Markup, html};

use tenantd_base::access::{Role, Scope};

use super::{API, PATH, SETTINGS, User, role_name};
use crate::{
    components::{curl, empty, page_head},
    desk::{
        Content, Reply,
        devices::{pairs, select},
        organizations::{counted, optional, or_none, pages, status_badge, trail},
        records::List,
        settings::roles,
    },
    query::Query,
    refusal::Refusal,
    visitor::Visitor,
};

const KINDS: [(&str, &str); 2] = [("staff", "Staff"), ("contact", "Contacts")];
const STATUSES: [(&str, &str); 2] = [("active", "Active"), ("disabled", "Disabled")];
const SORTS: [(&str, &str); 2] = [("-created_at", "Newest"), ("created_at", "Oldest")];
/// The parameters with a field in the form.
const FIELDS: [&str; 5] = ["q", "kind", "role", "status", "sort"];

pub(crate) async fn list(visitor: Visitor<'_>) -> Result<Reply, Refusal> {
    let query = visitor.query();
    // Contacts have pages of their own. This list is about people who sign in.
    let shown = query.clone().or("kind", "staff").or("sort", "-created_at");
    let target = shown.clone().or("limit", "50").with("include_total", "true").at(API);
    let users: List<User> = visitor.read(&target).await?;
    let roles = role_choices(&visitor).await?;
    let total = users.page.total.unwrap_or_default();
    let may_write = visitor.may(Scope::UsersWrite);
    let head = page_head(
        &html! { "Users" },
        &html! { (counted(total, "user", "users")) },
        &html! {
            (curl(visitor.visit.base_url, "GET", &target, None))
            @if may_write { a.button.primary href={ (PATH) "/new" } { "New user" } }
        },
    );
    let body = html! {
        (trail(&[(SETTINGS, "Settings")]))
        (head)
        (filter(&shown, roles))
        @if users.data.is_empty() {
            (empty(nothing(&query, may_write)))
        } @else {
            (table(&users.data, &visitor))
        }
        (pages(&query, PATH, users.data.len(), &users.page))
    };
    Ok(Reply::Page(Content::new("Users", body).live("user.* auth.login")))
}

fn nothing(query: &Query, may_write: bool) -> &'static str {
    match (*query == Query::default(), may_write) {
        (true, true) => "There are no users yet. Create one, or connect an identity provider.",
        (true, false) => "There are no users that you may see.",
        (false, _) => "No user matches. Remove a filter.",
    }
}

/// The built-in roles, then those of the tenant.
async fn role_choices(visitor: &Visitor<'_>) -> Result<Vec<(String, String)>, Refusal> {
    let built_in = Role::NAMES.iter().map(|role| ((*role).to_owned(), role_name(role).to_owned()));
    let custom = roles::all(visitor).await?.into_iter().map(|role| (role.id, role.name));
    Ok(built_in.chain(custom).collect())
}

fn filter(query: &Query, roles: Vec<(String, String)>) -> Markup {
    let kept = query.pairs().filter(|(name, _)| !FIELDS.contains(name) && *name != "cursor");
    html! {
        form.filter method="get" action=(PATH) role="search" aria-label="Filter users" data-filter {
            label { "Name or email address" input type="search" name="q" value=(query.first("q")) maxlength="100"; }
            (select(query, "kind", "Kind", pairs(&KINDS)))
            (select(query, "role", "Role", or_none("Any", roles)))
            (select(query, "status", "Status", or_none("Any", pairs(&STATUSES))))
            (select(query, "sort", "Sort", pairs(&SORTS)))
            @for (name, value) in kept { input type="hidden" name=(name) value=(value); }
            button { "Apply" }
        }
    }
}

fn table(users: &[User], visitor: &Visitor<'_>) -> Markup {
    html! {
        div.scroll tabindex="0" role="group" aria-label="Users" {
            table.list data-rows {
                thead { tr { @for head in ["Name", "Email address", "Role", "Status", "Last sign-in", "Created"] { th scope="col" { (head) } } } }
                tbody {
                    @for user in users {
                        tr {
                            td.main { a href=(user.path()) data-record { (user.name) } }
                            td { (optional(user.email.as_deref())) }
                            td.name { (user.place()) }
                            td { (status_badge(&user.status)) }
                            td.time {
                                @match &user.last_login_at {
                                    Some(time) => { (visitor.clock.relative(time)) }
                                    None => { span.muted { "Never" } }
                                }
                            }
                            td.time { (visitor.clock.relative(&user.created_at)) }
                        }
                    }
                }
            }
        }
    }
}
