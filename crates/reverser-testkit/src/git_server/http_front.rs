//! A small HTTP(S) server in front of `git http-backend`.

use std::collections::HashSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use super::http_fault::{Fault, Request, Waiting};
use super::http_message::{Incoming, write_answer};
use super::repository::sealed_environment;
use crate::certificates::{Authority, Identity};

/// What the server asks of its clients from the start.
#[derive(Debug, Default)]
pub struct HttpOptions {
    /// Speaks TLS with this certificate.
    pub tls: Option<Identity>,
    /// Asks for a client certificate of this authority.
    pub client_authority: Option<Vec<u8>>,
}

/// A running server. It ends when it is dropped.
#[derive(Debug)]
pub struct HttpFront {
    address: SocketAddr,
    scheme: &'static str,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    tls: Option<Arc<ServerConfig>>,
    stopping: AtomicBool,
    state: Mutex<State>,
    /// Told when the server stops: hanging connections wait for it.
    stopped: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The `Authorization` headers that are let in; empty lets everybody in.
    let_in: HashSet<String>,
    faults: Vec<Waiting>,
    /// Request lines, as they came.
    seen: Vec<String>,
}

impl HttpFront {
    /// Serves the repositories below `root` to everybody, without TLS.
    #[must_use]
    pub fn start(root: &Path) -> Self {
        Self::with_options(root, &HttpOptions::default())
    }

    /// Serves the repositories below `root` with TLS, by a certificate of `authority`.
    #[must_use]
    pub fn start_tls(root: &Path, authority: &Authority) -> Self {
        let tls = authority
            .issue(&["127.0.0.1", "localhost"])
            .expect("a certificate can be made");
        Self::with_options(
            root,
            &HttpOptions {
                tls: Some(tls),
                client_authority: None,
            },
        )
    }

    /// Serves the repositories below `root`.
    #[must_use]
    pub fn with_options(root: &Path, options: &HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let tls = options
            .tls
            .as_ref()
            .map(|identity| Arc::new(tls_config(identity, options)));
        let shared = Arc::new(Shared {
            root: root.to_owned(),
            tls,
            stopping: AtomicBool::new(false),
            state: Mutex::default(),
            stopped: Condvar::new(),
        });
        let scheme = if shared.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let accepting = shared.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                if accepting.stopping.load(Ordering::SeqCst) {
                    return;
                }
                let (Ok(stream), shared) = (stream, accepting.clone()) else {
                    continue;
                };
                // A client that hangs up is not the server's concern.
                thread::spawn(move || drop(serve(&shared, stream)));
            }
        });
        Self {
            address,
            scheme,
            shared,
        }
    }

    /// The address of a repository below the root.
    #[must_use]
    pub fn url(&self, name: &str) -> String {
        format!("{}://127.0.0.1:{}/{name}", self.scheme, self.address.port())
    }

    /// Lets in only requests with one of these `Authorization` headers, from now on.
    pub fn require(&self, headers: &[&str]) {
        self.state().let_in = headers.iter().map(|header| (*header).to_owned()).collect();
    }

    /// Makes the next so many requests of this kind go wrong.
    pub fn fault(&self, request: Request, fault: Fault, times: usize) {
        self.state().faults.push(Waiting {
            request,
            fault,
            times,
        });
    }

    /// The same, and nothing else goes wrong any more.
    pub fn fault_only(&self, request: Request, fault: Fault, times: usize) {
        self.state().faults = vec![Waiting {
            request,
            fault,
            times,
        }];
    }

    /// Makes nothing go wrong any more.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// The first lines of the requests so far.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.state().seen.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for HttpFront {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.stopped.notify_all();
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
    }
}

fn tls_config(identity: &Identity, options: &HttpOptions) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider has them");
    let builder = match &options.client_authority {
        None => builder.with_no_client_auth(),
        Some(der) => {
            let mut roots = RootCertStore::empty();
            roots
                .add(CertificateDer::from(der.clone()))
                .expect("an authority's certificate");
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().expect("there is a root"))
        }
    };
    let certificate = CertificateDer::from_pem_slice(identity.certificate_pem.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes());
    builder
        .with_single_cert(
            vec![certificate.expect("a certificate")],
            key.expect("a key"),
        )
        .expect("they belong together")
}

trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

fn serve(shared: &Shared, stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let stream: Box<dyn Duplex> = match &shared.tls {
        None => Box::new(stream),
        Some(config) => {
            let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(connection, stream))
        }
    };
    let mut stream = Buffered(BufReader::with_capacity(64 * 1024, stream));
    while let Some(request) = Incoming::read(&mut stream)? {
        if !answer(shared, &request, &mut stream)? {
            break;
        }
    }
    Ok(())
}

/// Buffered for reading, direct for writing.
struct Buffered(BufReader<Box<dyn Duplex>>);

impl Read for Buffered {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl BufRead for Buffered {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.0.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.0.consume(amount);
    }
}

impl Write for Buffered {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.get_mut().write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.get_mut().flush()
    }
}

