//! Somebody who calls the webhook: with or without a certificate, with whatever they like.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use gitops_reverser::admission;
use reverser_testkit::certificates::Identity;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A connection that is used again and again.
pub(super) struct Caller {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Caller {
    /// Trusts this authority, and shows this certificate if there is one.
    pub(super) fn connect(
        port: u16,
        authorities: &str,
        identity: Option<&Identity>,
    ) -> io::Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let certificate =
                    CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes()).unwrap();
                let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
                builder
                    .with_client_auth_cert(vec![certificate], key)
                    .unwrap()
            }
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connection = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_mins(1)))?;
        let stream = StreamOwned::new(connection, stream);
        Ok(Self { stream })
    }

    /// Posts a body, and gives the status of the answer.
    pub(super) fn post(&mut self, body: &[u8]) -> io::Result<u16> {
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: webhook\r\nContent-Length: {}\r\n\r\n",
            admission::PATH,
            body.len()
        );
        self.stream.write_all(head.as_bytes())?;
        self.stream.write_all(body)?;
        self.stream.flush()?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
        }
        let head = String::from_utf8(answer).unwrap().to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        self.stream.read_exact(&mut body)?;
        Ok(head.split(' ').nth(1).unwrap().parse().unwrap())
    }
}
