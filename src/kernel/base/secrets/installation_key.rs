//! The installation key: 256 random bits in a separate file, never in the store and never in a snapshot. Anyone who has the store
//! but not this file cannot read its sealed secrets.
//!
//! Signing keys are derived from the first key that an installation had. A later key carries the first one as a second line of its
//! file, because signatures that were handed out must remain provable after every key rotation.

use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use data_encoding::HEXLOWER;
use zeroize::Zeroizing;

use super::{Secret, digest};
use crate::entropy::Entropy;

const KEY_FILE: &str = "installation.key";
const PASSPHRASE_MEMORY_KIB: u32 = 65_536;
const PASSPHRASE_PASSES: u32 = 3;
const CREDENTIAL_NAME: &str = "installation-key";

#[derive(Clone)]
pub struct InstallationKey {
    sealing: Zeroizing<[u8; 32]>,
    /// The signing part of the first key, if this key is not the first.
    signing: Option<Zeroizing<[u8; 32]>>,
}

impl std::fmt::Debug for InstallationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InstallationKey(…)")
    }
}

/// Where the key is, and whether this process may create it if it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    pub path: PathBuf,
    pub may_create: bool,
}

impl KeySource {
    /// Finds the key: the configured file, else systemd's credential, else a file in the data directory.
    pub fn find(configured: Option<&Path>, credentials_directory: Option<&Path>, data_directory: &Path) -> Self {
        let credential = credentials_directory.map(|directory| directory.join(CREDENTIAL_NAME)).filter(|path| path.exists());
        match configured.map(Path::to_owned).or(credential) {
            Some(path) => Self { path, may_create: false },
            None => Self { path: data_directory.join(KEY_FILE), may_create: true },
        }
    }
}

impl InstallationKey {
    pub fn generate(entropy: &mut Entropy) -> Self {
        Self { sealing: Zeroizing::new(entropy.bytes()), signing: None }
    }

    /// A key that replaces this one. It seals with new bits and signs like this one.
    pub fn successor(&self, entropy: &mut Entropy) -> Self {
        Self { sealing: Zeroizing::new(entropy.bytes()), signing: Some(Zeroizing::new(*self.signing_root())) }
    }

    /// Whether both keys create the same signatures.
    pub fn signs_as(&self, other: &Self) -> bool {
        self.signing_root() == other.signing_root()
    }

    pub fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = Zeroizing::new(std::fs::read_to_string(path).map_err(|error| format!("installation key {shown}: {error}"))?);
        let wrong = || format!("installation key {shown}: expected 64 hexadecimal digits, and 64 more in a second line or none");
        let mut lines = text.trim().lines();
        let sealing = lines.next().and_then(parse).ok_or_else(wrong)?;
        let signing = lines.next().map(|line| parse(line).ok_or_else(wrong)).transpose()?;
        if lines.next().is_some() { Err(wrong()) } else { Ok(Self { sealing, signing }) }
    }

    /// Derives a key for data that leaves the installation from a passphrase that both ends know. Argon2id makes guessing the
    /// passphrase slow. It takes one core and 64 MiB for some tenths of a second.
    pub fn from_passphrase(passphrase: &Secret, salt: &[u8; 16]) -> Result<Self, String> {
        let params = Params::new(PASSPHRASE_MEMORY_KIB, PASSPHRASE_PASSES, 1, None).map_err(|error| error.to_string())?;
        let mut key = Zeroizing::new([0; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase.expose().as_bytes(), salt, key.as_mut_slice())
            .map_err(|error| error.to_string())?;
        Ok(Self { sealing: key, signing: None })
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        parse(text).map(|sealing| Self { sealing, signing: None })
    }

    /// The content of the key file.
    pub fn to_file(&self) -> Zeroizing<String> {
        let line = |key: &Zeroizing<[u8; 32]>| Zeroizing::new(format!("{}\n", HEXLOWER.encode(key.as_slice())));
        let mut text = line(&self.sealing);
        if let Some(signing) = &self.signing {
            text.push_str(&line(signing));
        }
        text
    }

    /// Distinguishes keys without revealing anything about them.
    pub fn fingerprint(&self) -> [u8; 8] {
        let mut input = Zeroizing::new(b"tenantd installation key fingerprint".to_vec());
        input.extend_from_slice(self.sealing.as_slice());
        let hash = digest(&input);
        hash.first_chunk().copied().unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.sealing
    }

    /// The root from which signing keys are derived.
    pub(super) fn signing_root(&self) -> &[u8; 32] {
        self.signing.as_ref().unwrap_or(&self.sealing)
    }
}

fn parse(line: &str) -> Option<Zeroizing<[u8; 32]>> {
    let bytes = Zeroizing::new(HEXLOWER.decode(line.trim().to_lowercase().as_bytes()).ok()?);
    <[u8; 32]>::try_from(bytes.as_slice()).ok().map(Zeroizing::new)
}

/// The text of a fingerprint, for people.
pub fn show_fingerprint(fingerprint: [u8; 8]) -> String {
    HEXLOWER.encode(&fingerprint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_round_trips_and_a_bad_one_is_refused() {
        let key = InstallationKey::generate(&mut Entropy::from_seed(1));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), key.to_file().as_bytes()).unwrap();
        assert_eq!(InstallationKey::load(file.path()).unwrap().fingerprint(), key.fingerprint());
        for wrong in ["00ff", "", &"00".repeat(31), &format!("{}00ff", *key.to_file()), &key.to_file().repeat(3)] {
            std::fs::write(file.path(), wrong).unwrap();
            assert!(InstallationKey::load(file.path()).unwrap_err().contains("expected 64 hexadecimal digits"), "{wrong}");
        }
    }

    #[test]
    fn a_successor_has_another_fingerprint_and_the_same_signatures() {
        let mut entropy = Entropy::from_seed(1);
        let first = InstallationKey::generate(&mut entropy);
        let third = first.successor(&mut entropy).successor(&mut entropy);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), third.to_file().as_bytes()).unwrap();
        let loaded = InstallationKey::load(file.path()).unwrap();
        assert_eq!(loaded.fingerprint(), third.fingerprint());
        assert_ne!(third.fingerprint(), first.fingerprint());
        assert!(loaded.signs_as(&first) && !loaded.signs_as(&InstallationKey::generate(&mut entropy)));
    }

    #[test]
    fn the_configured_file_takes_precedence() {
        let credentials = tempfile::tempdir().unwrap();
        let data = Path::new("/data");
        let none = KeySource::find(None, Some(credentials.path()), data);
        assert_eq!(none, KeySource { path: data.join(KEY_FILE), may_create: true });
        std::fs::write(credentials.path().join(CREDENTIAL_NAME), "").unwrap();
        let credential = KeySource::find(None, Some(credentials.path()), data);
        assert_eq!(credential, KeySource { path: credentials.path().join(CREDENTIAL_NAME), may_create: false });
        let configured = KeySource::find(Some(Path::new("/key")), Some(credentials.path()), data);
        assert_eq!(configured, KeySource { path: "/key".into(), may_create: false });
    }
}
