//! Exports and imports second factors, preferences and saved views. A record that arrives passes the checks of its use case.

use serde_json::Value;

use tenantd_directory as directory;
use tenantd_store::{
    Key, Read,
    portable::{Arrival, Carrier, PortError, Portable},
};

use super::{
    super::model::{
        Factor, MAX_FACTOR_NAME, Openers, Proof, RECOVERY_CODES as MOST_CODES, RecoveryCodes, check_factor, check_query,
        check_room, check_time_zone, totp,
    },
    OPENERS, UserKey,
    factors::{FACTORS, FactorKey, POLICIES, RECOVERY_CODES, factors_of, sealed_place},
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

/// Second factors, recovery codes, who needs them, and who has opened accounts. The key of an authenticator app moves only with the passphrase of the file. A
/// passkey does not arrive: browsers bind it to the host name of the installation. The import names its person. A file that nobody
/// vouches for must not decide who signs in.
pub(crate) fn factors() -> Vec<Box<dyn Portable>> {
    let factors = Carrier::turning(
        "factor",
        &FACTORS,
        |departure, key: FactorKey, mut factor: Factor| {
            if let Proof::Totp(totp) = &mut factor.proof {
                departure.secret(sealed_place(&key.0, &key.to_bytes()), &mut totp.secret)?;
            }
            Ok(Some((key, factor)))
        },
        arrive,
    );
    let factors = factors.kept_by(|tx, key, factor| {
        let user = (key.0, key.1);
        check_user(tx, "factor", user)?;
        check_factor(&factors_of(tx, user)?, &factor.name).map_err(PortError::wrong)?;
        Ok(FACTORS.put(tx, key, factor)?)
    });
    let codes = Carrier::turning(
        "recovery_codes",
        &RECOVERY_CODES,
        |_, key, codes| Ok(Some((key, codes))),
        |arrival: &mut Arrival, key: UserKey, codes: RecoveryCodes| {
            if codes.unused.len() > MOST_CODES {
                return Err(PortError::wrong("unused: there are too many codes"));
            }
            Ok(arrival.is_verified().then_some((key, codes)))
        },
    );
    let codes = codes.kept_by(|tx, key, codes| {
        check_user(tx, "recovery_codes", *key)?;
        // Codes replace a factor. Without one they would not be asked for.
        if factors_of(tx, *key)?.is_empty() { Ok(()) } else { Ok(RECOVERY_CODES.put(tx, key, codes)?) }
    });
    let openers = Carrier::turning(
        "account_openers",
        &OPENERS,
        |_, key, openers| Ok(Some((key, openers))),
        |arrival: &mut Arrival, key: UserKey, openers: Openers| Ok(arrival.is_verified().then_some((key, openers))),
    );
    let openers = openers.kept_by(|tx, key, openers| {
        check_user(tx, "account_openers", *key)?;
        Ok(OPENERS.put(tx, key, openers)?)
    });
    let policy = Carrier::plain("sign_in_policy", &POLICIES, |_, _, policy| {
        let is_sorted = policy.required_for.is_sorted_by(|one, next| one < next);
        if is_sorted { Ok(()) } else { Err(PortError::wrong("required_for: must be sorted and without duplicates")) }
    });
    vec![factors.boxed(), codes.boxed(), policy.boxed(), openers.boxed()]
}

fn arrive(arrival: &mut Arrival, key: FactorKey, mut factor: Factor) -> Result<Option<(FactorKey, Factor)>, PortError> {
    if factor.name.is_empty() || factor.name.chars().count() > MAX_FACTOR_NAME {
        return Err(PortError::wrong("name: must have 1 to 60 characters"));
    }
    if !arrival.is_verified() {
        arrival.switch_off("second factors", &format!("{} of {}", factor.name, key.1));
        return Ok(None);
    }
    let place = key.to_bytes();
    let app = match &mut factor.proof {
        Proof::Totp(app) => app,
        Proof::Passkey(passkey) => {
            arrival.note(format!(
                "The passkey {} of the user {} works only at {}. They add one for this installation.",
                factor.name, key.1, passkey.host
            ));
            return Ok(None);
        }
    };
    match arrival.secret(sealed_place(&key.0, &place), &mut app.secret)? {
        Some(secret) if totp::is_key(&secret) => Ok(Some((key, factor))),
        Some(_) => Err(PortError::wrong("proof: its secret is not a key")),
        None => {
            arrival.note(format!(
                "The authenticator app {} of the user {} is not in the file. They add it again.",
                factor.name, key.1
            ));
            Ok(None)
        }
    }
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
