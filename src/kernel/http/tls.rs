//! TLS: rustls with TLS 1.2 and 1.3 and its AEAD suites, and HTTP/2 by ALPN. The certificate can be replaced while connections are
//! open. A first start without a certificate creates one.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};

use tenantd_store::{
    tasks::{Done, Task, TaskError},
    write_private_file,
};

/// The files of the certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    pub certificate: PathBuf,
    pub private_key: PathBuf,
}

impl CertificateFiles {
    /// The files of the self-signed certificate that tenantd creates.
    pub fn self_signed(data_directory: &Path) -> Self {
        let directory = data_directory.join("tls");
        Self { certificate: directory.join("certificate.pem"), private_key: directory.join("private-key.pem") }
    }

    /// Creates a certificate for `names` unless the files exist. It is valid for ten years, because clients must pin it anyway.
    pub fn create_self_signed(&self, names: Vec<String>) -> Result<(), String> {
        if self.certificate.exists() && self.private_key.exists() {
            return Ok(());
        }
        let mut params = rcgen::CertificateParams::new(names).map_err(|error| error.to_string())?;
        params.distinguished_name.push(rcgen::DnType::CommonName, "tenantd self-signed");
        let key = rcgen::KeyPair::generate().map_err(|error| error.to_string())?;
        let certificate = params.self_signed(&key).map_err(|error| error.to_string())?;
        if let Some(directory) = self.certificate.parent() {
            std::fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        }
        write_private_file(&self.private_key, key.serialize_pem().as_bytes()).map_err(|error| error.to_string())?;
        write_private_file(&self.certificate, certificate.pem().as_bytes()).map_err(|error| error.to_string())
    }

    fn load(&self, provider: &CryptoProvider) -> Result<CertifiedKey, String> {
        let shown = self.certificate.display();
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|error| format!("{shown}: {error}"))?;
        if chain.is_empty() {
            return Err(format!("{shown}: the file contains no certificate"));
        }
        let key =
            PrivateKeyDer::from_pem_file(&self.private_key).map_err(|error| format!("{}: {error}", self.private_key.display()))?;
        CertifiedKey::from_der(chain, key, provider).map_err(|error| format!("{shown}: {error}"))
    }

    /// A value that changes when either file changes.
    fn stamp(&self) -> Option<(SystemTime, SystemTime)> {
        let modified = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
        Some((modified(&self.certificate)?, modified(&self.private_key)?))
    }
}

/// The certificate in use.
#[derive(Debug)]
pub struct Certificate {
    files: CertificateFiles,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
    stamp: ArcSwap<Option<(SystemTime, SystemTime)>>,
}

impl Certificate {
    pub fn load(files: CertificateFiles) -> Result<Arc<Self>, String> {
        let provider = Arc::new(ring::default_provider());
        let stamp = files.stamp();
        let current = ArcSwap::from_pointee(files.load(&provider)?);
        Ok(Arc::new(Self { files, provider, current, stamp: ArcSwap::from_pointee(stamp) }))
    }

    /// Loads new files. If the pair is not usable, the old one stays in use.
    pub fn reload(&self) -> Result<(), String> {
        let stamp = self.files.stamp();
        let loaded = self.files.load(&self.provider)?;
        self.current.store(Arc::new(loaded));
        self.stamp.store(Arc::new(stamp));
        Ok(())
    }

    fn has_changed(&self) -> bool {
        let now = self.files.stamp();
        now.is_some() && now != **self.stamp.load()
    }

    /// The TLS configuration of the server. With `client_ca` every client must present a certificate.
    pub fn server_config(self: &Arc<Self>, client_ca: Option<&Path>) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let fail = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_file_iter(path).map_err(|error| fail(&error))? {
                    roots.add(certificate.map_err(|error| fail(&error))?).map_err(|error| fail(&error))?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), self.provider.clone())
                    .build()
                    .map_err(|error| fail(&error))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(Resolver(self.clone())));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(config)
    }
}

#[derive(Debug)]
struct Resolver(Arc<Certificate>);

impl ResolvesServerCert for Resolver {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.current.load_full())
    }
}

/// Loads a certificate that was renewed on disk.
#[derive(Debug)]
pub struct CertificateWatch {
    pub certificate: Arc<Certificate>,
    pub period: Duration,
}

impl Task for CertificateWatch {
    fn name(&self) -> &'static str {
        "certificate_watch"
    }

    fn period(&self) -> Duration {
        self.period
    }

    async fn activate(&self) -> Result<Done, TaskError> {
        if self.certificate.has_changed() {
            self.certificate.reload().map_err(TaskError)?;
            tracing::info!("loaded the new certificate");
        }
        Ok(Done::All)
    }
}
