//! The servers for metrics and probes.

use std::future::IntoFuture as _;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::telemetry::Telemetry;

/// What Prometheus takes for the text format that we write.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a connection may keep the process from ending.
const GRACE: Duration = Duration::from_secs(1);

/// A server could not be given its address.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}; write another address in --{flag}")]
pub struct BindError {
    /// The flag that names the address, without its dashes.
    pub flag: &'static str,
    /// The address.
    pub address: SocketAddr,
    /// What the system says.
    #[source]
    pub source: io::Error,
}

/// Whether the operator does its work, as `/readyz` says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Readiness {
    /// It does.
    Ready,
    /// It does not, for this reason, which everyone may read.
    NotReady(String),
}

/// Takes an address. Every interface means those of IPv4 where a machine has no IPv6.
pub async fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, BindError> {
    let failed = |source| BindError {
        flag,
        address,
        source,
    };
    match TcpListener::bind(address).await {
        Err(error)
            if address.ip() == Ipv6Addr::UNSPECIFIED
                && error.kind() != io::ErrorKind::AddrInUse =>
        {
            let every_ipv4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, address.port()));
            TcpListener::bind(every_ipv4).await.map_err(failed)
        }
        result => result.map_err(failed),
    }
}

/// Serves `/metrics` until it is told to end.
pub async fn serve_metrics(
    listener: TcpListener,
    registry: Arc<Registry>,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .with_state(registry);
    serve(listener, router, shutdown).await
}

/// Serves `/healthz` and `/readyz` until it is told to end.
pub async fn serve_probes(
    listener: TcpListener,
    readiness: watch::Receiver<Readiness>,
    telemetry: Telemetry,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let probed = Router::new()
        .route("/readyz", get(ready))
        .with_state(readiness);
    let router = Router::new()
        .route("/healthz", get(healthy))
        .with_state(telemetry)
        .merge(probed);
    serve(listener, router, shutdown).await
}

async fn metrics(State(registry): State<Arc<Registry>>) -> impl IntoResponse {
    let mut scrape = String::new();
    match text::encode(&mut scrape, &registry) {
        Ok(()) => Ok(([(header::CONTENT_TYPE, OPEN_METRICS)], scrape)),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"))),
    }
}

/// That it answers at all is half of the answer: a runtime that hangs does not.
async fn healthy(State(telemetry): State<Telemetry>) -> impl IntoResponse {
    match telemetry.state().stuck(Instant::now()) {
        None => (StatusCode::OK, "ok\n".to_owned()),
        Some(what) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{what}\n")),
    }
}

async fn ready(State(readiness): State<watch::Receiver<Readiness>>) -> impl IntoResponse {
    match &*readiness.borrow() {
        Readiness::Ready => (StatusCode::OK, "ok\n".to_owned()),
        Readiness::NotReady(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")),
    }
}

async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let until = shutdown.clone().cancelled_owned();
    let server = axum::serve(listener, router).with_graceful_shutdown(until);
    tokio::select! {
        result = server.into_future() => result,
        () = after(shutdown, GRACE) => Ok(()),
    }
}

