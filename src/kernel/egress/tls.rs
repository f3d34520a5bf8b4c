//! The certificates that TLS trusts: the public certificate authorities and the operator's. A request can replace them with its own
//! private authorities, or pin one certificate. rustls with TLS 1.2 and 1.3. Nothing here can turn off the verification.

use std::{path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use sha2::{Digest, Sha256};

use tenantd_base::cache::Cache;

/// The most TLS configurations for private authorities that are cached.
const MAX_CONFIGS: u64 = 256;
/// The longest PEM text of private authorities.
pub const MAX_CA_BYTES: usize = 65_536;

/// Identifies a set of private authorities.
pub(super) type Fingerprint = [u8; 32];

/// The TLS configuration for one handshake, and its identity.
#[derive(Clone, Debug)]
pub(super) struct Trust {
    pub(super) private: Option<Fingerprint>,
    pub(super) config: Arc<ClientConfig>,
}

#[derive(Debug)]
pub(super) struct Authorities {
    provider: Arc<CryptoProvider>,
    web: Arc<ClientConfig>,
    private: Cache<Fingerprint, Arc<ClientConfig>>,
}

impl Authorities {
    /// The public authorities, and those in `ca_file`.
    pub(super) fn new(ca_file: Option<&Path>) -> Result<Self, String> {
        let provider = Arc::new(ring::default_provider());
        let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
        if let Some(path) = ca_file {
            let pem = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            add_all(&mut roots, &pem).map_err(|problem| format!("{}: {problem}", path.display()))?;
        }
        let web = client_config(&provider, roots)?;
        Ok(Self { provider, web, private: Cache::new(MAX_CONFIGS) })
    }

    /// The trust for a request with these private authorities or this pinned certificate.
    pub(super) fn trust(&self, ca_pem: Option<&str>, pinned: Option<Fingerprint>) -> Result<Trust, String> {
        if let Some(pin) = pinned {
            return self.pinned(pin);
        }
        let Some(pem) = ca_pem else {
            return Ok(Trust { private: None, config: self.web.clone() });
        };
        let fingerprint: Fingerprint = Sha256::digest(pem.as_bytes()).into();
        if let Some(config) = self.private.get(&fingerprint) {
            return Ok(Trust { private: Some(fingerprint), config });
        }
        let config = client_config(&self.provider, private_roots(pem)?)?;
        self.private.insert(fingerprint, config.clone());
        Ok(Trust { private: Some(fingerprint), config })
    }

    /// Trusts only the certificate with this digest, whatever its issuer and its names.
    fn pinned(&self, pin: Fingerprint) -> Result<Trust, String> {
        // Kept apart from the digests of PEM texts, which cannot collide with this one.
        let place: Fingerprint = Sha256::new().chain_update(b"pin").chain_update(pin).finalize().into();
        if let Some(config) = self.private.get(&place) {
            return Ok(Trust { private: Some(place), config });
        }
        let verifier = PinnedCertificate { pin, provider: self.provider.clone() };
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = Arc::new(config);
        self.private.insert(place, config.clone());
        Ok(Trust { private: Some(place), config })
    }
}

/// Trusts a server that has the pinned certificate and proves that it holds the key.
#[derive(Debug)]
struct PinnedCertificate {
    pin: Fingerprint,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for PinnedCertificate {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let found: Fingerprint = Sha256::digest(end_entity).into();
        if found == self.pin {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Checks a value for the `ca_pem` of requests. The error is for the author of the value.
pub fn check_ca_pem(pem: &str) -> Result<(), String> {
    private_roots(pem).map(|_| ())
}

fn private_roots(pem: &str) -> Result<RootCertStore, String> {
    if pem.len() > MAX_CA_BYTES {
        return Err(format!("is longer than {MAX_CA_BYTES} bytes"));
    }
    let mut roots = RootCertStore::empty();
    add_all(&mut roots, pem.as_bytes())?;
    Ok(roots)
}

fn add_all(roots: &mut RootCertStore, pem: &[u8]) -> Result<(), String> {
    let before = roots.len();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("is not PEM: {error}"))?;
        roots.add(certificate).map_err(|error| format!("has a certificate that cannot be used: {error}"))?;
    }
    if roots.len() == before { Err("has no certificate".to_owned()) } else { Ok(()) }
}

fn client_config(provider: &Arc<CryptoProvider>, roots: RootCertStore) -> Result<Arc<ClientConfig>, String> {
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
