//! What a Service does with connections: each goes to one of the pods that it selects at that moment,
//! and stays there.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::ports::Port;

/// A port of the loopback whose connections go to others. It listens as long as the process lives.
#[derive(Debug)]
pub struct Service {
    port: Port,
    pods: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Service {
    /// Selects nobody yet: connections are closed.
    pub fn start() -> io::Result<Self> {
        let port = Port::reserve()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number()))?;
        let pods: Arc<Mutex<Vec<SocketAddr>>> = Arc::default();
        let selected = pods.clone();
        thread::Builder::new()
            .name("service".to_owned())
            .spawn(move || {
                for client in listener.incoming().flatten() {
                    let pods = selected.clone();
                    thread::spawn(move || forward(client, &pods));
                }
            })?;
        Ok(Self { port, pods })
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// New connections go to these from now on, in turn.
    pub fn select(&self, pods: Vec<SocketAddr>) {
        *self.pods.lock().unwrap_or_else(PoisonError::into_inner) = pods;
    }
}

fn forward(client: TcpStream, pods: &Mutex<Vec<SocketAddr>>) {
    let pod = {
        let mut pods = pods.lock().unwrap_or_else(PoisonError::into_inner);
        if pods.is_empty() {
            return;
        }
        pods.rotate_left(1);
        pods[0]
    };
    let Ok(server) = TcpStream::connect(pod) else {
        return;
    };
    // What breaks on one side ends on the other.
    let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    thread::spawn(move || pipe(from_client, to_server));
    pipe(server, client);
}

fn pipe(mut from: TcpStream, mut to: TcpStream) {
    let _ = from.set_nodelay(true);
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// Says its name to everyone who comes.
    fn pod(name: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for mut client in listener.incoming().flatten() {
                io::Write::write_all(&mut client, name).unwrap();
            }
        });
        address
    }

    fn ask(service: &Service) -> String {
        let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, service.port())).unwrap();
        let mut said = String::new();
        let _ = client.read_to_string(&mut said);
        said
    }

    #[test]
    fn connections_go_to_those_who_are_selected_in_turn() {
        let service = Service::start().unwrap();
        assert_eq!(ask(&service), "");
        service.select(vec![pod(b"a"), pod(b"b")]);
        let said: String = (0..4).map(|_| ask(&service)).collect();
        assert_eq!(said.matches('a').count(), 2, "{said}");
        service.select(vec![pod(b"c")]);
        assert_eq!(ask(&service), "c");
    }
}
