//! AWS Signature Version 4 for a request with its whole body in memory. No clock, no I/O: the time of the signature is an argument.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use tenantd_base::{clock::Timestamp, secrets::Secret};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The request to sign.
#[derive(Debug)]
pub(super) struct Signable<'a> {
    pub(super) method: &'a str,
    /// The path as it is sent, percent-encoded.
    pub(super) path: &'a str,
    /// The names and values, percent-encoded.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// The headers, with names in lower case.
    pub(super) headers: &'a [(&'a str, &'a str)],
    pub(super) body: &'a [u8],
}

/// The key and the scope of a signature.
#[derive(Debug)]
pub(super) struct Signer<'a> {
    pub(super) access_key_id: &'a str,
    pub(super) secret_access_key: &'a Secret,
    pub(super) region: &'a str,
    pub(super) service: &'a str,
}

/// The time in the form of `x-amz-date`: `20150830T123600Z`.
pub(super) fn amz_date(at: Timestamp) -> String {
    // 2015-08-30T12:36:00.000Z without its punctuation and milliseconds.
    let text = at.to_string();
    let seconds = text.get(..19).unwrap_or_default();
    format!("{}Z", seconds.replace(['-', ':'], ""))
}

impl Signer<'_> {
    /// The value of the `Authorization` header. The `headers` of the request must contain `x-amz-date` with the same time.
    pub(super) fn authorization(&self, request: &Signable<'_>, at: Timestamp) -> String {
        let date = amz_date(at);
        let day = date.get(..8).unwrap_or_default();
        let scope = format!("{day}/{}/{}/aws4_request", self.region, self.service);
        let (canonical, signed_headers) = canonical_request(request);
        let to_sign = format!("{ALGORITHM}\n{date}\n{scope}\n{}", hex_digest(canonical.as_bytes()));
        let secret = format!("AWS4{}", self.secret_access_key.expose());
        let steps = [day, self.region, self.service, "aws4_request"];
        let key = steps.iter().fold(secret.into_bytes(), |key, step| mac(&key, step.as_bytes()));
        let signature = HEXLOWER.encode(&mac(&key, to_sign.as_bytes()));
        let id = self.access_key_id;
        format!("{ALGORITHM} Credential={id}/{scope}, SignedHeaders={signed_headers}, Signature={signature}")
    }
}

fn canonical_request(request: &Signable<'_>) -> (String, String) {
    let mut query: Vec<_> = request.query.to_vec();
    query.sort_unstable();
    let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut headers: Vec<_> = request.headers.to_vec();
    headers.sort_unstable();
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let headers: String = headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
    let Signable { method, path, body, .. } = request;
    (format!("{method}\n{path}\n{}\n{headers}\n{names}\n{}", query.join("&"), hex_digest(body)), names)
}

fn hex_digest(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes))
}

fn mac(key: &[u8], message: &[u8]) -> Vec<u8> {
    // HMAC accepts keys of any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return Vec::new() };
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The time of AWS's published test suite.
    fn at() -> Timestamp {
        Timestamp::parse("2015-08-30T12:36:00Z").unwrap()
    }

    fn signature(request: &Signable<'_>) -> String {
        let secret = Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let signer = Signer { access_key_id: "AKIDEXAMPLE", secret_access_key: &secret, region: "us-east-1", service: "service" };
        let header = signer.authorization(request, at());
        assert!(header.contains("Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request"));
        header.rsplit('=').next().unwrap().to_owned()
    }

    const HEADERS: [(&str, &str); 2] = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];

    #[test]
    fn signatures_match_the_published_test_suite() {
        let vanilla = Signable { method: "GET", path: "/", query: &[], headers: &HEADERS, body: b"" };
        assert_eq!(signature(&vanilla), "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
        let post = Signable { method: "POST", ..vanilla };
        assert_eq!(signature(&post), "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
        let query = Signable { method: "GET", query: &[("Param2", "value2"), ("Param1", "value1")], ..post };
        assert_eq!(signature(&query), "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
        let headers = [("content-type", "application/x-www-form-urlencoded"), HEADERS[0], HEADERS[1]];
        let form = Signable { method: "POST", query: &[], headers: &headers, body: b"Param1=value1", ..query };
        assert_eq!(signature(&form), "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a");
    }

    #[test]
    fn the_date_has_the_signed_form() {
        assert_eq!(amz_date(at()), "20150830T123600Z");
    }
}
