//! The target that a stored secret belongs to. This is the one definition of "the same target": scheme, host, port, and the
//! certificates that TLS trusts. The path does not matter.
//!
//! Code that stores a secret and sends it out seals it to the [`TargetDigest`] of its target, so that it does not open for another
//! one.

use rustls::pki_types::{CertificateDer, pem::PemObject};
use sha2::{Digest, Sha256};

use tenantd_base::secrets::TargetDigest;

use super::target::TargetUrl;

/// Where a secret may be sent, part by part. Each part has the name of the field that sets it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretTarget(Vec<(&'static str, Option<String>)>);

impl SecretTarget {
    /// Adds the server of a URL; `None` stands for the default server of an unset field.
    #[must_use]
    pub fn url(self, field: &'static str, url: Option<&str>) -> Self {
        self.part(field, url.map(origin))
    }

    /// Adds the private certificate authorities; `None` stands for the default ones.
    #[must_use]
    pub fn authorities(self, field: &'static str, pem: Option<&str>) -> Self {
        self.part(field, pem.map(authorities))
    }

    /// Adds the SHA-256 of the only trusted certificate.
    #[must_use]
    pub fn certificate(self, field: &'static str, fingerprint: Option<&[u8; 32]>) -> Self {
        self.part(field, fingerprint.map(|digest| hex(digest)))
    }

    fn part(mut self, field: &'static str, value: Option<String>) -> Self {
        self.0.push((field, value));
        self
    }

    /// The fields in which the two targets differ.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let differs = |part: &&(&'static str, Option<String>)| !other.0.contains(part);
        self.0.iter().filter(differs).map(|(field, _)| *field).collect()
    }

    /// The digest that a secret is sealed to.
    pub fn digest(&self) -> TargetDigest {
        let mut digest = Sha256::new();
        for (field, value) in &self.0 {
            for text in [Some(*field), value.as_deref()] {
                // A missing value differs from every present value.
                let length = text.map_or(u64::MAX, |text| text.len() as u64);
                digest.update(length.to_be_bytes());
                digest.update(text.unwrap_or_default().as_bytes());
            }
        }
        TargetDigest(digest.finalize().into())
    }
}

/// Scheme, host and port in canonical form: the host in lower-case ASCII without a final dot, and the port always included.
fn origin(url: &str) -> String {
    match TargetUrl::parse(url) {
        Ok(target) => target.origin(),
        // Nothing can be sent there, but it must still differ from everything else.
        Err(_) => format!("unusable:{url}"),
    }
}

/// A digest of the certificates alone. Their order and other text in the PEM do not matter.
fn authorities(pem: &str) -> String {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    let mut digests = match certificates {
        Ok(certificates) => certificates.iter().map(|certificate| hex(certificate)).collect(),
        Err(_) => vec![format!("unusable:{pem}")],
    };
    digests.sort_unstable();
    digests.dedup();
    hex(&Sha256::digest(digests.join(",").as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> SecretTarget {
        SecretTarget::default().url("url", Some(url)).authorities("ca", None)
    }

    #[test]
    fn spellings_and_paths_do_not_change_the_target() {
        let target = of("https://hooks.example.com/a");
        for same in [
            "https://hooks.example.com/b?c=d",
            "https://HOOKS.Example.COM",
            "HTTPS://hooks.example.com./a",
            "https://hooks.example.com:443/a",
            "https://hooks.ｅxample.com/a",
        ] {
            assert_eq!(of(same), target, "{same}");
            assert_eq!(of(same).digest(), target.digest(), "{same}");
        }
        assert_eq!(of("http://127.1:8080/"), of("http://127.0.0.1:8080/x"));
        assert_eq!(of("https://münchen.example/"), of("https://xn--mnchen-3ya.example/"));
    }

    #[test]
    fn scheme_host_port_and_authority_change_the_target() {
        let target = of("https://hooks.example.com/a");
        for other in [
            "http://hooks.example.com/a",
            "http://hooks.example.com:443/a",
            "https://hooks.example.com:8443/a",
            "https://example.com/a",
            "https://hooks.example.com.evil.example/a",
            "https://evil.example/hooks.example.com",
            "no url",
        ] {
            assert_ne!(of(other).digest(), target.digest(), "{other}");
            assert_eq!(of(other).differences(&target), ["url"], "{other}");
        }
        let private = SecretTarget::default().url("url", Some("https://hooks.example.com/a")).authorities("ca", Some(""));
        assert_ne!(private.digest(), target.digest());
        assert_eq!(private.differences(&target), ["ca"]);
    }

    #[test]
    fn authorities_are_compared_by_their_certificates() {
        let pem = |name: &str| {
            let key = rcgen::KeyPair::generate().unwrap();
            rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap().self_signed(&key).unwrap().pem()
        };
        let (one, two) = (pem("one.example"), pem("two.example"));
        assert_eq!(authorities(&format!("{one}{two}")), authorities(&format!("# ours\n{two}\n\n{one}{one}")));
        assert_ne!(authorities(&one), authorities(&two));
        assert_ne!(authorities(&one), authorities(&format!("{one}{two}")));
    }

    #[test]
    fn parts_are_kept_apart() {
        let parts = |endpoint: Option<&str>, login: Option<&str>| {
            SecretTarget::default().url("endpoint", endpoint).url("auth_url", login).certificate("pin", None).digest()
        };
        let url = Some("https://a.example");
        assert_ne!(parts(url, None), parts(None, url));
        assert_ne!(parts(url, url), parts(url, None));
        assert_ne!(
            SecretTarget::default().certificate("pin", Some(&[1; 32])).digest(),
            SecretTarget::default().certificate("pin", Some(&[2; 32])).digest()
        );
    }
}
