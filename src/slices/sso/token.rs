//! Signed tokens of providers, as RFC 7515 (JWS), RFC 7517 (JWK) and OpenID Connect define them.
//!
//! **Invariant:** only a signature by one of the provider's public keys makes a token valid. `none` and symmetric algorithms are
//! not implemented.

use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use ring::{
    digest,
    signature::{self, RsaParameters, RsaPublicKeyComponents, UnparsedPublicKey, VerificationAlgorithm},
};
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny, value::StrDeserializer},
};
use serde_json::{Map, Value, value::RawValue};

use tenantd_auth::RefusalReason;
use tenantd_base::clock::Timestamp;

/// The maximum number of keys, more than any provider publishes.
const MAX_KEYS: usize = 64;
/// The number of keys that are tried for a token without a key id. One attempt takes up to a millisecond.
const MAX_TRIES: usize = 8;
const MAX_TOKEN_BYTES: usize = 64 << 10;
const MAX_KEY_ID: usize = 255;
/// The length of an 8192-bit number in base64, the longest that is supported.
const MAX_NUMBER: usize = 1366;
/// The minimum size of an RSA key. ring rounds sizes up to whole bytes, so it would also accept a few bits less.
const MIN_RSA_BITS: usize = 2048;
/// The values of `typ` in the header of an ID token and of signed user information.
const ID_TOKEN_TYPES: [&str; 3] = ["JWT", "JOSE", "application/jwt"];
/// The tolerated difference of a provider's clock.
pub(super) const LEEWAY: Duration = Duration::from_mins(1);

/// The supported signature algorithms, all asymmetric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    fn parse(name: &str) -> Option<Self> {
        Self::deserialize(StrDeserializer::<serde::de::value::Error>::new(name)).ok()
    }

    /// The left half of the algorithm's digest. The ID token identifies its access token by it (`at_hash`).
    fn half_digest(self, text: &str) -> String {
        let digest = match self {
            Self::Rs256 | Self::Ps256 | Self::Es256 => digest::digest(&digest::SHA256, text.as_bytes()),
            Self::Rs384 | Self::Ps384 | Self::Es384 => digest::digest(&digest::SHA384, text.as_bytes()),
            Self::Rs512 | Self::Ps512 | Self::EdDsa => digest::digest(&digest::SHA512, text.as_bytes()),
        };
        let bytes = digest.as_ref();
        BASE64URL_NOPAD.encode(bytes.split_at(bytes.len() / 2).0)
    }
}

/// A public key as a provider publishes it.
#[derive(Debug, Deserialize)]
struct PublishedKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

#[derive(Clone, Debug)]
struct Key {
    id: Option<String>,
    /// The only algorithm that the key may be used with, if it names one.
    algorithm: Option<Algorithm>,
    material: Material,
}

#[derive(Clone, Debug)]
enum Material {
    Rsa { modulus: Vec<u8>, exponent: Vec<u8> },
    P256(Vec<u8>),
    P384(Vec<u8>),
    Ed25519(Vec<u8>),
}

impl PublishedKey {
    /// The key, if it is a supported signature key.
    fn read(self) -> Option<Key> {
        if self.usage.is_some_and(|usage| usage != "sig") || self.kid.as_ref().is_some_and(|id| id.len() > MAX_KEY_ID) {
            return None;
        }
        let bytes = |text: Option<String>| BASE64URL_NOPAD.decode(text.filter(|text| text.len() <= MAX_NUMBER)?.as_bytes()).ok();
        // RFC 7518 forbids leading zeros, but some providers send one.
        let number = |text: Option<String>| bytes(text).map(|bytes| bytes.into_iter().skip_while(|byte| *byte == 0).collect());
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => {
                let modulus: Vec<u8> = number(self.n)?;
                if bits(&modulus) < MIN_RSA_BITS {
                    return None;
                }
                Material::Rsa { modulus, exponent: number(self.e)? }
            }
            ("EC", Some("P-256")) => Material::P256([vec![4], bytes(self.x)?, bytes(self.y)?].concat()),
            ("EC", Some("P-384")) => Material::P384([vec![4], bytes(self.x)?, bytes(self.y)?].concat()),
            ("OKP", Some("Ed25519")) => Material::Ed25519(bytes(self.x)?),
            _ => return None,
        };
        let algorithm = match self.alg {
            Some(name) => Some(Algorithm::parse(&name)?),
            None => None,
        };
        Some(Key { id: self.kid, algorithm, material })
    }
}

