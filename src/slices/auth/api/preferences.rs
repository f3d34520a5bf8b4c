//! `/api/auth/preferences`: the settings of the signed-in user for the console.

use poem_openapi::{Object, OpenApi};
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{
    access::{Identity, Principal},
    change::Change,
};
use tenantd_http::{
    input::Lenient,
    need::{Allowed, SignedIn},
    precondition::{IfMatch, IfNoneMatch},
    problem::Problem,
    reply::{Changed, Found},
    wire::word_type,
};
use tenantd_store::{
    Store,
    events::{Describe, Described},
};

use super::{
    super::{
        error::AuthError,
        model::{self, PreferencesChange, Theme, check_time_zone},
        preferences::update_preferences,
        repo::{UserKey, preferences::preferences_of},
    },
    session::Area,
};

word_type! {
    Theme, "Theme", "The colors of the console. `system` follows the setting of the browser.";
}

/// The preferences of a user for the console.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Preferences {
    /// The IANA name of the time zone in which the console shows times, such as `Europe/Berlin`. Absent if the user has set none.
    time_zone: Option<String>,
    /// The colors of the console. `system`, the default, follows the setting of the browser.
    theme: Theme,
    /// The version of the preferences. It is 0 until the user changes them, and every change increases it by one.
    version: u64,
}

impl From<model::Preferences> for Preferences {
    fn from(preferences: model::Preferences) -> Self {
        let model::Preferences { time_zone, theme, version } = preferences;
        Self { time_zone, theme, version }
    }
}

impl Describe for model::Preferences {
    fn describe(&self, (): ()) -> Described {
        to_raw_value(&Preferences::from(self.clone()))
    }
}

/// A change of preferences. Fields that you omit keep their values.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct UpdatePreferences {
    /// The IANA name of a time zone, such as `Europe/Berlin`. `null` removes it.
    #[oai(validator(min_length = 1, max_length = 60))]
    time_zone: Change<String>,
    /// The colors of the console. `system` follows the setting of the browser.
    theme: Option<Theme>,
}

impl TryFrom<UpdatePreferences> for PreferencesChange {
    type Error = AuthError;

    fn try_from(body: UpdatePreferences) -> Result<Self, AuthError> {
        let UpdatePreferences { time_zone, theme } = body;
        if let Change::Set(name) = &time_zone {
            check_time_zone(name).map_err(|fault| AuthError::Invalid(vec![fault]))?;
        }
        Ok(Self { time_zone, theme })
    }
}

/// Returns the user of the session. An API key and the local operator are not people.
pub(super) fn person(principal: &Principal) -> Result<UserKey, AuthError> {
    match &principal.identity {
        Identity::User { id, .. } | Identity::Contact { id, .. } => Ok((principal.tenant_id, *id)),
        Identity::ApiKey { .. } | Identity::LocalOperator => Err(AuthError::NotAPerson),
    }
}

pub(crate) struct PreferencesApi {
    pub(crate) store: Store,
}

#[OpenApi(prefix_path = "/api/auth", tag = "Area::Authentication")]
impl PreferencesApi {
    /// Read your preferences
    ///
    /// Returns the preferences of the signed-in user for the console. Needs a session: an API key is refused with 403
    /// `insufficient_authority`.
    #[oai(path = "/preferences", method = "get", operation_id = "read_preferences")]
    async fn read_preferences(&self, auth: Allowed<SignedIn>, if_none_match: IfNoneMatch) -> Result<Found<Preferences>, Problem> {
        let user = person(&auth.principal)?;
        let shown = Preferences::from(self.store.read(|tx| preferences_of(tx, user))?);
        if if_none_match.knows(shown.version) {
            return Ok(Found::not_modified(shown.version));
        }
        Ok(Found::new(&shown, shown.version))
    }

    /// Change your preferences
    ///
    /// Changes the preferences of the signed-in user for the console. Fields that the body omits keep their values. Needs a session:
    /// an API key is refused with 403 `insufficient_authority`.
    #[oai(path = "/preferences", method = "patch", operation_id = "update_preferences")]
    async fn update_preferences(
        &self,
        auth: Allowed<SignedIn>,
        if_match: IfMatch,
        body: Lenient<UpdatePreferences>,
    ) -> Result<Changed<Preferences>, Problem> {
        let user = person(&auth.principal)?;
        let change = PreferencesChange::try_from(body.0)?;
        let intent = auth.context.intent(&auth.principal);
        let changed = self.store.write(move |tx| update_preferences(tx, &mut intent.begin(), user, &if_match, &change));
        let shown = Preferences::from(changed.await?);
        Ok(Changed::new(&shown, shown.version))
    }
}
