//! Passkeys (Web Authentication, Level 3): what an authenticator returns when a person adds a passkey and when they use it.
//!
//! **Invariant:** a passkey is accepted only for the challenge, the origin and the host name of this installation, with a signature by
//! the key that was stored for it. tenantd asks for no attestation and ignores the statement of an authenticator that sends one: it
//! says which product made the key, and tenantd trusts none of them more than another.

use curve25519_dalek::edwards::CompressedEdwardsY;
use data_encoding::BASE64URL_NOPAD;
use ring::{
    agreement::{self, ECDH_P256, EphemeralPrivateKey},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey},
};
use serde::{Deserialize, Serialize, de::IgnoredAny};

use tenantd_base::secrets::digest;

use super::{
    cbor::{self, Item},
    relying_party::RelyingParty,
};

/// The algorithms of COSE that tenantd accepts, the preferred one first: ES256, `EdDSA` and RS256.
pub const ALGORITHMS: [i64; 3] = [-7, -8, -257];
pub const MAX_CREDENTIAL_ID: usize = 1023;
pub const MAX_CLIENT_DATA: usize = 4 << 10;
pub const MAX_ATTESTATION: usize = 16 << 10;
pub const MAX_AUTHENTICATOR_DATA: usize = 2 << 10;
pub const MAX_SIGNATURE: usize = 1 << 10;
/// RSA keys of 2048 to 4096 bits.
const RSA_BYTES: std::ops::RangeInclusive<usize> = 256..=512;

const PRESENT: u8 = 1;
const VERIFIED: u8 = 1 << 2;
const BACKUP_ELIGIBLE: u8 = 1 << 3;
const BACKED_UP: u8 = 1 << 4;
const HAS_KEY: u8 = 1 << 6;
const HAS_EXTENSIONS: u8 = 1 << 7;

/// A passkey of a person. All of it is public.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passkey {
    /// The authenticator's name for it, which no other passkey has.
    pub credential_id: Vec<u8>,
    pub public_key: PasskeyKey,
    /// The counter of the last signature. Zero if the authenticator does not count.
    pub sign_count: u32,
    /// The host name that it works for.
    pub host: String,
}

/// The public key of a passkey, with the only algorithm that it works with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PasskeyKey {
    /// A point of P-256, uncompressed.
    Es256(Vec<u8>),
    EdDsa(Vec<u8>),
    Rs256 {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
}

/// Why what a browser sent is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasskeyFault {
    #[error("is malformed")]
    Malformed,
    #[error("is for a different use of the passkey")]
    WrongType,
    #[error("answers a different challenge")]
    WrongChallenge,
    #[error("comes from a page of another site")]
    WrongOrigin,
    #[error("is for another host name")]
    WrongHost,
    #[error("does not say that the person was present")]
    NotPresent,
    #[error("does not say that the authenticator verified the person")]
    NotVerified,
    #[error("has an algorithm that tenantd does not accept")]
    UnknownAlgorithm,
    #[error("belongs to somebody else")]
    WrongOwner,
    #[error("has a wrong signature")]
    BadSignature,
}

/// What tenantd asked the browser for.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    pub challenge: &'a [u8],
    pub party: &'a RelyingParty,
    /// Whether the authenticator must have verified the person, with a PIN or a fingerprint.
    pub needs_verification: bool,
}

/// What a browser returns when a person uses a passkey.
#[derive(Clone, Debug)]
pub struct Assertion {
    pub credential_id: Vec<u8>,
    pub client_data: Vec<u8>,
    pub authenticator_data: Vec<u8>,
    pub signature: Vec<u8>,
    /// The owner, as the authenticator knows them. Authenticators that do not store passkeys leave it out.
    pub user_handle: Option<Vec<u8>>,
}

/// What the browser says about the page that used the passkey.
#[derive(Deserialize)]
struct ClientData {
    r#type: String,
    challenge: String,
    origin: String,
    #[serde(default, rename = "crossOrigin")]
    cross_origin: bool,
    /// The page around a frame of another site.
    #[serde(rename = "topOrigin")]
    top_origin: Option<IgnoredAny>,
}

