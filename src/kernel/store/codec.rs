//! Encodes records as bytes: a format version, the fields in bincode, and a checksum over the table, the key and all of that.
//!
//! This is the only file that names bincode, so another encoding can replace it here. redb does not verify pages on ordinary
//! reads. The checksum detects a flipped bit, and a record stored under another record's key. **Invariant:** a released version
//! stays readable. The bytes in `tests/golden/records` verify this.

use serde::{Serialize, de::DeserializeOwned};

const CONFIG: bincode::config::Configuration = bincode::config::standard();
/// More than any record needs. A length above it is damage and must not cause an allocation.
const MOST_BYTES: usize = 64 << 20;
const CHECKSUM_LENGTH: usize = 4;

/// A stored record. A change of its fields needs a new version; `upgrade` reads the older ones.
pub trait Record: Serialize + DeserializeOwned + Send + 'static {
    const VERSION: u8;

    /// Reads the fields of an older version.
    fn upgrade(version: u8, _fields: &[u8]) -> Result<Self, String> {
        Err(format!("format version {version} is not known to this release"))
    }

    /// Fills the fields that are not stored (`#[serde(skip)]`) because the key contains them.
    fn take_key(&mut self, _key: &[u8]) -> Option<()> {
        Some(())
    }
}

/// Decodes fields in the form of `T`, for `Record::upgrade`.
pub fn decode_fields<T: DeserializeOwned>(fields: &[u8]) -> Result<T, String> {
    match bincode::serde::decode_from_slice(fields, CONFIG.with_limit::<MOST_BYTES>()) {
        Ok((value, length)) if length == fields.len() => Ok(value),
        Ok(_) => Err("there are extra bytes after the fields".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Encodes part of a record separately, so that readers that do not need it can skip decoding it.
pub fn encode_fields<T: Serialize>(value: &T) -> Result<Vec<u8>, String> {
    bincode::serde::encode_to_vec(value, CONFIG).map_err(|error| error.to_string())
}

/// A field of bytes, encoded in one piece. By default serde encodes each byte separately; the stored form is the same.
/// Human-readable formats get base64.
pub mod bytes {
    use std::fmt;

    use data_encoding::BASE64;
    use serde::{
        Deserialize, Deserializer, Serializer,
        de::{Error, Visitor},
    };

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.serialize_str(&BASE64.encode(bytes))
        } else {
            serializer.serialize_bytes(bytes)
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Bytes;

        impl Visitor<'_> for Bytes {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bytes")
            }

            fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
                Ok(bytes.to_vec())
            }

            fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
                Ok(bytes)
            }
        }

        if deserializer.is_human_readable() {
            return BASE64.decode(String::deserialize(deserializer)?.as_bytes()).map_err(D::Error::custom);
        }
        deserializer.deserialize_byte_buf(Bytes)
    }
}

pub fn encode<R: Record>(table: &str, key: &[u8], record: &R) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(256);
    out.push(R::VERSION);
    bincode::serde::encode_into_std_write(record, &mut out, CONFIG).map_err(|error| error.to_string())?;
    let checksum = checksum(table, key, &out);
    out.extend_from_slice(&checksum);
    Ok(out)
}

pub fn decode<R: Record>(table: &str, key: &[u8], stored: &[u8]) -> Result<R, String> {
    let mut record: R = read(verify(table, key, stored)?)?;
    record.take_key(key).ok_or("the key cannot be read")?;
    Ok(record)
}

fn read<R: Record>(body: &[u8]) -> Result<R, String> {
    match body.split_first() {
        Some((version, fields)) if *version == R::VERSION => decode_fields(fields),
        Some((version, fields)) => R::upgrade(*version, fields),
        None => Err("the record is empty".to_owned()),
    }
}

/// Returns the record without its checksum, if the checksum is right.
pub fn verify<'a>(table: &str, key: &[u8], stored: &'a [u8]) -> Result<&'a [u8], String> {
    let (body, found) = stored.split_last_chunk::<CHECKSUM_LENGTH>().ok_or("the record is too short")?;
    if *found != checksum(table, key, body) {
        return Err("the checksum does not match".to_owned());
    }
    Ok(body)
}

