//! Nobody but the owner may read what is in the data directory: it holds the records of all tenants, and the key to their secrets.
//! New files are private by the process's umask; what an older release or another program left open is closed when the directory is
//! taken hold of.

use std::{io, os::unix::fs::PermissionsExt, path::Path};

/// Permissions of others than the owner.
const OTHERS: u32 = 0o077;

/// Closes the directory, and everything in it, to others than the owner.
pub(super) fn make_private(directory: &Path) {
    if let Err(error) = close(directory).and_then(|()| close_all(directory)) {
        tracing::warn!(%error, directory = %directory.display(), "files in the data directory may be readable by others");
    }
}

fn close_all(directory: &Path) -> io::Result<()> {
    let mut outcome = Ok(());
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        // A link leads elsewhere, and what is there belongs to somebody else.
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
    fn what_is_open_to_others_is_closed_and_links_are_left_alone() {
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
