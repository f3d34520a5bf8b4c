//! Wire types of second factors.

use poem_openapi::Object;
use serde::Serialize;
use serde_json::value::to_raw_value;
use serde_with::skip_serializing_none;

use tenantd_base::{clock::Timestamp, id::FactorId};
use tenantd_directory::PersonReference;
use tenantd_http::wire::word_type;
use tenantd_store::events::{Describe, Described};

use super::{
    super::{
        factors,
        model::{self, FactorKind},
    },
    passkeys::PasskeyAssertion,
};

word_type! {
    FactorKind, "FactorKind", "The kind of a second factor. `totp` is an app that shows codes. `passkey` is a passkey, which can also replace the password.";
}

/// A second factor of a person.
#[skip_serializing_none]
#[derive(Debug, Object, Serialize)]
#[oai(skip_serializing_if_is_none, example)]
pub(super) struct Factor {
    /// The id of the factor.
    id: FactorId,
    /// The kind of factor.
    kind: FactorKind,
    /// The name that the person gave it.
    name: String,
    /// When the person added it.
    created_at: Timestamp,
    /// When it was last used. Adding it counts.
    last_used_at: Option<Timestamp>,
    /// The version of the factor. A new name increases it by one.
    version: u64,
}

impl Factor {
    pub(super) fn version(&self) -> u64 {
        self.version
    }
}

impl From<model::Factor> for Factor {
    fn from(factor: model::Factor) -> Self {
        let kind = factor.kind();
        let model::Factor { id, name, created_at, last_used_at, version, proof: _ } = factor;
        Self { id, kind, name, created_at, last_used_at, version }
    }
}

/// A second factor, with the person that it belongs to.
#[derive(Debug, Object, Serialize)]
pub(crate) struct FactorOfUser {
    /// The person that the factor belongs to.
    user: PersonReference,
    #[oai(flatten)]
    #[serde(flatten)]
    factor: Factor,
}

impl Describe for factors::FactorOfUser {
    fn describe(&self, (): ()) -> Described {
        let user = PersonReference { id: self.user.id, name: self.user.name.clone() };
        to_raw_value(&FactorOfUser { user, factor: self.factor.clone().into() })
    }
}

/// The second factors of a person.
#[derive(Debug, Object, Serialize)]
#[oai(example)]
pub(super) struct Factors {
    /// The factors, oldest first. There are at most 10.
    pub(super) data: Vec<Factor>,
    /// How many recovery codes are unused.
    pub(super) recovery_codes_left: u32,
}

/// The request to add a factor.
#[derive(Debug, Object)]
pub(super) struct AddFactor {
    /// The `enrolment` that the start of adding the factor returned.
    #[oai(write_only, validator(min_length = 1, max_length = 2000))]
    pub(super) enrolment: String,
    /// A name by which you recognize the factor. It must be unique among your factors, ignoring case.
    #[oai(validator(min_length = 1, max_length = 60))]
    pub(super) name: String,
    /// The code that the app shows now.
    #[oai(write_only, validator(min_length = 1, max_length = 16))]
    pub(super) code: String,
}

/// The request to prove a factor.
#[derive(Debug, Object)]
#[oai(skip_serializing_if_is_none)]
pub(super) struct ProveFactor {
    /// The code that the authenticator app shows.
    #[oai(write_only, validator(min_length = 1, max_length = 16))]
    pub(super) code: Option<String>,
    /// One of the recovery codes. Case, spaces and hyphens do not matter.
    #[oai(write_only, validator(min_length = 1, max_length = 60))]
    pub(super) recovery_code: Option<String>,
    /// What a passkey returned for the challenge of `POST /api/auth/factors/passkeys/proof`.
    pub(super) passkey: Option<PasskeyAssertion>,
}

/// The request to rename a factor.
#[derive(Debug, Object)]
#[oai(example)]
pub(super) struct UpdateFactor {
    /// The new name. It must be unique among your factors, ignoring case.
    #[oai(validator(min_length = 1, max_length = 60))]
    pub(super) name: String,
}

/// What an authenticator app needs. It is not shown again.
#[derive(Debug, Object, Serialize)]
pub(super) struct BegunTotp {
    /// Send this with the code to `POST /api/auth/factors`. It is valid for ten minutes, and only for you.
    pub(super) enrolment: String,
    /// The key in base 32, to type into an app that cannot read the QR code.
    pub(super) secret: String,
    /// The address that the QR code contains. It has the key, the name of the tenant and your e-mail address.
    pub(super) uri: String,
    /// The QR code as an SVG image.
    pub(super) qr_svg: String,
    /// When the enrolment expires.
    pub(super) expires_at: Timestamp,
}

/// New recovery codes.
#[derive(Debug, Object, Serialize)]
pub(super) struct NewRecoveryCodes {
    /// The codes. Each signs you in once, with your password. They are not shown again.
    pub(super) codes: Vec<String>,
}