/// The data that an authenticator signs.
struct AuthenticatorData {
    flags: u8,
    sign_count: u32,
    /// The id and the public key of a new passkey.
    credential: Option<(Vec<u8>, Item)>,
}

impl Expected<'_> {
    fn check_client(&self, kind: &str, client_data: &[u8]) -> Result<(), PasskeyFault> {
        let data: ClientData = serde_json::from_slice(client_data).map_err(|_| PasskeyFault::Malformed)?;
        if data.r#type != kind {
            return Err(PasskeyFault::WrongType);
        }
        let challenge = BASE64URL_NOPAD.decode(data.challenge.as_bytes()).map_err(|_| PasskeyFault::Malformed)?;
        // Digests are compared, so that the time tells nothing about the challenge.
        if digest(&challenge) != digest(self.challenge) {
            return Err(PasskeyFault::WrongChallenge);
        }
        if data.origin != self.party.origin || data.cross_origin || data.top_origin.is_some() {
            return Err(PasskeyFault::WrongOrigin);
        }
        Ok(())
    }

    fn read(&self, bytes: &[u8]) -> Result<AuthenticatorData, PasskeyFault> {
        let (host, rest) = bytes.split_first_chunk::<32>().ok_or(PasskeyFault::Malformed)?;
        if *host != digest(self.party.id.as_bytes()) {
            return Err(PasskeyFault::WrongHost);
        }
        let data = AuthenticatorData::read(rest).ok_or(PasskeyFault::Malformed)?;
        if data.flags & PRESENT == 0 {
            return Err(PasskeyFault::NotPresent);
        }
        if self.needs_verification && data.flags & VERIFIED == 0 {
            return Err(PasskeyFault::NotVerified);
        }
        Ok(data)
    }
}

impl AuthenticatorData {
    /// Reads what follows the digest of the host name.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (&[flags], rest) = bytes.split_first_chunk::<1>()?;
        let (count, mut rest) = rest.split_first_chunk::<4>()?;
        // A passkey that cannot be backed up is not backed up.
        if flags & BACKED_UP != 0 && flags & BACKUP_ELIGIBLE == 0 {
            return None;
        }
        let mut credential = None;
        if flags & HAS_KEY != 0 {
            // The id of the product comes first. It would say something only with an attestation.
            let (_, after) = rest.split_first_chunk::<16>()?;
            let (length, after) = after.split_first_chunk::<2>()?;
            let (id, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
            let (key, after) = cbor::read_first(after)?;
            if id.is_empty() || id.len() > MAX_CREDENTIAL_ID {
                return None;
            }
            credential = Some((id.to_vec(), key));
            rest = after;
        }
        let is_whole = if flags & HAS_EXTENSIONS == 0 { rest.is_empty() } else { matches!(cbor::read(rest), Some(Item::Map(_))) };
        is_whole.then_some(Self { flags, sign_count: u32::from_be_bytes(*count), credential })
    }
}

impl PasskeyKey {
    /// Reads a COSE key (RFC 9052).
    fn read(key: &Item) -> Result<Self, PasskeyFault> {
        let number = |label| key.at(label).and_then(Item::integer);
        let bytes = |label| key.at(label).and_then(Item::bytes).ok_or(PasskeyFault::Malformed);
        let of_length =
            |label, length| bytes(label).and_then(|b| if b.len() == length { Ok(b) } else { Err(PasskeyFault::Malformed) });
        match (number(1), number(3), number(-1)) {
            (Some(2), Some(-7), Some(1)) => {
                let point = [[4].as_slice(), of_length(-2, 32)?, of_length(-3, 32)?].concat();
                if is_p256_point(&point) { Ok(Self::Es256(point)) } else { Err(PasskeyFault::Malformed) }
            }
            (Some(1), Some(-8), Some(6)) => {
                let point = of_length(-2, 32)?;
                if is_ed25519_key(point) { Ok(Self::EdDsa(point.to_vec())) } else { Err(PasskeyFault::Malformed) }
            }
            (Some(3), Some(-257), _) => {
                let (modulus, exponent) = (bytes(-1)?.to_vec(), bytes(-2)?.to_vec());
                let is_strong = RSA_BYTES.contains(&modulus.len()) && modulus.first().is_some_and(|first| *first >= 0x80);
                if is_strong && exponent == [1, 0, 1] {
                    Ok(Self::Rs256 { modulus, exponent })
                } else {
                    Err(PasskeyFault::Malformed)
                }
            }
            (Some(_), Some(_), _) => Err(PasskeyFault::UnknownAlgorithm),
            _ => Err(PasskeyFault::Malformed),
        }
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Es256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(message, signature).is_ok(),
            Self::EdDsa(point) => UnparsedPublicKey::new(&ED25519, point).verify(message, signature).is_ok(),
            Self::Rs256 { modulus, exponent } => {
                let key = RsaPublicKeyComponents { n: modulus, e: exponent };
                key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature).is_ok()
            }
        }
    }
}

