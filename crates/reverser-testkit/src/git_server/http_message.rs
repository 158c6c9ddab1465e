//! As much of HTTP/1.1 as `git` and `git http-backend` need.

use std::io::{self, BufRead, Read, Write};

/// A request with its whole body: git sends large packs without a length, and CGI wants one.
#[derive(Debug, Default)]
pub(super) struct Incoming {
    pub(super) method: String,
    /// As it stands in the first line: a proxy sees a whole URL.
    pub(super) target: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Incoming {
    /// Reads one request; `None` if the client has closed the connection.
    pub(super) fn read(stream: &mut (impl BufRead + Write)) -> io::Result<Option<Self>> {
        let mut first = String::new();
        if stream.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let mut words = first.split_whitespace().map(str::to_owned);
        let mut request = Self {
            method: words.next().unwrap_or_default(),
            target: words.next().unwrap_or_default(),
            ..Self::default()
        };
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line)? == 0 {
                return Ok(None);
            }
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            request
                .headers
                .push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        if request
            .header("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
        {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
            stream.flush()?;
        }
        request.body = request.read_body(stream)?;
        Ok(Some(request))
    }

    fn read_body(&self, stream: &mut impl BufRead) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if self
            .header("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"))
        {
            loop {
                let mut size = String::new();
                stream.read_line(&mut size)?;
                let size = u64::from_str_radix(size.trim(), 16).map_err(io::Error::other)?;
                stream.by_ref().take(size).read_to_end(&mut body)?;
                stream.read_line(&mut String::new())?;
                if size == 0 {
                    return Ok(body);
                }
            }
        }
        let length = self
            .header("content-length")
            .and_then(|value| value.parse().ok())
            .unwrap_or(0);
        stream.take(length).read_to_end(&mut body)?;
        Ok(body)
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// Path and query, without the scheme and host that a proxy is given.
    pub(super) fn path_and_query(&self) -> (&str, &str) {
        let target = match self.target.split_once("://") {
            Some((_, rest)) => rest.find('/').map_or("/", |at| &rest[at..]),
            None => self.target.as_str(),
        };
        target.split_once('?').unwrap_or((target, ""))
    }
}

/// Writes an answer whose length is known.
pub(super) fn write_answer(
    stream: &mut impl Write,
    status: &str,
    headers: &[(String, String)],
    body: &[u8],
) -> io::Result<()> {
    write!(stream, "HTTP/1.1 {status}\r\n")?;
    for (name, value) in headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    write!(stream, "Content-Length: {}\r\n\r\n", body.len())?;
    stream.write_all(body)?;
    stream.flush()
}
