//! The desk: the pages on which people work. Each page asks the API for what it shows, with the rights of its reader, and each form asks
//! the API for what it does.
//!
//! **Invariant:** the desk has no power of its own. All it can do is call operations of the API for its reader ([`Visitor`]).

mod administration;
mod analytics;
mod backups;
mod clouds;
mod confirm;
mod devices;
mod find;
mod frame;
mod home;
mod live;
mod operator;
mod organizations;
mod portal;
mod profile;
mod records;
mod routes;
mod runs;
mod search;
mod settings;
mod tickets;
mod views;
mod webhooks;
mod workflows;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode, header};
use maud::{Markup, html};
use poem::Response;
use serde_json::Value;

use tenantd_http::{
    credentials,
    need::Need,
    pages::{Page, PageVisit, Readers},
    problem::{Code, Problem},
};

use self::{
    confirm::Confirmation,
    routes::{Act, Show},
};
use crate::{page, refusal::Refusal, visitor, visitor::Visitor};

pub use routes::Route;

/// The lists of one page whose query can be wrong.
const MOST_REFUSED: usize = 4;

/// What a page answers.
pub(crate) enum Reply {
    Page(Content),
    /// A part of a page that the script puts into it.
    Part(Markup),
    /// Server-sent events for the script.
    Events(String),
    /// Leads on to a path of this site after a form.
    SeeOther(String),
    /// Leads on, and passes on the cookie of the session that the API has renewed.
    SignedIn(String, HeaderMap),
}

/// The content of a page in the frame of the desk.
pub(crate) struct Content {
    pub(crate) title: String,
    pub(crate) body: Markup,
    /// What the reader searched for.
    pub(crate) search: String,
    pub(crate) status: StatusCode,
    pub(crate) live: Option<Live>,
    /// When to try again what was refused, in seconds.
    retry_after: Option<u64>,
    /// The page shows a secret, and browsers must not keep it.
    is_secret: bool,
}

/// The events after which an open page is shown again.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    /// Patterns such as `ticket.*`.
    pub(crate) kinds: &'static str,
    /// The record that the page is about. `None`: any of these kinds.
    pub(crate) record: Option<String>,
}

impl Content {
    pub(crate) fn new(title: impl Into<String>, body: Markup) -> Self {
        Self {
            title: title.into(),
            body,
            search: String::new(),
            status: StatusCode::OK,
            live: None,
            retry_after: None,
            is_secret: false,
        }
    }

    /// The page follows the events of these kinds.
    pub(crate) fn live(mut self, kinds: &'static str) -> Self {
        self.live = Some(Live { kinds, record: None });
        self
    }

    /// The page follows the events of these kinds about one record.
    pub(crate) fn live_about(mut self, kinds: &'static str, record: &str) -> Self {
        self.live = Some(Live { kinds, record: Some(record.to_owned()) });
        self
    }

    /// The page shows a secret once.
    pub(crate) fn with_secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// The answer is a refusal.
    pub(crate) fn refused(mut self, refusal: &Refusal) -> Self {
        self.status = refusal.status;
        self.retry_after = refusal.retry_after;
        self
    }
}

/// What the desk knows of a route.
#[derive(Clone, Copy, Debug)]
struct Place {
    route: &'static Route,
    need: Need,
}

#[derive(Debug)]
pub struct Desk {
    places: matchit::Router<Place>,
}

impl Desk {
    /// The pages for staff. `document` is the published OpenAPI document. What a page needs is what the operations need that it calls.
    pub fn new(document: &Arc<Value>) -> Result<Self, String> {
        Self::with(document, Self::routes())
    }

    /// The pages for contacts.
    pub fn portal(document: &Arc<Value>) -> Result<Self, String> {
        Self::with(document, Self::portal_routes())
    }

    fn with(document: &Arc<Value>, routes: impl Iterator<Item = &'static Route>) -> Result<Self, String> {
        let needs = needs(document);
        let mut places = matchit::Router::new();
        for route in routes {
            let need = needs.get(route.operation).ok_or_else(|| format!("{}: no operation {}", route.path, route.operation))?;
            places.insert(route.path, Place { route, need: *need }).map_err(|error| error.to_string())?;
        }
        Ok(Self { places })
    }

    fn place(&self, path: &str) -> Option<(Place, Vec<(String, String)>)> {
        let found = self.places.at(path).ok()?;
        let parts = found.params.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Some((*found.value, parts))
    }

