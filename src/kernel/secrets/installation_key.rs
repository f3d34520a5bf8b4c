//! The installation key: 256 random bits in a file of its own, never in the store and never in a snapshot. Whoever has the store
//! but not this file cannot read the sealed secrets in it.

use std::path::{Path, PathBuf};

use argon2::{Algorithm, Argon2, Params, Version};
use data_encoding::HEXLOWER;
use zeroize::Zeroizing;

use super::{Secret, digest};
use crate::kernel::entropy::Entropy;

const KEY_FILE: &str = "installation.key";
const PASSPHRASE_MEMORY_KIB: u32 = 65_536;
const PASSPHRASE_PASSES: u32 = 3;
const CREDENTIAL_NAME: &str = "installation-key";

#[derive(Clone)]
pub struct InstallationKey(Zeroizing<[u8; 32]>);

impl std::fmt::Debug for InstallationKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("InstallationKey(…)")
    }
}

/// Where the key is, and whether this process may make it when it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySource {
    pub path: PathBuf,
    pub may_create: bool,
}

impl KeySource {
    /// The configured file; else systemd's credential; else a file in the data directory.
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
        Self(Zeroizing::new(entropy.bytes()))
    }

    pub fn load(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = Zeroizing::new(std::fs::read_to_string(path).map_err(|error| format!("installation key {shown}: {error}"))?);
        Self::parse(&text).ok_or_else(|| format!("installation key {shown}: expected 64 hexadecimal digits"))
    }

    /// A key for what leaves the installation, from words that both ends know: Argon2id, slow enough that the words cannot be
    /// tried out by the million. Takes a core and 64 MiB for some tenths of a second.
    pub fn from_passphrase(passphrase: &Secret, salt: &[u8; 16]) -> Result<Self, String> {
        let params = Params::new(PASSPHRASE_MEMORY_KIB, PASSPHRASE_PASSES, 1, None).map_err(|error| error.to_string())?;
        let mut key = Zeroizing::new([0; 32]);
        Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
            .hash_password_into(passphrase.expose().as_bytes(), salt, key.as_mut_slice())
            .map_err(|error| error.to_string())?;
        Ok(Self(key))
    }

    /// From 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.trim().to_lowercase().as_bytes()).map(Zeroizing::new).ok()?;
        <[u8; 32]>::try_from(bytes.as_slice()).ok().map(|key| Self(Zeroizing::new(key)))
    }

    /// The file's content.
    pub fn to_file(&self) -> Zeroizing<String> {
        Zeroizing::new(format!("{}\n", HEXLOWER.encode(self.0.as_slice())))
    }

    /// Tells one key from another; says nothing about the key.
    pub fn fingerprint(&self) -> [u8; 8] {
        let mut input = Zeroizing::new(b"tenantd installation key fingerprint".to_vec());
        input.extend_from_slice(self.0.as_slice());
        let hash = digest(&input);
        hash.first_chunk().copied().unwrap_or_default()
    }

    pub(super) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_reads_back_and_a_bad_one_is_told() {
        let key = InstallationKey::generate(&mut Entropy::from_seed(1));
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), key.to_file().as_bytes()).unwrap();
        assert_eq!(InstallationKey::load(file.path()).unwrap().fingerprint(), key.fingerprint());
        std::fs::write(file.path(), "00ff").unwrap();
        assert!(InstallationKey::load(file.path()).unwrap_err().ends_with("expected 64 hexadecimal digits"));
    }

    #[test]
    fn the_configured_file_wins_over_the_credential_and_the_data_directory() {
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