/// Whether an uncompressed point is on the curve. ring checks a point only where it uses it, so this agrees on a key with it. The
/// result does not depend on the random key.
fn is_p256_point(point: &[u8]) -> bool {
    let peer = agreement::UnparsedPublicKey::new(&ECDH_P256, point);
    let own = EphemeralPrivateKey::generate(&ECDH_P256, &SystemRandom::new());
    own.and_then(|own| agreement::agree_ephemeral(own, &peer, |_| ())).is_ok()
}

/// Whether the bytes are a point of the curve. A signature by a point of small order proves nothing.
fn is_ed25519_key(key: &[u8]) -> bool {
    let point = CompressedEdwardsY::from_slice(key).ok().and_then(|point| point.decompress());
    point.is_some_and(|point| !point.is_small_order())
}

impl Passkey {
    /// Reads the passkey that an authenticator has made for this challenge.
    pub fn made(expected: &Expected<'_>, client_data: &[u8], attestation: &[u8]) -> Result<Self, PasskeyFault> {
        if client_data.len() > MAX_CLIENT_DATA || attestation.len() > MAX_ATTESTATION {
            return Err(PasskeyFault::Malformed);
        }
        expected.check_client("webauthn.create", client_data)?;
        let object = cbor::read(attestation).ok_or(PasskeyFault::Malformed)?;
        let data = object.named("authData").and_then(Item::bytes).ok_or(PasskeyFault::Malformed)?;
        let data = expected.read(data)?;
        let (credential_id, key) = data.credential.ok_or(PasskeyFault::Malformed)?;
        let host = expected.party.id.clone();
        Ok(Self { credential_id, public_key: PasskeyKey::read(&key)?, sign_count: data.sign_count, host })
    }

    /// Checks that the passkey answered this challenge. `owner` is the user handle that it was made for. Returns the counter.
    pub fn verify(&self, expected: &Expected<'_>, assertion: &Assertion, owner: &[u8]) -> Result<u32, PasskeyFault> {
        let Assertion { credential_id, client_data, authenticator_data, signature, user_handle } = assertion;
        let is_short = client_data.len() <= MAX_CLIENT_DATA && signature.len() <= MAX_SIGNATURE;
        if !is_short || authenticator_data.len() > MAX_AUTHENTICATOR_DATA {
            return Err(PasskeyFault::Malformed);
        }
        if *credential_id != self.credential_id || user_handle.as_ref().is_some_and(|handle| handle != owner) {
            return Err(PasskeyFault::WrongOwner);
        }
        expected.check_client("webauthn.get", client_data)?;
        if self.host != expected.party.id {
            return Err(PasskeyFault::WrongHost);
        }
        let data = expected.read(authenticator_data)?;
        if data.credential.is_some() {
            return Err(PasskeyFault::Malformed);
        }
        let message = [authenticator_data.as_slice(), &digest(client_data)].concat();
        if !self.public_key.verifies(&message, signature) {
            return Err(PasskeyFault::BadSignature);
        }
        Ok(data.sign_count)
    }

    /// Whether a counter can follow the stored one. If not, there may be a copy of the authenticator. Many do not count and send zero.
    pub fn is_next(&self, sign_count: u32) -> bool {
        sign_count > self.sign_count || (sign_count == 0 && self.sign_count == 0)
    }
}
