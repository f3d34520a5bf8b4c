//! Encodes keys as bytes in the order of their values: big-endian numbers, terminated texts, concatenated tuples.
//!
//! **Invariant:** a key of a tenant's data starts with the tenant's id, so a scan of a tenant's prefix never leaves the tenant.

use tenantd_base::{
    clock::Timestamp,
    clocks::Timeline,
    id::{Id, Kind},
};

pub trait Key: Sized {
    /// Whether the key starts with a tenant. If so, every row under it belongs to that tenant.
    const OF_TENANT: bool = false;

    fn write(&self, out: &mut Vec<u8>);

    /// Reads a value from the front of `input` and advances `input`.
    fn read(input: &mut &[u8]) -> Option<Self>;

    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        self.write(&mut out);
        out
    }

    /// Reads a key that uses all of `bytes`.
    fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let key = Self::read(&mut bytes)?;
        bytes.is_empty().then_some(key)
    }
}

/// A key of fixed length, so that it can be found at the end of an index entry.
pub trait FixedKey: Key {
    const LENGTH: usize;
}

fn take<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*head)
}

macro_rules! unsigned_key {
    ($($number:ty),*) => {$(
        impl Key for $number {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn read(input: &mut &[u8]) -> Option<Self> {
                take(input).map(Self::from_be_bytes)
            }
        }

        impl FixedKey for $number {
            const LENGTH: usize = size_of::<$number>();
        }
    )*};
}

unsigned_key!(u8, u16, u32, u64);

impl<const N: usize> Key for [u8; N] {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        take(input)
    }
}

impl<const N: usize> FixedKey for [u8; N] {
    const LENGTH: usize = N;
}

impl<K: Kind> FixedKey for Id<K> {
    const LENGTH: usize = 16;
}

impl<K: Kind> Key for Id<K> {
    const OF_TENANT: bool = matches!(K::PREFIX.as_bytes(), b"tnt");

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        take(input).map(Self::from_bytes)
    }
}

impl Key for Timestamp {
    fn write(&self, out: &mut Vec<u8>) {
        // Flipping the sign bit sorts times before 1970 first.
        out.extend_from_slice(&(self.as_millis() ^ i64::MIN).to_be_bytes());
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        take(input).map(|bytes| Self::from_millis(i64::from_be_bytes(bytes) ^ i64::MIN))
    }
}

/// The shared timeline sorts first.
impl Key for Timeline {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Shared => out.push(0),
            Self::Own(tenant) => {
                out.push(1);
                tenant.write(out);
            }
        }
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        match take::<1>(input)? {
            [0] => Some(Self::Shared),
            [1] => Key::read(input).map(Self::Own),
            _ => None,
        }
    }
}

impl Key for String {
    fn write(&self, out: &mut Vec<u8>) {
        for byte in self.bytes() {
            out.push(byte);
            if byte == 0 {
                out.push(0xff);
            }
        }
        out.extend_from_slice(&[0, 0]);
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        let mut text = Vec::new();
        loop {
            let [byte] = take::<1>(input)?;
            if byte != 0 {
                text.push(byte);
                continue;
            }
            match take::<1>(input)? {
                [0] => return String::from_utf8(text).ok(),
                [0xff] => text.push(0),
                _ => return None,
            }
        }
    }
}

/// `None` sorts first.
impl<K: Key> Key for Option<K> {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            None => out.push(0),
            Some(key) => {
                out.push(1);
                key.write(out);
            }
        }
    }

    fn read(input: &mut &[u8]) -> Option<Self> {
        match take::<1>(input)? {
            [0] => Some(None),
            [1] => K::read(input).map(Some),
            _ => None,
        }
    }
}

macro_rules! first_of {
    ($first:expr $(, $rest:expr)*) => {
        $first
    };
}

macro_rules! tuple_key {
    ($($part:ident $index:tt),*) => {
        impl<$($part: Key),*> Key for ($($part,)*) {
            const OF_TENANT: bool = first_of!($($part::OF_TENANT),*);

            fn write(&self, out: &mut Vec<u8>) {
                $(self.$index.write(out);)*
            }

            fn read(input: &mut &[u8]) -> Option<Self> {
                Some(($($part::read(input)?,)*))
            }
        }

        impl<$($part: FixedKey),*> FixedKey for ($($part,)*) {
            const LENGTH: usize = 0 $(+ $part::LENGTH)*;
        }
    };
}

tuple_key!(A 0, B 1);
tuple_key!(A 0, B 1, C 2);
tuple_key!(A 0, B 1, C 2, D 3);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Sample = (String, Option<u32>, Timestamp);

    fn sample() -> impl Strategy<Value = Sample> {
        (".{0,6}", proptest::option::of(any::<u32>()), -5_000_i64..5_000)
            .prop_map(|(text, number, millis)| (text.replace('x', "\0"), number, Timestamp::from_millis(millis)))
    }

    proptest! {
        #[test]
        fn keys_read_back_and_sort_like_their_values(left in sample(), right in sample()) {
            let (left_bytes, right_bytes) = (left.to_bytes(), right.to_bytes());
            prop_assert_eq!(Sample::from_bytes(&left_bytes), Some(left.clone()));
            prop_assert_eq!(left_bytes.cmp(&right_bytes), left.cmp(&right));
        }
    }
}
