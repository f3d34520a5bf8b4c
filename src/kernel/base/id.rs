//! Identifiers: a prefix that names the kind and a time-ordered UUID (a TypeID), such as `key_01k9…`.
//!
//! The registry at the end of this file lists every kind once. An id is created from a time and an entropy stream that the caller
//! passes in. Parsing checks the kind, so an id of the wrong kind never becomes a value of this type.

use std::{fmt, marker::PhantomData, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::{clock::Timestamp, entropy::Entropy};

/// Crockford's base 32 in lower case, without i, l, o and u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const ENCODED_LENGTH: usize = 26;
/// An example of an id, without its prefix.
const EXAMPLE: &str = "01k9z7w3v5e8g9m2n4p6r8t0x1";

/// The kind of record that an id identifies.
pub trait Kind: Copy + Send + Sync + 'static {
    const PREFIX: &'static str;
    /// The kind in words, for error messages.
    const NOUN: &'static str;
}

pub struct Id<K> {
    bytes: [u8; 16],
    kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Id<K> {
    /// A UUIDv7: 48 bits of milliseconds, then 74 random bits.
    pub fn new(now: Timestamp, entropy: &mut Entropy) -> Self {
        Self::from_random(now, entropy.bytes())
    }

    /// When the id was created.
    pub fn time(&self) -> Timestamp {
        let millis = u128::from_be_bytes(self.bytes) >> 80;
        Timestamp::from_millis(i64::try_from(millis).unwrap_or_default())
    }

    pub fn from_random(now: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(now.as_millis()).unwrap_or(0);
        Self::from_bytes(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().into_bytes())
    }

    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self { bytes, kind: PhantomData }
    }

    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.bytes
    }

    /// An example of this kind, for the published document and for messages.
    pub fn example() -> String {
        format!("{}_{EXAMPLE}", K::PREFIX)
    }

    /// The regular expression for ids of this kind, for the published document.
    pub fn pattern() -> String {
        format!("^{}_[0-7][0-9a-hjkmnp-tv-z]{{25}}$", K::PREFIX)
    }
}

/// The position of `rand_a` in a UUIDv7: the 12 random bits after the version. `OWN_CLOCK` is their value in the ids of tenants
/// with their own clock.
const RAND_A: usize = 6;
const OWN_CLOCK: u16 = 0xe7a;

impl Id<Tenant> {
    /// Creates the id of a tenant that has its own clock.
    ///
    /// An index knows only the key and the fields of a record, and it keeps due times apart by the clock that they refer to. So the
    /// id itself carries this property, and it never changes.
    pub fn with_own_clock(now: Timestamp, entropy: &mut Entropy) -> Self {
        Self::new(now, entropy).marked(OWN_CLOCK)
    }

    /// Creates the id of a tenant that shares the installation's clock.
    pub fn with_shared_clock(now: Timestamp, entropy: &mut Entropy) -> Self {
        let id = Self::new(now, entropy);
        if id.has_own_clock() { id.marked(OWN_CLOCK ^ 1) } else { id }
    }

    pub fn has_own_clock(&self) -> bool {
        self.rand_a() & 0xfff == OWN_CLOCK
    }

    /// Whether this can be the id of a tenant: a UUIDv7, like all ids that are created here. Other values stand for the whole
    /// installation.
    pub fn is_of_tenant(&self) -> bool {
        let id = uuid::Uuid::from_bytes(self.bytes);
        id.get_version_num() == 7 && id.get_variant() == uuid::Variant::RFC4122
    }

    fn rand_a(&self) -> u16 {
        let found = self.bytes.get(RAND_A..).and_then(|rest| rest.first_chunk::<2>());
        found.copied().map(u16::from_be_bytes).unwrap_or_default()
    }

    fn marked(mut self, mark: u16) -> Self {
        let marked = (self.rand_a() & 0xf000) | mark;
        if let Some(place) = self.bytes.get_mut(RAND_A..).and_then(|rest| rest.first_chunk_mut::<2>()) {
            *place = marked.to_be_bytes();
        }
        self
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Id<K> {}

/// An id that no record has. A record holds it before its key is read.
impl<K> Default for Id<K> {
    fn default() -> Self {
        Self { bytes: [0; 16], kind: PhantomData }
    }
}

impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl<K> Eq for Id<K> {}

impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes.cmp(&other.bytes)
    }
}

impl<K> std::hash::Hash for Id<K> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}

impl<K: Kind> Id<K> {
    /// Builds the text at once. Writing it piece by piece through a formatter takes several times as long, and a list has dozens of
    /// ids.
    fn text(&self) -> String {
        let mut value = u128::from_be_bytes(self.bytes);
        let mut encoded = [0_u8; ENCODED_LENGTH];
        for slot in encoded.iter_mut().rev() {
            *slot = ALPHABET.get((value & 31) as usize).copied().unwrap_or(b'0');
            value >>= 5;
        }
        let mut text = String::with_capacity(K::PREFIX.len() + 1 + ENCODED_LENGTH);
        text.push_str(K::PREFIX);
        text.push('_');
        text.push_str(std::str::from_utf8(&encoded).unwrap_or_default());
        text
    }
}