/// The size of a number without leading zeros.
fn bits(number: &[u8]) -> usize {
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

/// A signature check with a matching key and algorithm.
enum Check<'a> {
    Rsa(RsaPublicKeyComponents<&'a [u8]>, &'static RsaParameters),
    Point(&'a [u8], &'static dyn VerificationAlgorithm),
}

impl Key {
    fn check(&self, algorithm: Algorithm) -> Option<Check<'_>> {
        if self.algorithm.is_some_and(|only| only != algorithm) {
            return None;
        }
        Some(match &self.material {
            Material::Rsa { modulus, exponent } => {
                let parameters = match algorithm {
                    Algorithm::Rs256 => &signature::RSA_PKCS1_2048_8192_SHA256,
                    Algorithm::Rs384 => &signature::RSA_PKCS1_2048_8192_SHA384,
                    Algorithm::Rs512 => &signature::RSA_PKCS1_2048_8192_SHA512,
                    Algorithm::Ps256 => &signature::RSA_PSS_2048_8192_SHA256,
                    Algorithm::Ps384 => &signature::RSA_PSS_2048_8192_SHA384,
                    Algorithm::Ps512 => &signature::RSA_PSS_2048_8192_SHA512,
                    Algorithm::Es256 | Algorithm::Es384 | Algorithm::EdDsa => return None,
                };
                Check::Rsa(RsaPublicKeyComponents { n: modulus, e: exponent }, parameters)
            }
            Material::P256(point) if algorithm == Algorithm::Es256 => Check::Point(point, &signature::ECDSA_P256_SHA256_FIXED),
            Material::P384(point) if algorithm == Algorithm::Es384 => Check::Point(point, &signature::ECDSA_P384_SHA384_FIXED),
            Material::Ed25519(point) if algorithm == Algorithm::EdDsa => Check::Point(point, &signature::ED25519),
            Material::P256(_) | Material::P384(_) | Material::Ed25519(_) => return None,
        })
    }
}

impl Check<'_> {
    fn passes(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Rsa(key, parameters) => key.verify(parameters, message, signature).is_ok(),
            Self::Point(point, algorithm) => UnparsedPublicKey::new(*algorithm, point).verify(message, signature).is_ok(),
        }
    }
}

/// The public keys of a provider.
#[derive(Clone, Debug)]
pub(super) struct Keys(Vec<Key>);

impl Keys {
    /// Reads a key set. Unsupported keys are ignored, as RFC 7517 requires.
    pub(super) fn read(document: &[u8]) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct KeySet<'a> {
            #[serde(borrow)]
            keys: Vec<&'a RawValue>,
        }
        let published = serde_json::from_slice::<KeySet<'_>>(document)?.keys.into_iter();
        let keys = published.filter_map(|key| serde_json::from_str::<PublishedKey>(key.get()).ok()?.read());
        Ok(Self(keys.take(MAX_KEYS).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the claims of an ID token, or of user information, if one of the keys has signed it.
    pub(super) fn verify<T: DeserializeOwned>(&self, token: &str) -> Result<(Algorithm, T), TokenError> {
        self.verify_typed(token, &ID_TOKEN_TYPES)
    }

    /// Returns the claims of a token of one of these types if one of the keys has signed it.
    pub(super) fn verify_typed<T: DeserializeOwned>(&self, token: &str, types: &[&str]) -> Result<(Algorithm, T), TokenError> {
        #[derive(Deserialize)]
        struct Header {
            alg: String,
            kid: Option<String>,
            typ: Option<String>,
            /// Critical extensions. None is supported.
            crit: Option<IgnoredAny>,
        }
        if token.len() > MAX_TOKEN_BYTES {
            return Err(BAD_TOKEN);
        }
        let (signed, signature) = token.rsplit_once('.').ok_or(BAD_TOKEN)?;
        let (header, payload) = signed.split_once('.').ok_or(BAD_TOKEN)?;
        let header: Header = part(header)?;
        let is_known = |name: &String| types.iter().any(|known| name.eq_ignore_ascii_case(known));
        if header.crit.is_some() || !header.typ.as_ref().is_none_or(is_known) {
            return Err(BAD_TOKEN);
        }
        let algorithm = Algorithm::parse(&header.alg).ok_or(BAD_SIGNATURE)?;
        let named = self.0.iter().filter(|key| header.kid.is_none() || key.id == header.kid);
        let mut checks = named.filter_map(|key| key.check(algorithm)).take(MAX_TRIES).peekable();
        checks.peek().ok_or(TokenError::UnknownKey)?;
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).map_err(|_| BAD_TOKEN)?;
        if !checks.any(|check| check.passes(signed.as_bytes(), &signature)) {
            return Err(BAD_SIGNATURE);
        }
        Ok((algorithm, part(payload)?))
    }

    /// Returns the user in a signed user-info response, if the issuer created it for this client only.
    pub(super) fn signed_person(&self, token: &str, issuer: &str, client_id: &str) -> Result<Person, TokenError> {
        #[derive(Deserialize)]
        struct Signed {
            iss: String,
            aud: Audience,
            #[serde(flatten)]
            person: Person,
        }
        let (_, Signed { iss, aud, person }) = self.verify(token)?;
        if iss != issuer {
            return Err(TokenError::Refused(RefusalReason::WrongIssuer));
        }
        if aud.is_only(client_id) { Ok(person) } else { Err(TokenError::Refused(RefusalReason::WrongAudience)) }
    }
}

