//! The tables of preferences and saved views. Their keys begin with the user.

use tenantd_base::id::{TenantId, UserId, ViewId};
use tenantd_store::{Counts, Key, KeyRange, Read, StoreError, Table, WriteTx, catalog, codec::Record};

use super::{
    super::model::{Preferences, SavedView},
    UserKey,
};

pub(crate) type ViewKey = (TenantId, UserId, ViewId);

impl Record for Preferences {
    const VERSION: u8 = 1;
}

impl Record for SavedView {
    const VERSION: u8 = 1;

    fn take_key(&mut self, key: &[u8]) -> Option<()> {
        let (_, _, id) = ViewKey::from_bytes(key)?;
        self.id = id;
        Some(())
    }
}

pub(crate) static PREFERENCES: Table<UserKey, Preferences> = Table::new(catalog::PREFERENCES, &[]).counting(Counts::Bytes);
pub(crate) static VIEWS: Table<ViewKey, SavedView> = Table::new(catalog::SAVED_VIEWS, &[]).counting(Counts::Records);

/// Returns the preferences of a user, or the default ones.
pub(crate) fn preferences_of(tx: &impl Read, user: UserKey) -> Result<Preferences, StoreError> {
    Ok(PREFERENCES.get(tx, &user)?.unwrap_or_default())
}

/// Returns the views of a user, oldest first. Their number is limited.
pub(crate) fn views_of(tx: &impl Read, user: UserKey) -> Result<Vec<SavedView>, StoreError> {
    let found = VIEWS.list(tx, &KeyRange::prefix(&user.to_bytes()), usize::MAX)?;
    Ok(found.into_iter().map(|(_, view)| view).collect())
}

/// Removes everything that a user has stored for the console.
pub(crate) fn remove_of(tx: &mut WriteTx, user: UserKey) -> Result<(), StoreError> {
    for view in views_of(tx, user)? {
        VIEWS.remove(tx, &(user.0, user.1, view.id))?;
    }
    PREFERENCES.remove(tx, &user).map(drop)
}

#[cfg(test)]
mod tests {
    use tenantd_base::clock::Timestamp;
    use tenantd_store::codec::assert_golden;

    use super::{
        super::super::model::{Theme, ViewArea},
        *,
    };

    #[test]
    fn the_stored_forms_match_the_golden_files() {
        let preferences = Preferences { time_zone: Some("Europe/Berlin".to_owned()), theme: Theme::Dark, version: 3 };
        assert_golden("preferences", &preferences);
        let view = SavedView {
            id: ViewId::from_bytes([1; 16]),
            area: ViewArea::Devices,
            name: "Servers".to_owned(),
            query: "class=server&sort=name".to_owned(),
            created_at: Timestamp::from_millis(1_767_225_600_000),
        };
        assert_golden("saved_view", &view);
    }
}
