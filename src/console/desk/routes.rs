//! The pages of the desk, and the operation of the API that each of them needs.

use std::fmt;

use futures_util::future::BoxFuture;

use super::{
    Reply, administration, analytics, backups, clouds, devices, home, live, operator, organizations, portal, profile, runs, search,
    settings, tickets, webhooks, workflows,
};
use crate::{refusal::Refusal, visitor::Visitor};

pub(super) type Handler = for<'a> fn(Visitor<'a>) -> BoxFuture<'a, Result<Reply, Refusal>>;

/// Shows a page.
#[derive(Clone, Copy)]
pub(super) struct Show(pub(super) Handler);

/// Does what a form asks for.
#[derive(Clone, Copy)]
pub(super) struct Act(pub(super) Handler);

/// A page of the desk.
#[derive(Clone, Copy)]
pub struct Route {
    pub path: &'static str,
    /// The operation without which the page is of no use. Who may not call it does not see the page.
    pub operation: &'static str,
    pub(super) show: Option<Show>,
    pub(super) act: Option<Act>,
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.path)
    }
}

impl Route {
    /// Whether the page is read.
    pub fn is_shown(&self) -> bool {
        self.show.is_some()
    }

    /// Whether forms are sent to it.
    pub fn takes_forms(&self) -> bool {
        self.act.is_some()
    }

    pub(super) const fn shows(path: &'static str, operation: &'static str, show: Handler) -> Self {
        Self { path, operation, show: Some(Show(show)), act: None }
    }

    pub(super) const fn acts(path: &'static str, operation: &'static str, act: Handler) -> Self {
        Self { path, operation, show: None, act: Some(Act(act)) }
    }

    pub(super) const fn both(path: &'static str, operation: &'static str, show: Handler, act: Handler) -> Self {
        Self { path, operation, show: Some(Show(show)), act: Some(Act(act)) }
    }
}