fn part<T: DeserializeOwned>(text: &str) -> Result<T, TokenError> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| BAD_TOKEN)?;
    serde_json::from_slice(&bytes).map_err(|_| BAD_TOKEN)
}

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenError {
    /// No known key matches the token's key id and algorithm.
    UnknownKey,
    Refused(RefusalReason),
}

const BAD_TOKEN: TokenError = TokenError::Refused(RefusalReason::BadToken);
const BAD_SIGNATURE: TokenError = TokenError::Refused(RefusalReason::BadSignature);

/// The claims about a user in ID tokens and user information.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Person {
    pub(super) sub: String,
    pub(super) email: Option<String>,
    pub(super) email_verified: Option<bool>,
    pub(super) name: Option<String>,
    /// When the person authenticated, in seconds since 1970.
    pub(super) auth_time: Option<f64>,
    /// The session at the provider.
    pub(super) sid: Option<String>,
    /// The class of the authentication.
    pub(super) acr: Option<String>,
    /// All other claims.
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

/// The claims of an ID token.
#[derive(Clone, Debug, Deserialize)]
struct IdToken {
    iss: String,
    aud: Audience,
    /// Times are in seconds since 1970.
    exp: f64,
    #[serde(rename = "iat")]
    _iat: f64,
    nbf: Option<f64>,
    azp: Option<String>,
    nonce: Option<String>,
    at_hash: Option<String>,
    #[serde(flatten)]
    person: Person,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Audience {
    One(String),
    Several(Vec<String>),
}

impl Audience {
    /// Whether the token is for this client only. Another recipient could have forwarded a shared token.
    pub(super) fn is_only(&self, client: &str) -> bool {
        match self {
            Self::One(found) => found == client,
            Self::Several(found) => !found.is_empty() && found.iter().all(|found| found == client),
        }
    }
}

/// The claims that an ID token must have to match our request.
#[derive(Debug)]
pub(super) struct Expected<'a> {
    pub(super) issuer: &'a str,
    pub(super) client_id: &'a str,
    pub(super) nonce: &'a str,
    pub(super) access_token: &'a str,
    pub(super) now: Timestamp,
}

