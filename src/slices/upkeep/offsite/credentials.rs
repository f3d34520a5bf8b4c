//! The access key of an S3-compatible store, read from a file in the format of `~/.aws/credentials`.

use std::path::Path;

use tenantd_base::secrets::Secret;

use super::error::OffsiteError;

#[derive(Debug)]
pub(super) struct Credentials {
    pub(super) access_key_id: Secret,
    pub(super) secret_access_key: Secret,
    pub(super) session_token: Option<Secret>,
}

impl Credentials {
    pub(super) fn load(path: &Path) -> Result<Self, OffsiteError> {
        let text = Secret::new(std::fs::read_to_string(path).map_err(|error| OffsiteError::file(path, error))?);
        Self::parse(text.expose()).map_err(|problem| OffsiteError::Place(format!("{}: {problem}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let one = |key: &str| {
            let mut values = text.lines().filter_map(|line| {
                let (name, value) = line.split_once('=')?;
                (name.trim() == key).then(|| value.trim())
            });
            match (values.next(), values.next()) {
                (found, None) => Ok(found.filter(|value| !value.is_empty()).map(Secret::new)),
                _ => Err(format!("{key} occurs more than once; keep only one profile in this file")),
            }
        };
        let needed = |key: &str| one(key)?.ok_or_else(|| format!("{key} is missing"));
        Ok(Self {
            access_key_id: needed("aws_access_key_id")?,
            secret_access_key: needed("aws_secret_access_key")?,
            session_token: one("aws_session_token")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_one_profile_is_read() {
        let text = "# backups\n[default]\naws_access_key_id = AKIA1\naws_secret_access_key=se/cr=et\n";
        let found = Credentials::parse(text).unwrap();
        assert_eq!((found.access_key_id.expose(), found.secret_access_key.expose()), ("AKIA1", "se/cr=et"));
        assert!(found.session_token.is_none());
        assert!(!format!("{found:?}").contains("se/cr=et"));
    }

    #[test]
    fn a_file_without_a_key_or_with_two_is_refused() {
        assert_eq!(Credentials::parse("aws_access_key_id = a\n").unwrap_err(), "aws_secret_access_key is missing");
        let two = "aws_access_key_id = a\naws_access_key_id = b\naws_secret_access_key = c\n";
        assert!(Credentials::parse(two).unwrap_err().contains("more than once"));
    }
}
