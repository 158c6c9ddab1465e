//! Connections to the API server: as kube makes them, but for one setting, and without its spans.

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

/// Builds a client whose questions leave at once.
///
/// kube lets TCP hold a small packet back until the one before it is acknowledged, which a server may
/// put off for 40 ms. The first question on a connection always follows another small packet, the last
/// of the handshake: with a dozen connections, a start would mostly wait.
pub(super) fn connect(config: &kube::Config) -> Result<kube::Client, kube::Error> {
    // A proxy is never left out: kube says that this program was built without that.
    if config.proxy_url.is_some() {
        return kube::Client::try_from(config.clone());
    }
    // A process that has chosen another keeps it.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let mut connector = TimeoutConnector::new(connector);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let client: legacy::Client<_, Body> =
        legacy::Builder::new(TokioExecutor::new()).build(connector);
    let retries = config
        .default_retry
        .then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retries)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(client);
    Ok(ClientBuilder::new(service, &config.default_namespace).build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_asks_for_a_proxy_is_not_connected_past_it() {
        let mut config = kube::Config::new("https://127.0.0.1:6443".parse().unwrap());
        assert!(connect(&config).is_ok());
        for proxy in ["http://proxy.example:3128", "socks5://proxy.example:1080"] {
            config.proxy_url = Some(proxy.parse().unwrap());
            let error = connect(&config).err().unwrap().to_string();
            assert!(error.contains("proxy"), "{error}");
        }
    }
}
