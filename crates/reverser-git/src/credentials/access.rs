//! Credentials in the form that `git` takes them: configuration and variables in its environment,
//! and files in a private folder that lives as long as the command.

use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use secrecy::{ExposeSecret, SecretString};
use tempfile::TempDir;

use super::{Credentials, HttpLogin, Login, SshLogin};

/// The folders of credentials start with this, so that those of a killed process are found.
const PRIVATE_PREFIX: &str = "private-";

/// What one command gets. Dropping it removes its files.
pub(crate) struct Access {
    /// Keys and values for `GIT_CONFIG_COUNT`.
    pub(crate) config: Vec<(&'static str, SecretString)>,
    pub(crate) env: Vec<(&'static str, OsString)>,
    /// What to take out of everything that the command says.
    pub(crate) secrets: Vec<SecretString>,
    files: Option<TempDir>,
}

impl Credentials {
    /// Lays the credentials out for one command, below `folder`.
    pub(crate) fn access(&self, folder: &Path) -> io::Result<Access> {
        let mut access = Access {
            config: vec![],
            env: vec![],
            secrets: self.secrets(),
            files: None,
        };
        match &self.login {
            Login::Anonymous => {}
            Login::Http(login) => access.add_http(login, folder)?,
            Login::Ssh(login) => access.add_ssh(login, folder)?,
            Login::UserSsh(command) => access.add_user_ssh(command.as_deref()),
        }
        if let Some(proxy) = &self.proxy {
            access.config.push(("http.proxy", proxy.url.clone()));
            if let Some(hosts) = &proxy.no_proxy {
                access.env.push(("NO_PROXY", hosts.into()));
            }
        }
        Ok(access)
    }
}

impl Access {
    /// Removes what a killed process left behind. The caller owns `folder`.
    pub(crate) fn remove_leftovers(folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            if entry
                .file_name()
                .to_string_lossy()
                .starts_with(PRIVATE_PREFIX)
            {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    }

    fn add_http(&mut self, login: &HttpLogin, folder: &Path) -> io::Result<()> {
        if let Some(value) = &login.authorization {
            let header = format!("Authorization: {}", value.expose_secret());
            self.config.push(("http.extraHeader", header.into()));
        }
        if let Some(ca) = &login.ca {
            let path = self.file(folder, "ca.crt", ca, 0o600)?;
            self.config.push(("http.sslCAInfo", text(&path)?.into()));
        }
        if let Some(client) = &login.client {
            let certificate = self.file(folder, "tls.crt", &client.certificate, 0o600)?;
            let key = self.file(folder, "tls.key", client.key.expose_secret(), 0o600)?;
            self.config
                .push(("http.sslCert", text(&certificate)?.into()));
            self.config.push(("http.sslKey", text(&key)?.into()));
        }
        Ok(())
    }

    fn add_ssh(&mut self, login: &SshLogin, folder: &Path) -> io::Result<()> {
        let key = self.file(folder, "identity", login.private_key.expose_secret(), 0o600)?;
        let hosts = self.file(folder, "known_hosts", &login.known_hosts, 0o600)?;
        if let Some(passphrase) = &login.passphrase {
            // The key stays locked on disk: ssh asks this script, which only knows a variable.
            let script = "#!/bin/sh\nprintf '%s\\n' \"$GITOPS_REVERSER_PASSPHRASE\"\n";
            let askpass = self.file(folder, "askpass", script, 0o700)?;
            self.env.push(("SSH_ASKPASS", askpass.into()));
            self.env.push(("SSH_ASKPASS_REQUIRE", "force".into()));
            self.env.push((
                "GITOPS_REVERSER_PASSPHRASE",
                passphrase.expose_secret().into(),
            ));
        }
        // BatchMode would forbid the passphrase too; publickey alone never asks for more.
        let command = format!(
            "ssh -F /dev/null -i {key} -o IdentitiesOnly=yes -o IdentityAgent=none \
             -o PreferredAuthentications=publickey -o PasswordAuthentication=no \
             -o StrictHostKeyChecking=yes -o UpdateHostKeys=no \
             -o UserKnownHostsFile={hosts} -o GlobalKnownHostsFile=/dev/null \
             -o ConnectTimeout=20 -o ServerAliveInterval=15 -o ServerAliveCountMax=4 \
             -o NumberOfPasswordPrompts=1",
            key = quoted(text(&key)?),
            hosts = quoted(&ssh_quoted(text(&hosts)?)),
        );
        self.env.push(("GIT_SSH_COMMAND", command.into()));
        self.env.push(("GIT_SSH_VARIANT", "ssh".into()));
        Ok(())
    }

    /// The user's own configuration of ssh, without questions.
    fn add_user_ssh(&mut self, own: Option<&OsStr>) {
        let agent = std::env::var_os("SSH_AUTH_SOCK");
        self.env
            .extend(agent.map(|socket| ("SSH_AUTH_SOCK", socket)));
        if let Some(own) = own {
            self.env.push(("GIT_SSH_COMMAND", own.to_owned()));
            let variant = std::env::var_os("GIT_SSH_VARIANT");
            self.env
                .extend(variant.map(|variant| ("GIT_SSH_VARIANT", variant)));
            return;
        }
        let command = "ssh -o BatchMode=yes -o ConnectTimeout=20 -o ServerAliveInterval=15";
        self.env.push(("GIT_SSH_COMMAND", command.into()));
        self.env.push(("GIT_SSH_VARIANT", "ssh".into()));
    }

    fn file(&mut self, folder: &Path, name: &str, content: &str, mode: u32) -> io::Result<PathBuf> {
        let private = match &self.files {
            Some(private) => private,
            None => self.files.insert(
                tempfile::Builder::new()
                    .prefix(PRIVATE_PREFIX)
                    .permissions(Permissions::from_mode(0o700))
                    .tempdir_in(folder)?,
            ),
        };
        let path = private.path().join(name);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&path)?;
        file.write_all(content.as_bytes())?;
        Ok(path)
    }
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str()
        .ok_or_else(|| io::Error::other("the cache folder's path is not UTF-8"))
}

/// For the shell that runs `GIT_SSH_COMMAND`.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// For ssh's own option parser, which splits lists of files at spaces and expands `%`.
fn ssh_quoted(path: &str) -> String {
    format!("\"{}\"", path.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::credentials::test_keys::{PASSPHRASE, locked_key};
    use crate::remote_url::{RemoteUrl, Scheme};

    #[test]
    fn files_are_private_and_go_with_the_command() {
        let folder = tempfile::tempdir().unwrap();
        let remote = RemoteUrl::parse("git@host:x", Scheme::DEFAULT_ALLOWED).unwrap();
        let data = BTreeMap::from([
            ("identity".to_owned(), locked_key().into_bytes()),
            ("password".to_owned(), PASSPHRASE.into()),
            ("known_hosts".to_owned(), b"host ssh-ed25519 AAAA".to_vec()),
        ]);
        let credentials = Credentials::from_secret(&data, &remote).unwrap();
        let access = credentials.access(folder.path()).unwrap();
        let private = access.files.as_ref().unwrap().path().to_owned();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&private), 0o700);
        assert_eq!(mode(&private.join("identity")), 0o600);
        assert!(
            !fs::read_to_string(private.join("askpass"))
                .unwrap()
                .contains(PASSPHRASE)
        );
        drop(access);
        assert!(!private.exists());
    }

    #[test]
    fn leftovers_of_a_killed_process_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("private-abc")).unwrap();
        fs::create_dir(folder.path().join("clone.git")).unwrap();
        Access::remove_leftovers(folder.path()).unwrap();
        let left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        assert_eq!(left, ["clone.git"]);
    }
}
