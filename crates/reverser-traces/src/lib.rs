//! Sends spans to a collector, by OTLP over HTTP.
//!
//! A crate of its own, because few need it and its dependencies are many: the operator has it only in
//! builds with the feature `otlp`.

use std::env;
use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    ExporterBuildError, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::registry::LookupSpan;

/// How long a collector may take to answer, and how long it is waited for at the end.
const PATIENCE: Duration = Duration::from_secs(5);
/// More than a collector has to say.
const LONGEST_ANSWER: usize = 64 << 10;

/// Spans on their way to a collector. What waits is sent when this is dropped.
pub struct Traces {
    provider: SdkTracerProvider,
}

/// Why there are no traces.
#[derive(Debug, thiserror::Error)]
#[error("traces cannot be sent: {0}; correct the variables whose names begin with OTEL_")]
pub struct TracesError(#[from] ExporterBuildError);

impl Traces {
    /// Begins to send to this address, such as `http://collector:4318/v1/traces`. The runtime must go on
    /// until this is dropped. All but the address can be said by the variables of OpenTelemetry.
    pub fn to(address: &str, version: &'static str, runtime: &Handle) -> Result<Self, TracesError> {
        let exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(Collector::new(runtime))
            .with_endpoint(address)
            .build()?;
        let mut resource =
            Resource::builder().with_attribute(KeyValue::new("service.version", version));
        if env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("gitops-reverser");
        }
        let provider = SdkTracerProvider::builder()
            .with_batch_exporter(exporter)
            .with_resource(resource.build())
            .build();
        Ok(Self { provider })
    }

    /// What takes the spans of a target, and nothing of the log.
    #[must_use]
    pub fn layer<S>(&self, target: &'static str) -> impl Layer<S> + Send + Sync + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let only = Targets::new().with_target(target, LevelFilter::TRACE);
        tracing_opentelemetry::layer()
            .with_tracer(self.provider.tracer("gitops-reverser"))
            .with_filter(only)
    }
}

impl Drop for Traces {
    fn drop(&mut self) {
        // A collector that is gone does not keep anybody from ending.
        let _ = self.provider.shutdown_with_timeout(PATIENCE);
    }
}

/// The way to the collector. The exporter has a thread of its own, and the client needs a runtime.
struct Collector {
    client: Client<HttpConnector, Full<Bytes>>,
    runtime: Handle,
}

impl Collector {
    fn new(runtime: &Handle) -> Self {
        Self {
            client: Client::builder(TokioExecutor::new()).build(HttpConnector::new()),
            runtime: runtime.clone(),
        }
    }
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        let exchange = async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            let body = Limited::new(body, LONGEST_ANSWER).collect().await?;
            Ok(Response::from_parts(head, body.to_bytes()))
        };
        self.runtime
            .spawn(async { tokio::time::timeout(PATIENCE, exchange).await })
            .await??
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::net::TcpListener;
    use std::thread;

    use tokio::runtime::Runtime;
    use tracing::info_span;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Takes one message: the first line of its head, and its body.
    fn collect(listener: &TcpListener) -> (String, Vec<u8>) {
        let (stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream);
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if line.trim().is_empty() {
                break;
            }
            head.push(line.trim().to_ascii_lowercase());
        }
        let length = |line: &String| line.strip_prefix("content-length: ")?.parse().ok();
        let mut body = vec![0; head.iter().find_map(length).unwrap()];
        reader.read_exact(&mut body).unwrap();
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        reader.get_mut().write_all(answer).unwrap();
        (head.swap_remove(0), body)
    }

    /// What is sent of a batch that pushes, and of a line of the log in it.
    fn work(traces: &Traces) {
        let subscriber = tracing_subscriber::registry().with(traces.layer("spans"));
        tracing::subscriber::with_default(subscriber, || {
            let _batch = info_span!(target: "spans", "batch", branch = "production").entered();
            tracing::info!(target: "log", value = "confidential", "a line of the log");
            let _other = info_span!(target: "other", "nobody's").entered();
            let _push = info_span!(target: "spans", "push", commits = 3).entered();
        });
    }

    #[test]
    fn spans_arrive_at_a_collector_and_log_lines_do_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}/v1/traces", listener.local_addr().unwrap());
        let collector = thread::spawn(move || collect(&listener));
        let runtime = Runtime::new().unwrap();
        let traces = Traces::to(&address, "1.2.3", runtime.handle()).unwrap();
        work(&traces);
        drop(traces);
        let (head, body) = collector.join().unwrap();
        assert_eq!(head, "post /v1/traces http/1.1");
        let body = String::from_utf8_lossy(&body);
        for said in ["gitops-reverser", "1.2.3", "batch", "production", "push"] {
            assert!(body.contains(said), "{said} in {body}");
        }
        for unsaid in ["confidential", "a line of the log", "nobody's"] {
            assert!(!body.contains(unsaid), "{unsaid} in {body}");
        }
    }

    #[test]
    fn a_collector_that_is_gone_keeps_nobody_from_ending() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
        let address = format!("http://{}/v1/traces", gone.unwrap());
        let runtime = Runtime::new().unwrap();
        let traces = Traces::to(&address, "1.2.3", runtime.handle()).unwrap();
        work(&traces);
        drop(traces);
    }
}