    async fn page(&self, visit: &PageVisit<'_>) -> Result<Response, Problem> {
        let (place, parts) = self.place(visit.path).ok_or_else(|| Problem::plain(Code::NotFound))?;
        let reader = visit.reader.ok_or_else(credentials::missing)?;
        let (preferences, clock) = visitor::preferences(visit).await;
        let confirmation = visit.form.and_then(Confirmation::of);
        let mut visit = *visit;
        let unconfirmed = match &confirmation {
            Some(confirmation) => {
                visit.form = Some(&confirmation.action);
                confirmation.send(&visit).await.err()
            }
            None => None,
        };
        let needs_confirmation = AtomicBool::new(false);
        let visitor = Visitor::new(&visit, reader, &preferences, &clock, &parts, &needs_confirmation);
        let outcome = match (visit.form, place.route.show, place.route.act) {
            (Some(_), _, Some(_)) if unconfirmed.is_some() => Ok(Reply::Page(confirm::content(&visitor, unconfirmed.as_ref()))),
            (Some(_), _, Some(Act(act))) => already_deleted(&visitor, act(visitor).await),
            (None, Some(Show(show)), _) => shown(visitor, show).await,
            (Some(_), _, None) => return Err(Problem::plain(Code::MethodNotAllowed).header(header::ALLOW, "GET, HEAD")),
            (None, None, _) => return Err(Problem::plain(Code::MethodNotAllowed).header(header::ALLOW, "POST")),
        };
        let outcome = if visit.form.is_some() && needs_confirmation.load(Ordering::Relaxed) {
            Ok(Reply::Page(confirm::content(&visitor, None)))
        } else {
            outcome
        };
        let content = match outcome {
            Ok(Reply::Part(part)) => return Ok(page::desk(StatusCode::OK, &part)),
            Ok(Reply::Events(events)) => return Ok(page::events(events)),
            Ok(Reply::SeeOther(path)) => return Ok(page::see_other(&path)),
            Ok(Reply::SignedIn(path, headers)) => return Ok(page::with_cookies(page::see_other(&path), &headers)),
            Ok(Reply::Page(content)) => content,
            // The session ended after the page was begun.
            Err(refusal) if refusal.status == StatusCode::UNAUTHORIZED => return Err(refusal.into()),
            Err(refusal) => refused(&refusal),
        };
        let made = if content.is_secret { page::unkept } else { page::desk };
        let shown = if reader.is_contact() {
            portal::frame(&visitor, &content)
        } else {
            frame::Frame { visitor: &visitor, content: &content }.render()
        };
        let mut response = made(content.status, &shown);
        if let Some(retry_after) = content.retry_after {
            response.headers_mut().insert(header::RETRY_AFTER, retry_after.into());
        }
        Ok(response)
    }
}

impl Page for Desk {
    fn serves(&self, path: &str) -> bool {
        self.places.at(path).is_ok()
    }

    fn readers(&self, path: &str) -> Readers {
        self.place(path).map_or(Readers::Everyone, |(place, _)| Readers::Only(place.need))
    }

    fn takes_forms(&self, path: &str) -> bool {
        self.place(path).is_some_and(|(place, _)| place.route.act.is_some())
    }

    fn answer<'a>(&'a self, visit: &'a PageVisit<'a>) -> BoxFuture<'a, Result<Response, Problem>> {
        Box::pin(self.page(visit))
    }
}

/// Shows a page. If the API refuses the query of a list, the page keeps it, says what is wrong with it, and shows an empty list.
async fn shown(visitor: Visitor<'_>, show: routes::Handler) -> Result<Reply, Refusal> {
    let mut refused: Vec<Refusal> = Vec::new();
    loop {
        let outcome = show(visitor.with_refused(&refused)).await;
        match (outcome, refused.first()) {
            (Err(refusal), _) if refusal.is_about_query() && !refused.iter().any(|known| known.target == refusal.target) => {
                if refused.len() == MOST_REFUSED {
                    return Err(refusal);
                }
                refused.push(refusal);
            }
            (Ok(Reply::Page(mut content)), Some(first)) => {
                content.body = html! { (alert(first)) (content.body) };
                let wrong = Refusal { status: StatusCode::UNPROCESSABLE_ENTITY, ..first.clone() };
                return Ok(Reply::Page(content.refused(&wrong)));
            }
            // The page cannot be made without what was refused, or this is a part that a script asks for.
            (_, Some(first)) => return Err(first.clone()),
            (outcome, None) => return outcome,
        }
    }
}

/// What is wrong with the query of a list. Each fault leads to its field if the page has one.
fn alert(refusal: &Refusal) -> Markup {
    html! {
        div.alert role="alert" {
            strong { (refusal.title) }
            @if refusal.errors.is_empty() { p { (refusal.detail) } }
            ul {
                @for error in &refusal.errors {
                    li { @if let Some(name) = &error.parameter { code { (name) } ": " } (error.message) }
                }
            }
        }
    }
}

/// A form that deletes a record and finds it gone has been sent before, or somebody else was faster. Leads to the list.
fn already_deleted(visitor: &Visitor<'_>, outcome: Result<Reply, Refusal>) -> Result<Reply, Refusal> {
    match outcome {
        Err(refusal) if refusal.status == StatusCode::NOT_FOUND => visitor.list_without().map(Reply::SeeOther).ok_or(refusal),
        outcome => outcome,
    }
}

/// The page that says why the API refused what the page needs.
fn refused(refusal: &Refusal) -> Content {
    let body = html! {
        h1 { (refusal.title) }
        p.lead { (refusal.detail) }
        @if !refusal.errors.is_empty() {
            ul { @for error in &refusal.errors { li { (error.message) } } }
        }
        p { a href="/" { "Home" } }
    };
    Content::new(refusal.title.clone(), body).refused(refusal)
}

/// What the operations of a document need, by their ids.
fn needs(document: &Value) -> BTreeMap<&str, Need> {
    let paths = document.get("paths").and_then(Value::as_object).into_iter().flatten();
    let operations = paths.flat_map(|(_, methods)| methods.as_object().into_iter().flatten());
    let need = |operation: &'_ Value| {
        let need = operation.get("x-need").and_then(Value::as_str).and_then(Need::parse)?;
        Some(need)
    };
    operations.filter_map(|(_, operation)| Some((operation.get("operationId")?.as_str()?, need(operation)?))).collect()
}
