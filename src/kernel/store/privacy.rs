//! Keeps the data directory private to its owner: it holds the records of all tenants and the key to their secrets. The process's
//! umask makes new files private. When the directory is locked, files that an older release or another program left readable
//! become private too.

use std::{io, os::unix::fs::PermissionsExt, path::Path};

/// The permissions of group and others.
const OTHERS: u32 = 0o077;

/// Removes all permissions of group and others from the directory and everything in it.
pub(super) fn make_private(directory: &Path) {
    if let Err(error) = close(directory).and_then(|()| close_all(directory)) {
        tracing::warn!(%error, directory = %directory.display(), "files in the data directory may be readable by others");
    }
}

fn close_all(directory: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // A link may lead outside the directory, to files that tenantd does not own.
        let kind = entry.file_type()?;
        if kind.is_symlink() {
            continue;
        }
        let path = entry.path();
        let closed = close(&path).and_then(|()| if kind.is_dir() { close_all(&path) } else { Ok(()) });
        outcome = outcome.and(closed.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))));
    }
    outcome
}

fn close(path: &Path) -> io::Result<()> {
    let mode = std::fs::symlink_metadata(path)?.permissions().mode();
    if mode & OTHERS == 0 {
        return Ok(());
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode & !OTHERS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_become_private_and_links_are_left_alone() {
        let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (inner, outside) = (directory.path().join("search/0"), elsewhere.path().join("file"));
        std::fs::create_dir_all(&inner).unwrap();
        let file = inner.join("segment");
        for path in [&file, &outside] {
            std::fs::write(path, "x").unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
        std::fs::set_permissions(directory.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink(&outside, directory.path().join("link")).unwrap();
        make_private(directory.path());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(directory.path()), mode(&inner), mode(&file)), (0o700, mode(&inner) & 0o700, 0o600));
        assert_eq!(mode(&outside), 0o644);
    }
}