/// Answers one request. `false` ends the connection.
fn answer(shared: &Shared, request: &Incoming, stream: &mut impl Write) -> io::Result<bool> {
    let (path, query) = request.path_and_query();
    let (fault, let_in) = {
        let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        state
            .seen
            .push(format!("{} {}", request.method, request.target));
        let sent = request.header("authorization").unwrap_or_default();
        let let_in = state.let_in.is_empty() || state.let_in.contains(sent);
        (
            take_fault(&mut state.faults, path, query, request.body.len()),
            let_in,
        )
    };
    match fault {
        Some(Fault::Hang) => {
            let mut state = shared.state.lock().unwrap_or_else(PoisonError::into_inner);
            while !shared.stopping.load(Ordering::SeqCst) {
                // The timeout only covers a stop between the look and the wait.
                let wait = shared
                    .stopped
                    .wait_timeout(state, Duration::from_millis(200));
                state = wait.unwrap_or_else(PoisonError::into_inner).0;
            }
            return Ok(false);
        }
        Some(Fault::DropRequest) => return Ok(false),
        Some(Fault::Status(status)) => {
            write_answer(stream, &format!("{status} Fault"), &[], b"")?;
            return Ok(true);
        }
        Some(Fault::Redirect(to)) => {
            let location = format!("{to}{path}?{query}");
            write_answer(
                stream,
                "301 Moved Permanently",
                &[("Location".to_owned(), location)],
                b"",
            )?;
            return Ok(true);
        }
        Some(Fault::Delay(time)) => thread::sleep(time),
        Some(Fault::CutAnswer(_) | Fault::Slow(_)) | None => {}
    }
    if !let_in {
        let challenge = [(
            "WWW-Authenticate".to_owned(),
            "Basic realm=\"git\"".to_owned(),
        )];
        write_answer(stream, "401 Unauthorized", &challenge, b"")?;
        return Ok(true);
    }
    let (status, headers, body) = run_backend(shared, request)?;
    let mut whole = Vec::with_capacity(body.len() + 512);
    write_answer(&mut whole, &status, &headers, &body)?;
    match fault {
        Some(Fault::CutAnswer(bytes)) => {
            stream.write_all(&whole[..bytes.min(whole.len())])?;
            stream.flush()?;
            Ok(false)
        }
        Some(Fault::Slow(bytes_per_second)) => {
            for chunk in whole.chunks(bytes_per_second.div_ceil(10)) {
                if shared.stopping.load(Ordering::SeqCst) {
                    return Ok(false);
                }
                stream.write_all(chunk)?;
                stream.flush()?;
                thread::sleep(Duration::from_millis(100));
            }
            Ok(true)
        }
        _ => stream
            .write_all(&whole)
            .and_then(|()| stream.flush())
            .map(|()| true),
    }
}

fn take_fault(
    faults: &mut Vec<Waiting>,
    path: &str,
    query: &str,
    body_len: usize,
) -> Option<Fault> {
    let at = faults
        .iter()
        .position(|waiting| waiting.request.matches(path, query, body_len))?;
    let waiting = &mut faults[at];
    waiting.times -= 1;
    let fault = waiting.fault.clone();
    if waiting.times == 0 {
        faults.remove(at);
    }
    Some(fault)
}

type Answer = (String, Vec<(String, String)>, Vec<u8>);

/// Passes the request to `git http-backend`, as CGI does.
fn run_backend(shared: &Shared, request: &Incoming) -> io::Result<Answer> {
    let (path, query) = request.path_and_query();
    let mut backend = Command::new("git");
    backend
        .arg("http-backend")
        .current_dir(&shared.root)
        .env_clear()
        .envs(sealed_environment(&shared.root))
        .env("GIT_PROJECT_ROOT", &shared.root)
        .env("GIT_HTTP_EXPORT_ALL", "1")
        .env("REQUEST_METHOD", &request.method)
        .env("PATH_INFO", path)
        .env("QUERY_STRING", query)
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env(
            "CONTENT_TYPE",
            request.header("content-type").unwrap_or_default(),
        )
        .env("REMOTE_ADDR", "127.0.0.1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    for (header, variable) in [
        ("content-encoding", "HTTP_CONTENT_ENCODING"),
        ("git-protocol", "GIT_PROTOCOL"),
    ] {
        if let Some(value) = request.header(header) {
            backend.env(variable, value);
        }
    }
    let mut child = backend.spawn()?;
    let mut stdin = child.stdin.take().expect("piped");
    let mut output = Vec::new();
    thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(&request.body)));
        child.stdout.take().expect("piped").read_to_end(&mut output)
    })?;
    child.wait()?;
    Ok(parse_cgi(&output))
}

fn parse_cgi(output: &[u8]) -> Answer {
    let end = output
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .unwrap_or(output.len());
    let (head, body) = (&output[..end], output.get(end + 4..).unwrap_or_default());
    let mut status = "200 OK".to_owned();
    let mut headers = Vec::new();
    for line in String::from_utf8_lossy(head).lines() {
        match line.split_once(':') {
            Some(("Status", value)) => value.trim().clone_into(&mut status),
            Some((name, value)) => headers.push((name.to_owned(), value.trim().to_owned())),
            None => {}
        }
    }
    (status, headers, body.to_vec())
}