/// Home, the service desk, the directory and the reader's own pages.
const ROUTES: &[Route] = &[
    Route::shows("/", "read_preferences", |visitor| Box::pin(home::show(visitor))),
    Route::both(
        "/tickets",
        "list_tickets",
        |visitor| Box::pin(tickets::queue(visitor)),
        |visitor| Box::pin(tickets::change_several(visitor)),
    ),
    Route::both(
        "/tickets/new",
        "create_tickets",
        |visitor| Box::pin(tickets::new(visitor)),
        |visitor| Box::pin(tickets::create(visitor)),
    ),
    Route::acts("/tickets/views", "create_view", |visitor| Box::pin(tickets::save_view(visitor))),
    Route::acts("/tickets/views/{id}/delete", "delete_view", |visitor| Box::pin(tickets::delete_view(visitor))),
    Route::shows("/tickets/{id}", "read_ticket", |visitor| Box::pin(tickets::ticket(visitor))),
    Route::acts("/tickets/{id}/status", "update_ticket_by_id", |visitor| Box::pin(tickets::change_status(visitor))),
    Route::acts("/tickets/{id}/edit", "update_ticket_by_id", |visitor| Box::pin(tickets::edit_details(visitor))),
    Route::acts("/tickets/{id}/devices", "update_ticket_by_id", |visitor| Box::pin(tickets::change_devices(visitor))),
    Route::acts("/tickets/{id}/replies", "create_ticket_comment", |visitor| Box::pin(tickets::reply(visitor))),
    Route::acts("/tickets/{id}/time", "create_ticket_time_entry", |visitor| Box::pin(tickets::add_time(visitor))),
    Route::shows("/organizations", "list_organizations", |visitor| Box::pin(organizations::list(visitor))),
    Route::both(
        "/organizations/new",
        "create_organizations",
        |visitor| Box::pin(organizations::new(visitor)),
        |visitor| Box::pin(organizations::create(visitor)),
    ),
    Route::shows("/organizations/{id}", "read_organization", |visitor| Box::pin(organizations::show(visitor))),
    Route::both(
        "/organizations/{id}/edit",
        "update_organization_by_id",
        |visitor| Box::pin(organizations::edit(visitor)),
        |visitor| Box::pin(organizations::change(visitor)),
    ),
    Route::both(
        "/organizations/{id}/delete",
        "delete_organization_by_id",
        |visitor| Box::pin(organizations::show_deletion(visitor)),
        |visitor| Box::pin(organizations::delete(visitor)),
    ),
    Route::shows("/organizations/{id}/contacts", "list_contacts", |visitor| Box::pin(organizations::contacts(visitor))),
    Route::both(
        "/organizations/{id}/contacts/new",
        "create_contacts",
        |visitor| Box::pin(organizations::new_contact(visitor)),
        |visitor| Box::pin(organizations::create_contact(visitor)),
    ),
    Route::shows("/contacts/{id}", "read_contact", |visitor| Box::pin(organizations::show_contact(visitor))),
    Route::both(
        "/contacts/{id}/edit",
        "update_contact_by_id",
        |visitor| Box::pin(organizations::edit_contact(visitor)),
        |visitor| Box::pin(organizations::change_contact(visitor)),
    ),
    Route::acts("/contacts/{id}/status", "update_contact_by_id", |visitor| Box::pin(organizations::change_contact_status(visitor))),
    Route::both(
        "/contacts/{id}/delete",
        "delete_contact_by_id",
        |visitor| Box::pin(organizations::show_contact_deletion(visitor)),
        |visitor| Box::pin(organizations::delete_contact(visitor)),
    ),
    Route::acts("/contacts/{id}/portal-access", "give_portal_access", |visitor| {
        Box::pin(organizations::give_portal_access(visitor))
    }),
    Route::acts("/contacts/{id}/portal-access/remove", "remove_portal_access", |visitor| {
        Box::pin(organizations::remove_portal_access(visitor))
    }),
    Route::shows("/devices", "list_devices", |visitor| Box::pin(devices::list(visitor))),
    Route::both(
        "/devices/new",
        "create_devices",
        |visitor| Box::pin(devices::new(visitor)),
        |visitor| Box::pin(devices::create(visitor)),
    ),
    Route::acts("/devices/views", "create_view", |visitor| Box::pin(devices::save_view(visitor))),
    Route::acts("/devices/views/{id}/delete", "delete_view", |visitor| Box::pin(devices::delete_view(visitor))),
    Route::shows("/devices/{id}", "read_device", |visitor| Box::pin(devices::show(visitor))),
    Route::both(
        "/devices/{id}/edit",
        "update_device_by_id",
        |visitor| Box::pin(devices::edit(visitor)),
        |visitor| Box::pin(devices::change(visitor)),
    ),
    Route::both(
        "/devices/{id}/delete",
        "delete_device_by_id",
        |visitor| Box::pin(devices::show_deletion(visitor)),
        |visitor| Box::pin(devices::delete(visitor)),
    ),
    Route::shows("/search", "search", |visitor| Box::pin(search::show(visitor))),
    Route::shows("/search/suggest", "search", |visitor| Box::pin(search::suggest(visitor))),
    Route::shows("/live", "read_events", |visitor| Box::pin(live::show(visitor))),
    Route::both(
        "/profile",
        "read_session",
        |visitor| Box::pin(profile::show(visitor)),
        |visitor| Box::pin(profile::change(visitor)),
    ),
    Route::both(
        "/profile/password",
        "change_own_password",
        |visitor| Box::pin(profile::show_password(visitor)),
        |visitor| Box::pin(profile::change_password(visitor)),
    ),
    Route::shows("/profile/keys", "list_own_keys", |visitor| Box::pin(profile::list_keys(visitor))),
    Route::both(
        "/profile/keys/new",
        "create_own_key",
        |visitor| Box::pin(profile::new_key(visitor)),
        |visitor| Box::pin(profile::create_key(visitor)),
    ),
    Route::acts("/profile/keys/{id}/revoke", "delete_own_key", |visitor| Box::pin(profile::revoke_key(visitor))),
    Route::acts("/profile/sessions/end", "end_other_sessions", |visitor| Box::pin(profile::end_other_sessions(visitor))),
    Route::acts("/profile/sessions/{id}/end", "end_own_session", |visitor| Box::pin(profile::end_session(visitor))),
];

impl super::Desk {
    /// All pages for contacts. Their own account is on the pages of the profile, which they share with staff.
    pub fn portal_routes() -> impl Iterator<Item = &'static Route> {
        portal::ROUTES.iter()
    }

    /// All pages of the desk.
    pub fn routes() -> impl Iterator<Item = &'static Route> {
        let areas: [&[Route]; 10] = [
            ROUTES,
            administration::ROUTES,
            analytics::ROUTES,
            backups::ROUTES,
            clouds::ROUTES,
            operator::ROUTES,
            runs::ROUTES,
            settings::ROUTES,
            webhooks::ROUTES,
            workflows::ROUTES,
        ];
        areas.into_iter().flatten()
    }
}
