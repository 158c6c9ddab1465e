//! A proxy in front of an API server that makes answers go wrong.
//!
//! It ends TLS with a certificate of its own, forwards requests and answers as they are, and closes
//! the connection after each answer. Faults are given by what the first line of a request contains.
//!
//! ```no_run
//! use reverser_testkit::control_plane::{ControlPlane, User};
//! use reverser_testkit::fault_proxy::{Fault, FaultProxy};
//!
//! let plane = ControlPlane::shared();
//! let proxy = FaultProxy::start(&plane.kube_config(User::Admin));
//! let config = proxy.kube_config(plane.kube_config(User::Admin));
//! // The second page of the next list breaks off.
//! proxy.fault("configmaps continue=", Fault::CutAfter(1_000), 1);
//! ```

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

use crate::certificates::Authority;

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The request is taken and never answered.
    Hang,
    /// The connection is closed instead of an answer.
    Close,
    /// The answer comes later.
    Delay(Duration),
    /// The connection breaks after so many bytes of the answer's body.
    CutAfter(usize),
    /// Nothing more comes after so many bytes of the answer's body, and the connection stays.
    SilentAfter(usize),
    /// Another answer.
    Answer {
        /// Its status.
        status: u16,
        /// Its body, of a length that is told.
        body: String,
    },
    /// The server is asked for another form of the answer.
    Accept(&'static str),
}

impl Fault {
    /// Another answer.
    pub fn answer(status: u16, body: impl Into<String>) -> Self {
        let body = body.into();
        Self::Answer { status, body }
    }
}

/// A running proxy. It ends when it is dropped.
#[derive(Debug)]
pub struct FaultProxy {
    address: SocketAddr,
    authority: Authority,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server_tls: Arc<ServerConfig>,
    upstream: String,
    upstream_tls: Arc<ClientConfig>,
    state: Mutex<State>,
    /// What hangs may go on, into nothing.
    released: Condvar,
}

#[derive(Debug, Default)]
struct State {
    faults: Vec<Waiting>,
    seen: Vec<String>,
    /// Those who are being served, and those who were.
    clients: Vec<Weak<TcpStream>>,
    /// Counts how often all was healed.
    healed: u32,
    stopping: bool,
}

#[derive(Debug)]
struct Waiting {
    words: Vec<String>,
    fault: Fault,
    times: usize,
}

impl FaultProxy {
    /// Stands in front of the server that this configuration reaches.
    #[must_use]
    pub fn start(upstream: &kube::Config) -> Self {
        let authority = Authority::new("fault proxy").expect("a certificate can be made");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let url = &upstream.cluster_url;
        let shared = Arc::new(Shared {
            server_tls: server_tls(&authority),
            upstream: format!(
                "{}:{}",
                url.host().expect("an API server has an address"),
                url.port_u16().unwrap_or(443)
            ),
            upstream_tls: client_tls(upstream),
            state: Mutex::default(),
            released: Condvar::new(),
        });
        let accepting = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.state().stopping {
                    return;
                }
                let (Ok(stream), shared) = (stream, accepting.clone()) else {
                    continue;
                };
                // Whoever hangs up, client or server, ends the connection; that is all.
                thread::spawn(move || drop(serve(&shared, stream)));
            }
        });
        Self {
            address,
            authority,
            shared,
        }
    }

    /// The same user by way of the proxy.
    #[must_use]
    pub fn kube_config(&self, mut config: kube::Config) -> kube::Config {
        let url = format!("https://127.0.0.1:{}", self.address.port());
        config.cluster_url = url.parse().expect("an address and a port");
        config.root_cert = Some(vec![self.authority.der()]);
        config
    }

    /// Where it is, and the certificate that it is known by, for other programs.
    #[must_use]
    pub fn address(&self) -> (String, String) {
        let url = format!("https://127.0.0.1:{}", self.address.port());
        (url, self.authority.pem())
    }

    /// Makes the next so many requests go wrong whose first line has all of these words.
    pub fn fault(&self, words: &str, fault: Fault, times: usize) {
        let words = words.split_whitespace().map(str::to_owned).collect();
        self.shared.state().faults.push(Waiting {
            words,
            fault,
            times,
        });
    }

    /// Breaks every connection that there is, watches too.
    pub fn cut(&self) {
        for client in self.shared.state().clients.drain(..) {
            if let Some(client) = client.upgrade() {
                // One that is closed already needs no more.
                let _ = client.shutdown(Shutdown::Both);
            }
        }
    }

    /// Makes nothing go wrong any more, and closes what hangs.
    pub fn heal(&self) {
        let mut state = self.shared.state();
        state.faults.clear();
        state.healed += 1;
        self.shared.released.notify_all();
    }

    /// What was asked for so far, method and target.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.shared.state().seen.clone()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.shared.state().stopping = true;
        self.shared.released.notify_all();
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection for as long as what this gives is kept.
    fn note(&self, stream: &TcpStream) -> io::Result<Arc<TcpStream>> {
        let client = Arc::new(stream.try_clone()?);
        let mut state = self.state();
        state.clients.retain(|known| known.strong_count() > 0);
        state.clients.push(Arc::downgrade(&client));
        Ok(client)
    }

    /// Returns when all is healed or over.
    fn hang(&self) {
        let state = self.state();
        let before = state.healed;
        let hanging = |state: &mut State| state.healed == before && !state.stopping;
        drop(self.released.wait_while(state, hanging));
    }

    fn take_fault(&self, line: &str) -> Option<Fault> {
        let mut state = self.state();
        state.seen.push(line.to_owned());
        let fits = |waiting: &&mut Waiting| {
            waiting.times > 0
                && waiting
                    .words
                    .iter()
                    .all(|word| line.contains(word.as_str()))
        };
        let waiting = state.faults.iter_mut().find(fits)?;
        waiting.times -= 1;
        Some(waiting.fault.clone())
    }
}