impl Expected<'_> {
    pub(super) fn check(&self, token: &str, keys: &Keys) -> Result<Person, TokenError> {
        let (algorithm, claims) = keys.verify::<IdToken>(token)?;
        let seconds = |at: Timestamp| at.as_millis() as f64 / 1000.0;
        let wrong = |reason| Err(TokenError::Refused(reason));
        if claims.iss != self.issuer {
            return wrong(RefusalReason::WrongIssuer);
        }
        if !claims.aud.is_only(self.client_id) || claims.azp.is_some_and(|party| party != self.client_id) {
            return wrong(RefusalReason::WrongAudience);
        }
        if claims.exp <= seconds(self.now - LEEWAY) {
            return wrong(RefusalReason::TokenExpired);
        }
        if claims.nbf.is_some_and(|begin| begin > seconds(self.now + LEEWAY)) {
            return wrong(RefusalReason::BadToken);
        }
        if claims.nonce.as_deref() != Some(self.nonce) {
            return wrong(RefusalReason::WrongNonce);
        }
        if claims.at_hash.is_some_and(|hash| hash != algorithm.half_digest(self.access_token)) {
            return wrong(RefusalReason::BadToken);
        }
        Ok(claims.person)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Keys of every kind, with tokens that another library signed.
    fn tokens() -> (Keys, Value) {
        let document = include_bytes!("tokens.json");
        (Keys::read(document).unwrap(), serde_json::from_slice(document).unwrap())
    }

    fn subject(keys: &Keys, token: &str) -> Result<String, TokenError> {
        keys.verify::<Person>(token).map(|(_, person)| person.sub)
    }

    #[test]
    fn every_algorithm_is_verified_and_a_changed_bit_is_detected() {
        let (keys, document) = tokens();
        for (algorithm, token) in document["tokens"].as_object().unwrap() {
            let token = token.as_str().unwrap();
            assert_eq!(subject(&keys, token), Ok("ada".to_owned()), "{algorithm}");
            for at in 0..3 {
                let mut parts: Vec<Vec<u8>> =
                    token.split('.').map(|part| BASE64URL_NOPAD.decode(part.as_bytes()).unwrap()).collect();
                let middle = parts[at].len() / 2;
                parts[at][middle] ^= 1;
                let changed = parts.iter().map(|part| BASE64URL_NOPAD.encode(part)).collect::<Vec<_>>().join(".");
                assert!(subject(&keys, &changed).is_err(), "{algorithm}, part {at}");
            }
        }
    }

    #[test]
    fn unsupported_algorithms_and_unknown_keys_are_refused() {
        let (keys, document) = tokens();
        let found = |name: &str| subject(&keys, document["others"][name].as_str().unwrap());
        assert_eq!(found("HS256"), Err(BAD_SIGNATURE));
        assert_eq!(found("none"), Err(BAD_SIGNATURE));
        assert_eq!(found("short key"), Err(TokenError::UnknownKey), "1024 bits");
        assert_eq!(found("crit"), Err(BAD_TOKEN));
        assert_eq!(found("unknown key"), Err(TokenError::UnknownKey));
        assert_eq!(found("key of another kind"), Err(TokenError::UnknownKey));
        assert_eq!(found("without a key id"), Ok("ada".to_owned()), "the only key of its kind");
        for nonsense in ["", ".", "..", "a.b", "a.b.c", "e30.e30.e30", "e30.e30.e30.e30"] {
            assert!(subject(&keys, nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn an_rsa_key_has_at_least_2048_bits() {
        let key = |first: u8, length: usize| {
            let modulus = [vec![first], vec![255; length - 1]].concat();
            let key = json!({"kty": "RSA", "e": "AQAB", "n": BASE64URL_NOPAD.encode(&modulus)});
            Keys::read(json!({"keys": [key]}).to_string().as_bytes()).unwrap()
        };
        assert!(!key(0x80, 256).is_empty(), "2048 bits");
        assert!(key(0x7f, 256).is_empty(), "2047 bits, which ring would accept");
        assert!(key(0xff, 128).is_empty(), "1024 bits");
    }

    #[test]
    fn a_key_is_limited_to_its_algorithm_and_use() {
        let (_, document) = tokens();
        let token = document["tokens"]["PS256"].as_str().unwrap();
        let with = |name: &str, value: &str| {
            let mut key = document["keys"][0].clone();
            key[name] = json!(value);
            subject(&Keys::read(json!({"keys": [key]}).to_string().as_bytes()).unwrap(), token)
        };
        assert_eq!(with("alg", "PS256"), Ok("ada".to_owned()));
        assert_eq!(with("alg", "RS256"), Err(TokenError::UnknownKey));
        assert_eq!(with("alg", "RSA-OAEP"), Err(TokenError::UnknownKey));
        assert_eq!(with("use", "enc"), Err(TokenError::UnknownKey));
    }

    #[test]
    fn half_digest_matches_known_values() {
        assert_eq!(Algorithm::Es256.half_digest("access"), "oFYf1knNtrqnhAVfBRuteQ");
        assert_eq!(Algorithm::Es384.half_digest("access"), "SeGOaEgS6QNKbB7vkLM3y8nujeY4Ple3");
        assert_eq!(Algorithm::EdDsa.half_digest("access"), "kyd4-h3ZoV2sH212kLKbcOnCBajStKQ38Ae_bfT-PFI");
    }

    #[test]
    fn a_token_with_other_audiences_is_refused() {
        let is_ours = |audience: Value| Audience::deserialize(audience).unwrap().is_only("us");
        assert!(is_ours(json!("us")) && is_ours(json!(["us"])));
        assert!(!is_ours(json!("them")) && !is_ours(json!(["us", "them"])) && !is_ours(json!([])));
    }
}