async fn after(shutdown: CancellationToken, grace: Duration) {
    shutdown.cancelled().await;
    tokio::time::sleep(grace).await;
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::telemetry::metrics;
    use crate::telemetry::state::OperatorState;

    struct Server {
        address: SocketAddr,
        shutdown: CancellationToken,
        task: JoinHandle<io::Result<()>>,
    }

    impl Server {
        async fn start<F, S>(serve: S) -> Self
        where
            F: Future<Output = io::Result<()>> + Send + 'static,
            S: FnOnce(TcpListener, CancellationToken) -> F,
        {
            let listener = bind("flag", ([127, 0, 0, 1], 0).into()).await.unwrap();
            let address = listener.local_addr().unwrap();
            let shutdown = CancellationToken::new();
            let task = tokio::spawn(serve(listener, shutdown.clone()));
            Self {
                address,
                shutdown,
                task,
            }
        }

        async fn get(&self, path: &str) -> String {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }

        async fn stop(self) {
            self.shutdown.cancel();
            let ended = tokio::time::timeout(GRACE * 2, self.task).await;
            ended.expect("it ends in time").unwrap().unwrap();
        }
    }

    fn telemetry() -> Telemetry {
        Telemetry::register(&mut metrics::registry())
    }

    #[tokio::test]
    async fn an_operator_that_hangs_is_not_alive() {
        let (_say, readiness) = watch::channel(Readiness::Ready);
        let telemetry = telemetry();
        let told = telemetry.clone();
        let server =
            Server::start(|listener, end| serve_probes(listener, readiness, told, end)).await;
        assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200"));
        let hung = Instant::now().checked_sub(Duration::from_mins(10)).unwrap();
        telemetry.read_state_from(move || OperatorState {
            last_round: Some(hung),
            ..OperatorState::default()
        });
        let answer = server.get("/healthz").await;
        assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
        assert!(
            answer.contains("the operator's loop has not gone round"),
            "{answer}"
        );
        server.stop().await;
    }

    #[tokio::test]
    async fn metrics_are_served_as_open_metrics() {
        let mut registry = metrics::registry();
        let _telemetry = Telemetry::register(&mut registry);
        let registry = Arc::new(registry);
        let server = Server::start(|listener, end| serve_metrics(listener, registry, end)).await;
        let answer = server.get("/metrics").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(
            answer.contains(&format!("content-type: {OPEN_METRICS}\r\n")),
            "{answer}"
        );
        assert!(
            answer.contains("\ngitopsreverser_commits_total 0\n"),
            "{answer}"
        );
        assert!(server.get("/else").await.starts_with("HTTP/1.1 404"));
        server.stop().await;
    }

    #[tokio::test]
    async fn readiness_follows_the_operator_and_says_why_not() {
        let (say, readiness) = watch::channel(Readiness::NotReady("listing rules".into()));
        let server =
            Server::start(|listener, end| serve_probes(listener, readiness, telemetry(), end))
                .await;
        let answer = server.get("/readyz").await;
        assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
        assert!(answer.ends_with("\r\n\r\nlisting rules\n"), "{answer}");
        assert!(server.get("/healthz").await.ends_with("\r\n\r\nok\n"));
        say.send_replace(Readiness::Ready);
        assert!(
            server
                .get("/readyz")
                .await
                .starts_with("HTTP/1.1 200 OK\r\n")
        );
        server.stop().await;
    }

    #[tokio::test]
    async fn a_client_that_says_nothing_keeps_nobody_from_ending() {
        let (_say, readiness) = watch::channel(Readiness::Ready);
        let server =
            Server::start(|listener, end| serve_probes(listener, readiness, telemetry(), end))
                .await;
        let mut idle = TcpStream::connect(server.address).await.unwrap();
        idle.write_all(b"GET /healthz HTTP/1.1\r\nHost:")
            .await
            .unwrap();
        assert!(server.get("/healthz").await.starts_with("HTTP/1.1 200"));
        server.stop().await;
        drop(idle);
    }

    #[tokio::test]
    async fn an_address_that_is_taken_names_the_flag() {
        let taken = bind("flag", ([127, 0, 0, 1], 0).into()).await.unwrap();
        let address = taken.local_addr().unwrap();
        let error = bind("metrics-bind-address", address).await.unwrap_err();
        let sentence = error.to_string();
        assert!(
            sentence.starts_with(&format!("cannot listen on {address}: ")),
            "{sentence}"
        );
        let ends = "; write another address in --metrics-bind-address";
        assert!(sentence.ends_with(ends), "{sentence}");
    }

    #[tokio::test]
    async fn every_interface_is_that_of_ipv4_too() {
        let listener = bind("flag", (Ipv6Addr::UNSPECIFIED, 0).into())
            .await
            .unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect((Ipv4Addr::LOCALHOST, port))
            .await
            .unwrap();
    }
}