impl<K: Kind> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl<K: Kind> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The error for a text that is not an id of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {noun} id such as {prefix}_{}", EXAMPLE)]
pub struct IdError {
    noun: &'static str,
    prefix: &'static str,
}

impl<K: Kind> FromStr for Id<K> {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let error = IdError { noun: K::NOUN, prefix: K::PREFIX };
        let encoded = text.strip_prefix(K::PREFIX).and_then(|rest| rest.strip_prefix('_')).ok_or(error.clone())?;
        if encoded.len() != ENCODED_LENGTH || encoded.as_bytes().first().is_none_or(|first| *first > b'7') {
            return Err(error);
        }
        let mut value = 0_u128;
        for letter in encoded.bytes() {
            let digit = ALPHABET.iter().position(|known| *known == letter).ok_or(error.clone())?;
            value = (value << 5) | digit as u128;
        }
        Ok(Self::from_bytes(value.to_be_bytes()))
    }
}

impl<K: Kind> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() { serializer.serialize_str(&self.text()) } else { self.bytes.serialize(serializer) }
    }
}

/// Whether a text has the form of an id of any kind.
pub fn is_id(text: &str) -> bool {
    let is_part = |part: &str| part.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.split_once('_').is_some_and(|(prefix, rest)| rest.len() == ENCODED_LENGTH && is_part(prefix) && is_part(rest))
}

impl<'de, K: Kind> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
        } else {
            <[u8; 16]>::deserialize(deserializer).map(Self::from_bytes)
        }
    }
}

macro_rules! registry {
    ($($kind:ident $alias:ident $prefix:literal $noun:literal;)*) => {$(
        #[derive(Clone, Copy, Debug)]
        pub struct $kind;

        impl Kind for $kind {
            const PREFIX: &'static str = $prefix;
            const NOUN: &'static str = $noun;
        }

        pub type $alias = Id<$kind>;
    )*};
}

registry! {
    Tenant TenantId "tnt" "a tenant";
    User UserId "usr" "a user";
    Role RoleId "rol" "a role";
    ApiKey ApiKeyId "key" "an API key";
    Event EventId "evt" "an event";
    Session SessionId "ses" "a session";
    Request RequestId "req" "a request";
    Organization OrganizationId "org" "an organization";
    Device DeviceId "dev" "a device";
    Ticket TicketId "tkt" "a ticket";
    Comment CommentId "cmt" "a comment";
    TimeEntry TimeEntryId "tim" "a time entry";
    Webhook WebhookId "whk" "a webhook endpoint";
    Delivery DeliveryId "dlv" "a delivery";
    Operation OperationId "op" "an operation";
    Workflow WorkflowId "wfl" "a workflow";
    Run RunId "run" "a workflow run";
    CloudProvider CloudProviderId "prv" "a cloud provider";
    Vm VmId "vm" "a VM";
    IdentityProvider IdentityProviderId "idp" "an identity provider";
    BackupJob BackupJobId "bkj" "a backup job";
    NamedSecret SecretId "sec" "a secret";
    SavedView ViewId "viw" "a saved view";
    Factor FactorId "fac" "a second factor";
    Group GroupId "grp" "a group";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_round_trips_and_sorts_by_time() {
        let mut entropy = Entropy::from_seed(1);
        let early = ApiKeyId::new(Timestamp::from_millis(1_000), &mut entropy);
        let late = ApiKeyId::new(Timestamp::from_millis(2_000), &mut entropy);
        assert!(early < late && early.to_string() < late.to_string());
        assert_eq!(late.to_string().parse::<ApiKeyId>(), Ok(late));
        assert_eq!(late.to_string().len(), 30);
    }

    #[test]
    fn a_tenant_id_shows_whether_it_has_its_own_clock() {
        let (mut entropy, at) = (Entropy::from_seed(1), Timestamp::from_millis(1_767_225_600_000));
        for _ in 0..10_000 {
            let (own, shared) = (TenantId::with_own_clock(at, &mut entropy), TenantId::with_shared_clock(at, &mut entropy));
            assert!(own.has_own_clock() && !shared.has_own_clock());
            assert!(own.is_of_tenant() && shared.is_of_tenant());
        }
    }

    #[test]
    fn ids_of_the_installation_are_not_tenant_ids() {
        for bytes in [[0; 16], [0xff; 16], [1; 16]] {
            assert!(!TenantId::from_bytes(bytes).is_of_tenant());
        }
    }

    #[test]
    fn ids_of_the_wrong_kind_or_form_are_refused() {
        let key = ApiKeyId::from_bytes([0xff; 16]).to_string();
        assert_eq!(key, "key_7zzzzzzzzzzzzzzzzzzzzzzzzz");
        assert!(key.parse::<TenantId>().is_err());
        for bad in [
            "",
            "key_",
            "key_8zzzzzzzzzzzzzzzzzzzzzzzzz",
            "key_7zzzzzzzzzzzzzzzzzzzzzzzzi",
            "key_7zz",
            "KEY_7zzzzzzzzzzzzzzzzzzzzzzzzz",
        ] {
            assert!(bad.parse::<ApiKeyId>().is_err(), "{bad}");
        }
    }
}
