//! The credentials that the person at the terminal already has: their credential helpers for HTTPS,
//! their keys and agent for SSH.

use std::path::Path;
use std::time::Duration;

use base64ct::{Base64, Encoding as _};
use secrecy::SecretString;

use super::{Credentials, HttpLogin, Login};
use crate::cancel::CancelToken;
use crate::process::{End, Git, Invocation, Limits};
use crate::remote_url::{RemoteUrl, Scheme};

/// A helper may open a browser and wait for a person.
const DEADLINE: Duration = Duration::from_mins(2);

impl Credentials {
    /// What the user's own Git would use. Nobody is asked: where there is nothing, it is anonymous.
    #[must_use]
    pub fn of_user(git: &Git, url: &RemoteUrl) -> Self {
        let login = match url.scheme() {
            Scheme::Ssh => Login::UserSsh,
            Scheme::Https => helper_login(git, url).unwrap_or_default(),
            Scheme::Http | Scheme::File | Scheme::Git => Login::Anonymous,
        };
        Self { login, proxy: None }
    }
}

fn helper_login(git: &Git, url: &RemoteUrl) -> Option<Login> {
    let ask = Invocation::new(Path::new("/"), ["credential", "fill"])
        .for_user()
        .stdin(format!("url={url}\n\n").into_bytes());
    let limits = Limits {
        deadline: DEADLINE,
        cancel: &CancelToken::new(),
    };
    let finished = git.run(ask, &limits).ok()?;
    if finished.end != End::Success {
        return None;
    }
    let answer = String::from_utf8(finished.stdout).ok()?;
    let field = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name));
    let (name, password) = (field("username=")?, field("password=")?);
    let encoded = Base64::encode_string(format!("{name}:{password}").as_bytes());
    Some(Login::Http(HttpLogin {
        authorization: Some(SecretString::from(format!("Basic {encoded}"))),
        parts: vec![password.to_owned().into(), encoded.into()],
        ..HttpLogin::default()
    }))
}
