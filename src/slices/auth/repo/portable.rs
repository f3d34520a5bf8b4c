//! Exports and imports preferences and saved views. A record that arrives passes the checks of its use case.

use serde_json::Value;

use tenantd_directory as directory;
use tenantd_store::{
    Read,
    portable::{Carrier, PortError, Portable},
};

use super::{
    super::model::{check_query, check_room, check_time_zone},
    UserKey,
    preferences::{PREFERENCES, VIEWS, views_of},
};

/// `view_fields` checks a view against the limits of the API.
pub(crate) fn portable(view_fields: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'static) -> Vec<Box<dyn Portable>> {
    let preferences = Carrier::plain("preferences", &PREFERENCES, |_, _, preferences| {
        preferences.time_zone.as_deref().map_or(Ok(()), check_time_zone).map_err(PortError::wrong)
    });
    let preferences = preferences.kept_by(|tx, key, preferences| {
        check_user(tx, "preferences", *key)?;
        Ok(PREFERENCES.put(tx, key, preferences)?)
    });
    let views = Carrier::plain("view", &VIEWS, |_, _, view| check_query(&view.query).map_err(PortError::wrong));
    let views = views.within(view_fields).kept_by(|tx, key, view| {
        let user = (key.0, key.1);
        check_user(tx, "view", user)?;
        check_room(&views_of(tx, user)?, view.area, &view.name).map_err(PortError::wrong)?;
        Ok(VIEWS.put(tx, key, view)?)
    });
    vec![preferences.boxed(), views.boxed()]
}

/// Refuses a record whose user is not in the file.
fn check_user(tx: &impl Read, kind: &str, user: UserKey) -> Result<(), PortError> {
    match directory::user(tx, user.0, user.1)? {
        Some(_) => Ok(()),
        None => {
            Err(PortError::Wrong(format!("a record of the type {kind} belongs to the user {}, who is not in the file", user.1)))
        }
    }
}
