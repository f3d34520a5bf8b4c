//! Webhooks: endpoints with their health, the log of their deliveries, replays, and the catalog of events.

mod actions;
mod attempt;
mod body;
mod catalog;
mod deliveries;
mod delivery;
mod edit;
mod inputs;
mod kinds;
mod list;
mod one;
mod parts;
mod record;
mod replay;
mod secret;
mod stats;
mod test;

use super::routes::Route;

const API: &str = "/api/admin/webhooks";
const PATH: &str = "/webhooks";

pub(super) const ROUTES: &[Route] = &[
    Route::shows("/webhooks", "list_webhooks", |visitor| Box::pin(list::show(visitor))),
    Route::both(
        "/webhooks/new",
        "create_webhook",
        |visitor| Box::pin(edit::new(visitor)),
        |visitor| Box::pin(edit::create(visitor)),
    ),
    Route::shows("/webhooks/events", "list_event_kinds", |visitor| Box::pin(catalog::show(visitor))),
    Route::shows("/webhooks/verify", "list_webhooks", |visitor| Box::pin(secret::show_snippets(visitor))),
    Route::shows("/webhooks/{id}", "read_webhook", |visitor| Box::pin(one::show(visitor))),
    Route::both(
        "/webhooks/{id}/edit",
        "update_webhook_by_id",
        |visitor| Box::pin(edit::edit(visitor)),
        |visitor| Box::pin(edit::change(visitor)),
    ),
    Route::both(
        "/webhooks/{id}/delete",
        "delete_webhook_by_id",
        |visitor| Box::pin(edit::show_deletion(visitor)),
        |visitor| Box::pin(edit::delete(visitor)),
    ),
    Route::acts("/webhooks/{id}/pause", "pause_webhook", |visitor| Box::pin(actions::pause(visitor))),
    Route::acts("/webhooks/{id}/resume", "resume_webhook", |visitor| Box::pin(actions::resume(visitor))),
    Route::acts("/webhooks/{id}/enable", "enable_webhook", |visitor| Box::pin(actions::enable(visitor))),
    Route::acts("/webhooks/{id}/disable", "update_webhook_by_id", |visitor| Box::pin(actions::disable(visitor))),
    Route::both(
        "/webhooks/{id}/rotate",
        "rotate_webhook_secret",
        |visitor| Box::pin(secret::show_rotation(visitor)),
        |visitor| Box::pin(secret::rotate(visitor)),
    ),
    Route::both(
        "/webhooks/{id}/test",
        "test_webhook",
        |visitor| Box::pin(test::show(visitor)),
        |visitor| Box::pin(test::send(visitor)),
    ),
    Route::shows("/webhooks/{id}/deliveries", "list_webhook_deliveries", |visitor| Box::pin(deliveries::show(visitor))),
    Route::shows("/webhooks/{id}/deliveries/{delivery}", "read_webhook_delivery", |visitor| Box::pin(delivery::show(visitor))),
    Route::acts("/webhooks/{id}/deliveries/{delivery}/redeliver", "redeliver_webhook_delivery", |visitor| {
        Box::pin(delivery::redeliver(visitor))
    }),
    Route::both(
        "/webhooks/{id}/replay",
        "replay_webhook",
        |visitor| Box::pin(replay::new(visitor)),
        |visitor| Box::pin(replay::start(visitor)),
    ),
    Route::shows("/webhooks/{id}/replays/{operation}", "read_webhook_replay", |visitor| Box::pin(replay::show(visitor))),
];
