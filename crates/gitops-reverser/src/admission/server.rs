//! The server that the API server asks: TLS, few connections, short waits.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::handler::Handler;
use crate::telemetry::Telemetry;
use crate::telemetry::facts::ConnectionRefused;

/// An API server keeps some tens; this is room for the API servers of a large cluster.
const CONNECTIONS: usize = 512;
/// A handshake takes milliseconds.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Longer than API servers keep a connection that they do not use (90 s): the one who asks hangs up,
/// because a question that meets a closed connection is lost.
const IDLE: Duration = Duration::from_mins(2);
/// How long questions that are under way may keep the process from ending.
const GRACE: Duration = Duration::from_secs(1);
/// How long to wait when no connection can be taken, for want of file descriptors.
const EXHAUSTED: Duration = Duration::from_millis(100);
/// What is read ahead of one connection, at most.
const BUFFER: usize = 64 * 1024;

/// Answers until it is told to end. Connections are accepted with the certificate of the moment, and
/// not before there is one.
pub(super) async fn serve(
    listener: TcpListener,
    mut tls: watch::Receiver<Option<Arc<ServerConfig>>>,
    handler: Handler,
    telemetry: Telemetry,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let open = Arc::new(Open::default());
    let mut tasks = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = tasks.join_next() => continue,
            accepted = accept(&listener, &mut tls) => accepted?,
        };
        let Some((stream, config)) = accepted else {
            tokio::time::sleep(EXHAUSTED).await;
            continue;
        };
        let Some(connection) = open.admit() else {
            telemetry.emit(ConnectionRefused {
                reason: "too many connections",
            });
            continue;
        };
        let serving = converse(
            stream,
            config,
            handler.clone(),
            connection,
            shutdown.clone(),
        );
        let telemetry = telemetry.clone();
        tasks.spawn(async move {
            if let Err(reason) = serving.await {
                telemetry.emit(ConnectionRefused { reason: &reason });
            }
        });
    }
    let all = async { while tasks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all).await;
    Ok(())
}

/// The next connection, and what it is accepted with; nothing if none could be taken.
async fn accept(
    listener: &TcpListener,
    tls: &mut watch::Receiver<Option<Arc<ServerConfig>>>,
) -> io::Result<Option<(TcpStream, Arc<ServerConfig>)>> {
    let gone = |_| io::Error::other("whoever has the certificates has ended");
    drop(tls.wait_for(Option::is_some).await.map_err(gone)?);
    let Ok((stream, _)) = listener.accept().await else {
        return Ok(None);
    };
    let config = tls.borrow_and_update().clone();
    Ok(config.map(|config| (stream, config)))
}

async fn converse(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    handler: Handler,
    connection: Connection,
    shutdown: CancellationToken,
) -> Result<(), String> {
    let over = async {
        tokio::select! {
            () = connection.state.close.cancelled() => {}
            () = shutdown.cancelled() => {}
        }
    };
    let mut over = std::pin::pin!(over);
    // Small answers, each waited for.
    let _ = stream.set_nodelay(true);
    let handshake = TlsAcceptor::from(config).accept(stream);
    let stream = tokio::select! {
        () = &mut over => return Ok(()),
        stream = tokio::time::timeout(HANDSHAKE, handshake) => stream
            .map_err(|_| "no TLS handshake in time".to_owned())?
            .map_err(|error| error.to_string())?,
    };
    let state = connection.state.clone();
    let service = service_fn(move |request| {
        let (handler, state) = (handler.clone(), state.clone());
        async move {
            let _busy = state.busy();
            Ok::<_, Infallible>(handler.answer(request).await)
        }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut serving = std::pin::pin!(serving);
    tokio::select! {
        // How a connection ends that was accepted is nobody's concern.
        _ = serving.as_mut() => return Ok(()),
        () = over => {}
    }
    serving.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(GRACE, serving).await;
    Ok(())
}

/// The connections that are open.
#[derive(Default)]
struct Open {
    states: Mutex<HashMap<u64, Arc<State>>>,
    last: AtomicU64,
}

/// One of them; dropping it makes room.
struct Connection {
    number: u64,
    state: Arc<State>,
    open: Arc<Open>,
}

struct State {
    /// Since when nobody asks; nothing while somebody does.
    idle_since: Mutex<Option<Instant>>,
    close: CancellationToken,
}

impl Open {
    /// Room for one more. Where there is none, the connection that has been idle for longest gives
    /// its own: so nobody can keep the API server out by connections that are not used.
    fn admit(self: &Arc<Self>) -> Option<Connection> {
        let mut states = self.states();
        if states.len() >= CONNECTIONS {
            let idle = states
                .iter()
                .filter_map(|(number, state)| Some((state.idle_since()?, *number)));
            let (_, number) = idle.min()?;
            if let Some(state) = states.remove(&number) {
                state.close.cancel();
            }
        }
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        let state = Arc::new(State {
            idle_since: Mutex::new(Some(Instant::now())),
            close: CancellationToken::new(),
        });
        states.insert(number, state.clone());
        drop(states);
        Some(Connection {
            number,
            state,
            open: self.clone(),
        })
    }

    fn states(&self) -> MutexGuard<'_, HashMap<u64, Arc<State>>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.open.states().remove(&self.number);
    }
}

impl State {
    fn idle_since(&self) -> Option<Instant> {
        *self
            .idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn set_idle(&self, since: Option<Instant>) {
        *self
            .idle_since
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn busy(self: &Arc<Self>) -> Busy {
        self.set_idle(None);
        Busy(self.clone())
    }
}

/// While this lives, somebody asks.
struct Busy(Arc<State>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set_idle(Some(Instant::now()));
    }
}
