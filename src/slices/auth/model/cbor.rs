//! Reads CBOR (RFC 8949) as authenticators write it: attestation objects, public keys and extensions.
//!
//! **Invariant:** the work is bounded by the input. Lengths are definite, containers are small and not nested deeply, no map has a key
//! twice, and a length never exceeds what is left of the input.

/// How deep lists and maps can be nested. An attestation has a list of certificates in its third level.
const MAX_DEPTH: usize = 4;
/// How many entries a list or a map can have.
const MAX_ENTRIES: u64 = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Integer(i64),
    Bytes(Vec<u8>),
    Text(String),
    List(Vec<Item>),
    Map(Vec<(Item, Item)>),
    /// `false`, `true` or `null`.
    Simple(u8),
}

impl Item {
    /// The value of a key of a map.
    pub fn get(&self, key: &Item) -> Option<&Item> {
        match self {
            Self::Map(entries) => entries.iter().find(|(known, _)| known == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The value of a numbered key of a map, as in a COSE key.
    pub fn at(&self, key: i64) -> Option<&Item> {
        self.get(&Self::Integer(key))
    }

    /// The value of a named key of a map.
    pub fn named(&self, key: &str) -> Option<&Item> {
        self.get(&Self::Text(key.to_owned()))
    }

    pub fn integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }

    pub fn bytes(&self) -> Option<&[u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }
}

/// Reads one item. `None` if the input is malformed or has anything after it.
pub fn read(input: &[u8]) -> Option<Item> {
    let (item, rest) = read_first(input)?;
    rest.is_empty().then_some(item)
}

/// Reads the first item. Returns it with the rest of the input.
pub fn read_first(input: &[u8]) -> Option<(Item, &[u8])> {
    let mut reader = Reader { rest: input };
    let item = reader.item(0)?;
    Some((item, reader.rest))
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn item(&mut self, depth: usize) -> Option<Item> {
        let first = *self.take(1)?.first()?;
        let (major, detail) = (first >> 5, first & 0x1f);
        if major == 7 {
            return matches!(detail, 20..=22).then_some(Item::Simple(detail));
        }
        let argument = self.argument(detail)?;
        match major {
            0 => Some(Item::Integer(i64::try_from(argument).ok()?)),
            1 => Some(Item::Integer(-1 - i64::try_from(argument).ok()?)),
            2 => Some(Item::Bytes(self.text(argument)?.to_vec())),
            3 => Some(Item::Text(str::from_utf8(self.text(argument)?).ok()?.to_owned())),
            4 => self.list(argument, depth + 1),
            5 => self.map(argument, depth + 1),
            // Tags have no use here.
            _ => None,
        }
    }

    /// The number after the first byte. Indefinite lengths and reserved forms have none.
    fn argument(&mut self, detail: u8) -> Option<u64> {
        let length = match detail {
            0..=23 => return Some(detail.into()),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => return None,
        };
        Some(self.take(length)?.iter().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    fn text(&mut self, length: u64) -> Option<&'a [u8]> {
        self.take(usize::try_from(length).ok()?)
    }

    fn list(&mut self, count: u64, depth: usize) -> Option<Item> {
        if depth > MAX_DEPTH || count > MAX_ENTRIES {
            return None;
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.item(depth)?);
        }
        Some(Item::List(items))
    }

    fn map(&mut self, count: u64, depth: usize) -> Option<Item> {
        if depth > MAX_DEPTH || count > MAX_ENTRIES {
            return None;
        }
        let mut entries: Vec<(Item, Item)> = Vec::new();
        for _ in 0..count {
            let key = self.item(depth)?;
            let is_key = matches!(key, Item::Integer(_) | Item::Text(_));
            if !is_key || entries.iter().any(|(known, _)| *known == key) {
                return None;
            }
            entries.push((key, self.item(depth)?));
        }
        Some(Item::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Item {
        Item::Text(text.to_owned())
    }

    #[test]
    fn items_are_read_with_their_rest() {
        let map = read(b"\xa3\x01\x02\x20\x42\xab\xcd\x63fmt\x64none").unwrap();
        assert_eq!(map.at(1).and_then(Item::integer), Some(2));
        assert_eq!(map.at(-1).and_then(Item::bytes), Some(b"\xab\xcd".as_slice()));
        assert_eq!(map.named("fmt"), Some(&text("none")));
        assert_eq!((map.at(3), map.named("x"), text("x").at(1)), (None, None, None));
        assert_eq!(read(b"\x39\x01\x00"), Some(Item::Integer(-257)));
        assert_eq!(read(b"\x82\xf5\xf6"), Some(Item::List(vec![Item::Simple(21), Item::Simple(22)])));
        assert_eq!(read_first(b"\x18\x64rest"), Some((Item::Integer(100), b"rest".as_slice())));
    }

    #[test]
    fn everything_else_is_refused() {
        let refused: [&[u8]; 19] = [
            b"",
            b"\x18",
            // More than is left.
            b"\x42\x01",
            b"\x5b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x9b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\xa1\x01",
            // Numbers beyond 64 bits with a sign.
            b"\x1b\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x3b\xff\xff\xff\xff\xff\xff\xff\xff",
            // Indefinite lengths.
            b"\x5f\x41\x01\xff",
            b"\x9f\x01\xff",
            b"\xbf\x01\x01\xff",
            // A tag, a float, an undefined value, and reserved forms.
            b"\xc0\x01",
            b"\xf9\x00\x00",
            b"\xf7",
            b"\x1c",
            // A key twice, also in another form, and a key that is a list.
            b"\xa2\x01\x01\x01\x02",
            b"\xa2\x01\x01\x18\x01\x02",
            b"\xa1\x80\x01",
            // No UTF-8.
            b"\x61\xff",
        ];
        for input in refused {
            assert_eq!(read(input), None, "{input:02x?}");
        }
        assert_eq!(read(b"\x01\x01"), None, "something follows");
        assert!(read(b"\x81\x81\x81\x81\x01").is_some());
        assert_eq!(read(b"\x81\x81\x81\x81\x81\x01"), None, "too deep");
        let list = |count: u8| [vec![0x98, count], vec![0; count.into()]].concat();
        assert!(read(&list(32)).is_some() && read(&list(33)).is_none());
    }
}
