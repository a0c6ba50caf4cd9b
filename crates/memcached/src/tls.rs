//! TLS on the listened addresses.

use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

use crate::error::{MemcachedError, Result};
use crate::settings::TlsFiles;

pub(crate) type Acceptor = TlsAcceptor;

/// Reads certificate and key.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<Acceptor> {
    fn bad<E: ToString>(path: &Path) -> impl Fn(E) -> MemcachedError + '_ {
        |error| MemcachedError::File {
            path: path.to_path_buf(),
            reason: error.to_string(),
        }
    }
    let of_certificate = bad(&files.certificate);
    let certificates = CertificateDer::pem_file_iter(&files.certificate).map_err(&of_certificate)?;
    let certificates: Vec<_> = certificates
        .collect::<std::result::Result<_, _>>()
        .map_err(&of_certificate)?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(bad(&files.key))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    // Later it would be unknown which of the two files is wrong.
    provider
        .key_provider
        .load_private_key(key.clone_key())
        .map_err(bad(&files.key))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(certificates, key))
        .map_err(bad(&files.certificate))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
