//! Writes a tar file (POSIX ustar) from files in memory. Only its owner can read it. File names must be short.

use std::{io::Write, os::unix::fs::OpenOptionsExt, path::Path};

const BLOCK: usize = 512;

/// Writes a new file. Fails if it exists.
pub(super) fn write(path: &Path, folder: &str, files: &[(String, Vec<u8>)], seconds: u64) -> std::io::Result<u64> {
    let mut out = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut length = 0;
    for (name, content) in files {
        let padding = vec![0; content.len().next_multiple_of(BLOCK) - content.len()];
        for part in [&header(&format!("{folder}/{name}"), content.len(), seconds)[..], content, &padding] {
            out.write_all(part)?;
            length += part.len() as u64;
        }
    }
    out.write_all(&[0; 2 * BLOCK])?;
    out.sync_all()?;
    Ok(length + 2 * BLOCK as u64)
}

fn header(name: &str, length: usize, seconds: u64) -> [u8; BLOCK] {
    let fields: [(usize, String); 8] = [
        (0, name.to_owned()),
        (100, "0000600\0".to_owned()),
        (108, "0000000\0".to_owned()),
        (116, "0000000\0".to_owned()),
        (124, format!("{length:011o}\0")),
        (136, format!("{seconds:011o}\0")),
        // The checksum is computed with blanks in its own field.
        (148, "        0".to_owned()),
        (257, "ustar\u{0}00".to_owned()),
    ];
    let mut block = [0; BLOCK];
    let mut put = |at: usize, text: &str| {
        for (place, byte) in block.iter_mut().skip(at).zip(text.bytes()) {
            *place = byte;
        }
    };
    for (at, text) in &fields {
        put(*at, text);
    }
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    for (place, byte) in block.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *place = byte;
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tar_unpacks_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bundle.tar");
        let files = [("a.txt".to_owned(), b"short".to_vec()), ("b.bin".to_owned(), vec![7; 1024]), ("c".to_owned(), Vec::new())];
        let length = write(&path, "folder", &files, 1_767_225_600).unwrap();
        assert_eq!(length, std::fs::metadata(&path).unwrap().len());
        assert!(write(&path, "folder", &files, 0).is_err(), "an existing file is not overwritten");
        let unpacked = std::process::Command::new("tar").arg("-xf").arg(&path).arg("-C").arg(directory.path()).status().unwrap();
        assert!(unpacked.success());
        for (name, content) in files {
            assert_eq!(std::fs::read(directory.path().join("folder").join(name)).unwrap(), content);
        }
    }
}
