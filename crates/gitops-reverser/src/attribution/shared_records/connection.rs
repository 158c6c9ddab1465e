//! One connection to the store: commands go out together, and their answers are awaited together.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use secrecy::ExposeSecret as _;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::address::{Login, StoreAddress};
use super::resp::{Reply, read_reply, write_command};

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("it does not answer in time")]
    Late,
    #[error("it says: {0}")]
    Refused(String),
    /// Its sentence is not repeated: a server that does not know the command quotes the password.
    #[error("it does not let us in ({0}): check username and password")]
    NotLetIn(String),
    #[error("what it says is not the protocol of Redis")]
    Strange,
    /// What is wrong on our side.
    #[error("{0}")]
    Unusable(String),
}

trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

pub(super) struct Connection {
    stream: Box<dyn Bytes>,
    read: Vec<u8>,
}

impl Connection {
    /// Connects, and says who we are.
    pub(super) async fn open(
        address: &StoreAddress,
        deadline: Duration,
    ) -> Result<Self, StoreError> {
        let opening = Self::open_stream(address);
        let stream = tokio::time::timeout(deadline, opening).await;
        let mut connection = Self {
            stream: stream.map_err(|_| StoreError::Late)??,
            read: Vec::new(),
        };
        connection.log_in(address, deadline).await?;
        if address.database != 0 {
            let database = address.database.to_string();
            let select: &[&[u8]] = &[b"SELECT", database.as_bytes()];
            connection.ask(&[select], deadline).await?;
        }
        Ok(connection)
    }

    async fn open_stream(address: &StoreAddress) -> Result<Box<dyn Bytes>, StoreError> {
        let tcp = TcpStream::connect((address.host.as_str(), address.port)).await?;
        tcp.set_nodelay(true)?;
        if !address.tls {
            return Ok(Box::new(tcp));
        }
        let config = address.tls_config().map_err(StoreError::Unusable)?;
        let name = ServerName::try_from(address.host.clone());
        let name = name.map_err(|error| StoreError::Unusable(error.to_string()))?;
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Box::new(connector.connect(name, tcp).await?))
    }

    async fn log_in(
        &mut self,
        address: &StoreAddress,
        deadline: Duration,
    ) -> Result<(), StoreError> {
        let Login { username, password } = address.login().map_err(StoreError::Unusable)?;
        let Some(password) = password else {
            return Ok(());
        };
        let mut auth: Vec<&[u8]> = vec![b"AUTH"];
        auth.extend(username.as_deref().map(str::as_bytes));
        auth.push(password.expose_secret().as_bytes());
        match self.ask(&[&auth], deadline).await {
            Err(StoreError::Refused(why)) => {
                let word = why.split_whitespace().next().unwrap_or_default();
                Err(StoreError::NotLetIn(word.to_owned()))
            }
            result => result.map(drop),
        }
    }

    /// The answers to all commands; the first refusal is an error, after which the connection can
    /// still be used.
    pub(super) async fn ask(
        &mut self,
        commands: &[&[&[u8]]],
        deadline: Duration,
    ) -> Result<Vec<Reply>, StoreError> {
        let mut bytes = Vec::new();
        for command in commands {
            write_command(command, &mut bytes);
        }
        let asking = async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await?;
            let mut replies = Vec::with_capacity(commands.len());
            while replies.len() < commands.len() {
                replies.push(self.reply().await?);
            }
            Ok::<_, StoreError>(replies)
        };
        let answer = tokio::time::timeout(deadline, asking).await;
        let replies = answer.map_err(|_| StoreError::Late)??;
        let refused = replies.iter().find_map(|reply| match reply {
            Reply::Refused(why) => Some(why.clone()),
            _ => None,
        });
        match refused {
            Some(why) => Err(StoreError::Refused(why)),
            None => Ok(replies),
        }
    }

    async fn reply(&mut self) -> Result<Reply, StoreError> {
        loop {
            let found = read_reply(&self.read).map_err(|_| StoreError::Strange)?;
            if let Some((reply, length)) = found {
                self.read.drain(..length);
                return Ok(reply);
            }
            if self.stream.read_buf(&mut self.read).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}
