//! The protocol of Redis, version 2: lists of bytes are asked, and trees of bytes answered.

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// Bytes, short or long.
    Bytes(Vec<u8>),
    /// A number.
    Number(i64),
    /// Nothing.
    Nothing,
    /// Several answers.
    List(Vec<Reply>),
    /// A refusal, in the words of the server.
    Refused(String),
}

/// What is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// The longest run of bytes that is taken: records are far smaller.
const LONGEST: usize = 1 << 20;
/// The longest list, and how deep lists may lie in lists.
const LONGEST_LIST: usize = 1 << 16;
const DEEPEST: usize = 8;
/// So much of a refusal is kept.
const REFUSAL: usize = 200;

impl Reply {
    pub(super) fn as_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn as_text(&self) -> Option<&str> {
        std::str::from_utf8(self.as_bytes()?).ok()
    }

    /// The answers of a list; none if it is something else.
    pub(super) fn list(&self) -> &[Reply] {
        match self {
            Self::List(list) => list,
            _ => &[],
        }
    }
}

/// A command as bytes, appended.
pub(super) fn write_command(command: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
    for word in command {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The first answer in the bytes and how long it is; nothing if it is not all there.
pub(super) fn read_reply(bytes: &[u8]) -> Result<Option<(Reply, usize)>, Malformed> {
    let mut rest = bytes;
    let reply = read(&mut rest, DEEPEST)?;
    Ok(reply.map(|reply| (reply, bytes.len() - rest.len())))
}

fn read(rest: &mut &[u8], depth: usize) -> Result<Option<Reply>, Malformed> {
    let Some(line) = line(rest)? else {
        return Ok(None);
    };
    let (kind, text) = line.split_first().ok_or(Malformed)?;
    let reply = match kind {
        b'+' => Reply::Bytes(text.to_vec()),
        b'-' => Reply::Refused(refusal(text)),
        b':' => Reply::Number(number(text)?),
        b'$' => return bytes(number(text)?, rest),
        b'*' => return list(number(text)?, rest, depth),
        _ => return Err(Malformed),
    };
    Ok(Some(reply))
}

/// It goes to logs and to status, so it is short and one line.
fn refusal(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let plain = text.chars().filter(|letter| !letter.is_control());
    plain.take(REFUSAL).collect()
}

fn line<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Malformed> {
    match rest.windows(2).position(|pair| pair == b"\r\n") {
        Some(end) => {
            let line = &rest[..end];
            *rest = &rest[end + 2..];
            Ok(Some(line))
        }
        None if rest.len() > LONGEST => Err(Malformed),
        None => Ok(None),
    }
}

fn number(text: &[u8]) -> Result<i64, Malformed> {
    let text = std::str::from_utf8(text).map_err(|_| Malformed)?;
    text.parse().map_err(|_| Malformed)
}

fn bytes(length: i64, rest: &mut &[u8]) -> Result<Option<Reply>, Malformed> {
    if length == -1 {
        return Ok(Some(Reply::Nothing));
    }
    let length = usize::try_from(length).map_err(|_| Malformed)?;
    if length > LONGEST {
        return Err(Malformed);
    }
    let Some(bytes) = rest.get(..length + 2) else {
        return Ok(None);
    };
    let (bytes, end) = bytes.split_at(length);
    if end != b"\r\n" {
        return Err(Malformed);
    }
    *rest = &rest[length + 2..];
    Ok(Some(Reply::Bytes(bytes.to_vec())))
}

fn list(length: i64, rest: &mut &[u8], depth: usize) -> Result<Option<Reply>, Malformed> {
    if length == -1 {
        return Ok(Some(Reply::Nothing));
    }
    let length = usize::try_from(length).map_err(|_| Malformed)?;
    if length > LONGEST_LIST || depth == 0 {
        return Err(Malformed);
    }
    let mut list = Vec::new();
    for _ in 0..length {
        match read(rest, depth - 1)? {
            Some(reply) => list.push(reply),
            None => return Ok(None),
        }
    }
    Ok(Some(Reply::List(list)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_lists_of_bytes_with_their_lengths() {
        let mut bytes = Vec::new();
        write_command(&[b"XADD", "ü".as_bytes()], &mut bytes);
        assert_eq!(bytes, "*2\r\n$4\r\nXADD\r\n$2\r\nü\r\n".as_bytes());
    }

    #[test]
    fn an_answer_is_read_when_all_of_it_is_there() {
        let bytes = b"*3\r\n$1\r\na\r\n:-7\r\n*2\r\n$-1\r\n+OK\r\n-ERR no\r\n";
        let whole = bytes.len() - b"-ERR no\r\n".len();
        for end in 0..whole {
            assert_eq!(read_reply(&bytes[..end]), Ok(None), "{end}");
        }
        let (reply, length) = read_reply(bytes).unwrap().unwrap();
        assert_eq!(length, whole);
        let inner = Reply::List(vec![Reply::Nothing, Reply::Bytes(b"OK".into())]);
        let expected = vec![Reply::Bytes(b"a".into()), Reply::Number(-7), inner];
        assert_eq!(reply, Reply::List(expected));
        let refused = read_reply(&bytes[whole..]).unwrap().unwrap().0;
        assert_eq!(refused, Reply::Refused("ERR no".into()));
    }

    #[test]
    fn what_is_no_answer_is_refused_and_nothing_is_too_large() {
        let nested = "*1\r\n".repeat(10_000);
        for bytes in [
            &b"HTTP/1.1 400\r\n"[..],
            b"\r\n",
            b"$-2\r\n",
            b"$9999999999\r\n",
            b"*9999999999\r\n",
            b"$1\r\nab\r\n",
            b":x\r\n",
            nested.as_bytes(),
        ] {
            assert_eq!(read_reply(bytes), Err(Malformed), "{:?}", &bytes[..2]);
        }
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..10_000 {
            let bytes: Vec<u8> = (0..random.usize(..30))
                .map(|_| *random.choice(b"*$+-:12\r\na".iter()).unwrap())
                .collect();
            let _ = read_reply(&bytes);
        }
    }
}