fn server_tls(authority: &Authority) -> Arc<ServerConfig> {
    let identity = authority.issue(&["127.0.0.1"]);
    let identity = identity.expect("a certificate can be made");
    let certificate = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.expect("a certificate")],
            key.expect("a key"),
        );
    Arc::new(config.expect("they belong together"))
}

fn client_tls(upstream: &kube::Config) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for der in upstream.root_cert.iter().flatten() {
        let added = roots.add(CertificateDer::from(der.clone()));
        added.expect("an authority's certificate");
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

type Client = StreamOwned<ServerConnection, TcpStream>;
type Upstream = StreamOwned<ClientConnection, TcpStream>;

fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let _served = shared.note(&stream)?;
    let connection = ServerConnection::new(shared.server_tls.clone()).map_err(io::Error::other)?;
    let mut client = BufReader::new(StreamOwned::new(connection, stream));
    let Some(mut request) = Request::read(&mut client)? else {
        return Ok(());
    };
    let mut client = client.into_inner();
    let fault = shared.take_fault(&request.line);
    match &fault {
        Some(Fault::Hang) => {
            shared.hang();
            return Ok(());
        }
        Some(Fault::Close) => return Ok(()),
        Some(Fault::Answer { status, body }) => {
            let head = format!(
                "HTTP/1.1 {status} Fault\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            client.write_all(head.as_bytes())?;
            client.write_all(body.as_bytes())?;
            return close(client);
        }
        Some(Fault::Delay(delay)) => thread::sleep(*delay),
        Some(Fault::Accept(form)) => request.set("accept", form),
        Some(Fault::CutAfter(_) | Fault::SilentAfter(_)) | None => {}
    }
    request.set("connection", "close");
    let mut upstream = connect(shared)?;
    upstream.write_all(&request.to_bytes())?;
    upstream.flush()?;
    let limit = match &fault {
        Some(Fault::CutAfter(bytes) | Fault::SilentAfter(bytes)) => Some(*bytes),
        _ => None,
    };
    forward(upstream, &mut client, limit)?;
    match fault {
        Some(Fault::SilentAfter(_)) => shared.hang(),
        Some(Fault::CutAfter(_)) => return Ok(()),
        _ => {}
    }
    close(client)
}

/// A client that is not told that all is over takes the answer for cut.
fn close(mut client: Client) -> io::Result<()> {
    client.conn.send_close_notify();
    client.flush()
}

fn connect(shared: &Shared) -> io::Result<Upstream> {
    let stream = TcpStream::connect(&shared.upstream)?;
    stream.set_nodelay(true)?;
    let host = shared.upstream.split(':').next().unwrap_or_default();
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    let connection =
        ClientConnection::new(shared.upstream_tls.clone(), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(connection, stream))
}

/// Passes the answer on as it comes, with not more than so many bytes of its body.
fn forward(upstream: Upstream, client: &mut Client, limit: Option<usize>) -> io::Result<()> {
    let mut upstream = BufReader::with_capacity(64 * 1024, upstream);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if upstream.read_until(b'\n', &mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    client.write_all(&head)?;
    client.flush()?;
    let mut left = limit.unwrap_or(usize::MAX);
    while left > 0 {
        let bytes = upstream.fill_buf()?;
        if bytes.is_empty() {
            return Ok(());
        }
        let length = bytes.len().min(left);
        client.write_all(&bytes[..length])?;
        client.flush()?;
        upstream.consume(length);
        left -= length;
    }
    Ok(())
}

/// A request with its body.
struct Request {
    /// Method and target.
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    /// `None` if the client has closed the connection.
    fn read(client: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut line = String::new();
        if client.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
        let mut headers = Vec::new();
        loop {
            let mut header = String::new();
            client.read_line(&mut header)?;
            match header.trim_end().split_once(':') {
                Some((name, value)) => {
                    headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
                }
                None => break,
            }
        }
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let length = length.and_then(|(_, value)| value.parse().ok());
        let mut body = Vec::new();
        client.take(length.unwrap_or(0)).read_to_end(&mut body)?;
        Ok(Some(Self {
            line,
            headers,
            body,
        }))
    }

    fn set(&mut self, name: &str, value: &str) {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} HTTP/1.1\r\n", self.line).into_bytes();
        for (name, value) in &self.headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}
