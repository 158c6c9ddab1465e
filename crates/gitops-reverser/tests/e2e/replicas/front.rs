//! The Service of the webhook, which the API server reaches by one URL, whichever replica answers.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use reverser_testkit::control_plane::ControlPlane;
use reverser_testkit::control_plane::User;
use reverser_testkit::ports::Port;
use reverser_testkit::service::Service;
use tokio::runtime::Builder;

/// How soon a Service knows of a change.
const PAUSE: Duration = Duration::from_millis(100);
/// A replica that does not answer in this time is not ready.
const PROBE: Duration = Duration::from_secs(1);

/// Whom a Service selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Selects {
    /// The ready replica whose pod has the label of the leader.
    Leader,
    /// Every ready replica.
    Everyone,
    /// There is no Service: each replica says how it is reached.
    Nobody,
}

/// Where one replica listens.
struct Doors {
    webhook: Port,
    probes: Port,
}

/// A Service, and the ports behind it.
pub(crate) struct Front {
    service: Arc<Service>,
    doors: Arc<Mutex<Vec<Doors>>>,
    selects: Selects,
    over: Arc<AtomicBool>,
    following: Option<JoinHandle<()>>,
}

impl Front {
    /// For pods of a namespace.
    pub(crate) fn open(plane: &ControlPlane, namespace: &str, selects: Selects) -> Self {
        let service = Arc::new(Service::start().unwrap());
        let doors: Arc<Mutex<Vec<Doors>>> = Arc::default();
        let over = Arc::new(AtomicBool::new(false));
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let config = plane.kube_config(User::Admin);
        let pods: Api<Pod> = runtime.block_on(async {
            Api::namespaced(kube::Client::try_from(config).unwrap(), namespace)
        });
        let leaders = move || -> Vec<String> {
            let labelled = ListParams::default().labels("configbutler.ai/leader=true");
            let pods = runtime.block_on(pods.list(&labelled));
            let pods = pods.map(|pods| pods.items).unwrap_or_default();
            let names = pods.into_iter().filter_map(|pod| pod.metadata.name);
            names.collect()
        };
        let (followed, known, end) = (service.clone(), doors.clone(), over.clone());
        let following = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let replicas: Vec<(u16, u16)> = {
                    let doors = known.lock().unwrap_or_else(PoisonError::into_inner);
                    let numbers = doors.iter();
                    numbers
                        .map(|doors| (doors.webhook.number(), doors.probes.number()))
                        .collect()
                };
                let leaders = (selects == Selects::Leader).then(&leaders);
                let selected = replicas.iter().enumerate().filter(|(number, (_, probes))| {
                    let pod = format!("replica-{number}");
                    leaders
                        .as_ref()
                        .is_none_or(|leaders| leaders.contains(&pod))
                        && is_ready(*probes)
                });
                let at = |webhook| SocketAddr::from((Ipv4Addr::LOCALHOST, webhook));
                followed.select(selected.map(|(_, (webhook, _))| at(*webhook)).collect());
                std::thread::sleep(PAUSE);
            }
        });
        Self {
            service,
            doors,
            selects,
            over,
            following: Some(following),
        }
    }

    /// The flags of the next replica.
    pub(crate) fn flags(&self) -> Vec<String> {
        let doors = Doors {
            webhook: Port::reserve().unwrap(),
            probes: Port::reserve().unwrap(),
        };
        let (webhook, probes) = (doors.webhook.number(), doors.probes.number());
        self.doors.lock().unwrap().push(doors);
        let reached = match self.selects {
            Selects::Leader | Selects::Everyone => self.service.port(),
            Selects::Nobody => webhook,
        };
        vec![
            format!("--webhook-bind-address=127.0.0.1:{webhook}"),
            format!("--health-probe-bind-address=127.0.0.1:{probes}"),
            format!("--webhook-url={}", url(reached)),
        ]
    }

    /// The URL of a replica's own webhook.
    pub(crate) fn url_of(&self, replica: usize) -> String {
        url(self.doors.lock().unwrap()[replica].webhook.number())
    }

    /// Whether a replica says that it is ready.
    pub(crate) fn is_ready(&self, replica: usize) -> bool {
        is_ready(self.doors.lock().unwrap()[replica].probes.number())
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(following) = self.following.take() {
            let _ = following.join();
        }
    }
}

fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}/process-validating-webhook")
}

fn is_ready(probes: u16) -> bool {
    let ask = || -> std::io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, probes));
        let mut stream = TcpStream::connect_timeout(&address, PROBE)?;
        stream.set_read_timeout(Some(PROBE))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: replica\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
