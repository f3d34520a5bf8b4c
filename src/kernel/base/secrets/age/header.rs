//! The header: one stanza per recipient with the file key, and a MAC over all of it under the file key. Stanzas of unknown types
//! are skipped.

use std::io::{BufRead, Read};

use data_encoding::BASE64_NOPAD;
use ring::hmac;

use super::{
    AgeError, FileKey, Identity, Recipient, header_key,
    keys::{WRAPPED_BYTES, Wrapped},
};
use crate::entropy::Entropy;

const VERSION: &str = "age-encryption.org/v1";
const STANZA: &str = "-> ";
const X25519: &str = "X25519";
const END: &str = "---";
/// The length of the full lines of a stanza's body. The last line is shorter, or empty.
const COLUMNS: usize = 64;
/// The longest header that is read. The key is not known before its end.
const MAX_BYTES: u64 = 65_536;

pub(super) fn write(file_key: &FileKey, recipients: &[Recipient], entropy: &mut Entropy) -> Result<Vec<u8>, AgeError> {
    if recipients.is_empty() {
        return Err(AgeError::NoRecipient);
    }
    let mut text = format!("{VERSION}\n");
    for recipient in recipients {
        let wrapped = recipient.wrap(file_key, entropy)?;
        let (share, body) = (BASE64_NOPAD.encode(&wrapped.share), BASE64_NOPAD.encode(&wrapped.body));
        text.push_str(&format!("{STANZA}{X25519} {share}\n{body}\n"));
    }
    text.push_str(END);
    let code = hmac::sign(&header_key(file_key)?, text.as_bytes());
    text.push_str(&format!(" {}\n", BASE64_NOPAD.encode(code.as_ref())));
    Ok(text.into_bytes())
}

/// Reads the header and returns the file key that one of the identities opens.
pub(super) fn read(input: &mut impl BufRead, identities: &[Identity]) -> Result<FileKey, AgeError> {
    let mut lines = Lines { input: input.take(MAX_BYTES), seen: Vec::new() };
    if lines.next()? != VERSION {
        return Err(AgeError::Header);
    }
    let mut wrapped = Vec::new();
    let mut line = lines.next()?;
    while let Some(arguments) = line.strip_prefix(STANZA) {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let printable = |argument: &&str| !argument.is_empty() && argument.bytes().all(|byte| byte.is_ascii_graphic());
        if !arguments.iter().all(printable) {
            return Err(AgeError::Header);
        }
        let body = lines.body()?;
        if let [X25519, rest @ ..] = arguments.as_slice() {
            let [share] = rest else { return Err(AgeError::Header) };
            wrapped.push(Wrapped { share: decode(share)?, body: fixed::<WRAPPED_BYTES>(body)? });
        }
        line = lines.next()?;
    }
    let code = line.strip_prefix(END).and_then(|rest| rest.strip_prefix(' ')).ok_or(AgeError::Header)?;
    let code: [u8; 32] = decode(code)?;
    let covered = lines.seen.strip_suffix(line.as_bytes()).ok_or(AgeError::Header)?;
    let covered = [covered, END.as_bytes()].concat();
    let file_key = unwrap(&wrapped, identities)?;
    hmac::verify(&header_key(&file_key)?, &covered, &code).map_err(|_| AgeError::Header)?;
    Ok(file_key)
}

fn unwrap(wrapped: &[Wrapped], identities: &[Identity]) -> Result<FileKey, AgeError> {
    for (stanza, identity) in wrapped.iter().flat_map(|stanza| identities.iter().map(move |identity| (stanza, identity))) {
        if let Some(file_key) = identity.unwrap(stanza)? {
            return Ok(file_key);
        }
    }
    Err(AgeError::OtherIdentity)
}

struct Lines<R> {
    input: std::io::Take<R>,
    /// All bytes so far, without the end of the newest line.
    seen: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    fn next(&mut self) -> Result<String, AgeError> {
        if !self.seen.is_empty() {
            self.seen.push(b'\n');
        }
        let mut line = Vec::new();
        self.input.read_until(b'\n', &mut line)?;
        if line.pop() != Some(b'\n') {
            return Err(AgeError::Header);
        }
        self.seen.extend_from_slice(&line);
        String::from_utf8(line).map_err(|_| AgeError::Header)
    }

    fn body(&mut self) -> Result<Vec<u8>, AgeError> {
        let mut text = String::new();
        loop {
            let line = self.next()?;
            text.push_str(&line);
            if line.len() > COLUMNS {
                return Err(AgeError::Header);
            }
            if line.len() < COLUMNS {
                return BASE64_NOPAD.decode(text.as_bytes()).map_err(|_| AgeError::Header);
            }
        }
    }
}

fn decode<const N: usize>(text: &str) -> Result<[u8; N], AgeError> {
    fixed(BASE64_NOPAD.decode(text.as_bytes()).map_err(|_| AgeError::Header)?)
}

fn fixed<const N: usize>(bytes: Vec<u8>) -> Result<[u8; N], AgeError> {
    bytes.try_into().map_err(|_| AgeError::Header)
}
