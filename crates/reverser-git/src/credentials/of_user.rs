//! The credentials that the person at the terminal already has: their credential helpers for HTTPS,
//! their keys, agent and ssh command for SSH, and the authority that they trust.

use std::ffi::OsString;
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
            Scheme::Ssh => Login::UserSsh(ssh_command(git)),
            Scheme::Https => https_login(git, url),
            Scheme::Http | Scheme::File | Scheme::Git => Login::Anonymous,
        };
        Self { login, proxy: None }
    }
}

/// The command that the user has chosen; nothing is added to it, because it may be any program.
fn ssh_command(git: &Git) -> Option<OsString> {
    let chosen = std::env::var_os("GIT_SSH_COMMAND").filter(|command| !command.is_empty());
    chosen.or_else(|| Some(config(git, &["--get", "core.sshCommand"])?.into()))
}

fn https_login(git: &Git, url: &RemoteUrl) -> Login {
    let named = std::env::var("GIT_SSL_CAINFO").ok();
    let named = named.filter(|path| !path.is_empty()).or_else(|| {
        let question = [
            "--type=path",
            "--get-urlmatch",
            "http.sslCAInfo",
            url.as_str(),
        ];
        config(git, &question)
    });
    // One that cannot be read is one that the server's certificate is not of, as git will say.
    let ca = named.and_then(|path| std::fs::read_to_string(path).ok());
    match helper_login(git, url) {
        None if ca.is_none() => Login::Anonymous,
        login => Login::Http(HttpLogin {
            ca,
            ..login.unwrap_or_default()
        }),
    }
}

/// What the user's own configuration says.
fn config(git: &Git, question: &[&str]) -> Option<String> {
    let arguments = std::iter::once("config").chain(question.iter().copied());
    let answer = ask(git, Invocation::new(Path::new("/"), arguments))?;
    Some(answer.trim_end_matches('\n').to_owned()).filter(|value| !value.is_empty())
}

fn ask(git: &Git, question: Invocation<'_>) -> Option<String> {
    let limits = Limits {
        deadline: DEADLINE,
        cancel: &CancelToken::new(),
    };
    let finished = git.run(question.for_user(), &limits).ok()?;
    if finished.end != End::Success {
        return None;
    }
    String::from_utf8(finished.stdout).ok()
}

fn helper_login(git: &Git, url: &RemoteUrl) -> Option<HttpLogin> {
    let question = Invocation::new(Path::new("/"), ["credential", "fill"]);
    let answer = ask(git, question.stdin(format!("url={url}\n\n").into_bytes()))?;
    let field = |name: &str| answer.lines().find_map(|line| line.strip_prefix(name));
    let (name, password) = (field("username=")?, field("password=")?);
    let encoded = Base64::encode_string(format!("{name}:{password}").as_bytes());
    Some(HttpLogin {
        authorization: Some(SecretString::from(format!("Basic {encoded}"))),
        parts: vec![password.to_owned().into(), encoded.into()],
        ..HttpLogin::default()
    })
}
