//! What a user stores for the console: preferences and saved views.
//!
//! **Invariant:** only the user reads and changes them, and only while the user exists. Their events are for administrators of
//! users.

use serde_json::json;

use tenantd_base::{
    access::{Grants, Scope},
    id::ViewId,
    versions::ExpectedVersion,
};
use tenantd_directory as directory;
use tenantd_store::{
    Read, WriteTx,
    events::{self, Act, Changes, Describe, Draft, EventKind},
};

use super::{
    error::AuthError,
    model::{NewView, Preferences, PreferencesChange, SavedView, VIEW_VERSION, check_room},
    repo::{
        UserKey,
        preferences::{PREFERENCES, VIEWS, preferences_of, views_of},
    },
};

pub(super) static PREFERENCES_UPDATED: EventKind = EventKind {
    name: "preferences.updated",
    summary: "A user changed their preferences for the console.",
    subject: "preferences",
    schema: "Preferences",
    reads: Grants::of(&[Scope::UsersWrite]),
    has_changes: true,
};
pub(super) static VIEW_CREATED: EventKind = EventKind {
    name: "view.created",
    summary: "A user saved a view of a list.",
    subject: "view",
    schema: "SavedView",
    reads: Grants::of(&[Scope::UsersWrite]),
    has_changes: false,
};
pub(super) static VIEW_DELETED: EventKind =
    EventKind { name: "view.deleted", summary: "A user deleted a saved view.", ..VIEW_CREATED };

pub(super) fn update_preferences(
    tx: &mut WriteTx,
    act: &mut Act,
    user: UserKey,
    expected: &ExpectedVersion,
    change: &PreferencesChange,
) -> Result<Preferences, AuthError> {
    check_user(tx, user)?;
    let before = preferences_of(tx, user)?;
    expected.check(before.version)?;
    let mut after = before.clone();
    after.time_zone = change.time_zone.clone().apply(after.time_zone);
    after.theme = change.theme.unwrap_or(after.theme);
    if after == before {
        return Ok(before);
    }
    after.version += 1;
    PREFERENCES.put(tx, &user, &after)?;
    let (shown, changes) = (after.describe(())?, changes(&before, &after));
    let draft = Draft::new(&PREFERENCES_UPDATED, user.1.to_string(), after.version, &shown).with_changes(Some(&changes));
    events::append(tx, act, &draft)?;
    Ok(after)
}

pub(super) fn create_view(tx: &mut WriteTx, act: &mut Act, user: UserKey, new: &NewView) -> Result<SavedView, AuthError> {
    check_user(tx, user)?;
    let NewView { area, name, query } = new.clone();
    check_room(&views_of(tx, user)?, area, &name)?;
    let view = SavedView { id: ViewId::new(act.now, &mut act.entropy), area, name, query, created_at: act.now };
    VIEWS.put(tx, &(user.0, user.1, view.id), &view)?;
    announce(tx, act, &VIEW_CREATED, &view)?;
    Ok(view)
}

pub(super) fn delete_view(
    tx: &mut WriteTx,
    act: &mut Act,
    user: UserKey,
    id: ViewId,
    expected: &ExpectedVersion,
) -> Result<(), AuthError> {
    let view = VIEWS.remove(tx, &(user.0, user.1, id))?.ok_or(AuthError::NotFound)?;
    expected.check(VIEW_VERSION)?;
    announce(tx, act, &VIEW_DELETED, &view)
}

/// The user may have been removed since the request was authenticated.
fn check_user(tx: &impl Read, user: UserKey) -> Result<(), AuthError> {
    directory::user(tx, user.0, user.1)?.map(drop).ok_or(AuthError::NotFound)
}

fn announce(tx: &mut WriteTx, act: &mut Act, kind: &'static EventKind, view: &SavedView) -> Result<(), AuthError> {
    let shown = view.describe(())?;
    events::append(tx, act, &Draft::new(kind, view.id.to_string(), VIEW_VERSION, &shown))?;
    Ok(())
}

fn changes(before: &Preferences, after: &Preferences) -> Changes {
    let fields = |preferences: &Preferences| json!({"time_zone": preferences.time_zone, "theme": preferences.theme});
    Changes::between(&fields(before), &fields(after))
}