fn checksum(table: &str, key: &[u8], body: &[u8]) -> [u8; CHECKSUM_LENGTH] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(table.as_bytes());
    hasher.update(&[0]);
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(body);
    hasher.finalize().to_le_bytes()
}

/// Compares a record's stored form with its golden bytes, so that a change of fields cannot be released without a new version.
/// `UPDATE_GOLDEN=1 cargo test` writes the bytes of a new version.
#[cfg(any(test, feature = "testing"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
pub fn assert_golden<R: Record>(name: &str, record: &R) {
    let file = |version: u8| format!("{}/../../../tests/golden/records/{name}.v{version}.hex", env!("CARGO_MANIFEST_DIR"));
    let bytes = encode("golden", b"key", record).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(file(R::VERSION), format!("{}\n", data_encoding::HEXLOWER.encode(&bytes))).unwrap();
    }
    let written = |version: u8| {
        let golden = std::fs::read_to_string(file(version)).unwrap_or_default();
        data_encoding::HEXLOWER.decode(golden.trim().as_bytes()).unwrap()
    };
    let golden = written(R::VERSION);
    assert!(golden == bytes, "{name}: the stored form has changed; increase VERSION");
    let decoded = |stored: &[u8]| read::<R>(verify("golden", b"key", stored).unwrap()).unwrap();
    assert_eq!(encode("golden", b"key", &decoded(&golden)).unwrap(), golden, "{name}: the record does not read back as written");
    for version in 1..R::VERSION {
        decoded(&written(version));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Sample {
        name: String,
        count: u64,
    }

    impl Record for Sample {
        const VERSION: u8 = 2;

        fn upgrade(version: u8, fields: &[u8]) -> Result<Self, String> {
            match version {
                1 => decode_fields::<String>(fields).map(|name| Self { name, count: 0 }),
                _ => Err(format!("version {version}")),
            }
        }
    }

    #[derive(Serialize, Deserialize)]
    struct SampleV1(String);

    impl Record for SampleV1 {
        const VERSION: u8 = 1;
    }

    #[test]
    fn a_record_reads_back_and_an_older_version_is_upgraded() {
        let record = Sample { name: "a".to_owned(), count: 7 };
        let bytes = encode("t", b"k", &record);
        assert_eq!(bytes.and_then(|bytes| decode::<Sample>("t", b"k", &bytes)), Ok(record));
        let old = encode("t", b"k", &SampleV1("old".to_owned()));
        assert_eq!(old.and_then(|bytes| decode::<Sample>("t", b"k", &bytes)), Ok(Sample { name: "old".to_owned(), count: 0 }));
    }

    #[test]
    fn flipped_bits_and_wrong_keys_are_found() {
        let record = Sample { name: "abc".to_owned(), count: 300 };
        let bytes = encode("t", b"k", &record).unwrap_or_default();
        assert!(decode::<Sample>("t", b"other", &bytes).is_err());
        assert!(decode::<Sample>("u", b"k", &bytes).is_err());
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<Sample>("t", b"k", &flipped).is_err(), "bit {bit}");
        }
        assert!(decode::<Sample>("t", b"k", &vec![0; bytes.len()]).is_err());
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Nested {
        names: Vec<String>,
        by_name: std::collections::BTreeMap<String, Option<Vec<u64>>>,
    }

    impl Record for Nested {
        const VERSION: u8 = 1;
    }

    proptest! {
        #[test]
        fn random_bytes_are_not_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(decode::<Nested>("t", b"k", &bytes).is_err(), "the checksum matches by chance");
            // A valid checksum over wrong lengths needs a bug in this crate. Even then, decoding must not allocate for them.
            if let Ok(nested) = decode_fields::<Nested>(&bytes) {
                prop_assert!(nested.names.len() + nested.by_name.len() <= bytes.len());
            }
        }

        #[test]
        fn stored_records_read_back(names in proptest::collection::vec(".{0,20}", 0..8), numbers in proptest::collection::vec(any::<u64>(), 0..8)) {
            let by_name = names.iter().map(|name| (name.clone(), Some(numbers.clone()))).collect();
            let record = Nested { names, by_name };
            let bytes = encode("t", b"k", &record).unwrap_or_default();
            prop_assert_eq!(decode::<Nested>("t", b"k", &bytes), Ok(record));
        }
    }
}
