//! What the user's own Git would use to log in.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use reverser_testkit::certificates::Authority;
use reverser_testkit::command;
use reverser_testkit::git_server::{BareRepository, HttpFront, Sshd};
use reverser_testkit::wait;

use super::world::{SOON, World, run};

/// An agent that ends with the test.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write_private(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
}

fn pushed(repository: &BareRepository) -> usize {
    repository.files("main").len()
}

#[test]
fn a_key_in_the_users_agent_and_their_own_ssh_command_let_a_mirror_in() {
    let world = World::new("by-ssh");
    let folder = world.folder.path();
    let repository = BareRepository::create(folder, "repo.git");
    let server = Sshd::start();
    let url = server.url(repository.path());
    let socket = folder.join("agent");
    let agent = Command::new("ssh-agent")
        .args(["-D", "-a"])
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn();
    let _agent = Agent(agent.unwrap());
    wait::until_blocking("the agent", SOON, || {
        socket.exists().then_some(()).ok_or("no socket")
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let key = folder.join("key");
    write_private(&key, &server.key());
    command::run(
        Command::new("ssh-add")
            .arg("-q")
            .arg(&key)
            .env("SSH_AUTH_SOCK", &socket),
    );
    // From here on only the agent has it.
    fs::remove_file(&key).unwrap();
    let hosts = folder.join("hosts");
    write_private(&hosts, &server.known_hosts());
    let config = folder.join("ssh-config");
    let lines = format!(
        "BatchMode yes\nUserKnownHostsFile {}\nStrictHostKeyChecking yes\n",
        hosts.display()
    );
    write_private(&config, &lines);
    // As a person writes it once for all repositories.
    let command = format!("ssh -F {}", config.display());
    let own = format!("[core]\n\tsshCommand = {command}\n");
    fs::write(folder.join(".gitconfig"), own).unwrap();

    let arguments = ["mirror", "--once", "-n", &world.namespace, "--repo", &url];
    let refused = run(&mut world.binary(&arguments));
    assert_eq!(refused.code, Some(21), "{refused:?}");
    let let_in = run(world.binary(&arguments).env("SSH_AUTH_SOCK", &socket));
    assert_eq!(let_in.code, Some(0), "{let_in:?}");
    assert_eq!(pushed(&repository), 3);
    // And what the environment says comes first: this one trusts no host.
    let mut wrong = world.binary(&arguments);
    wrong.env("SSH_AUTH_SOCK", &socket).env(
        "GIT_SSH_COMMAND",
        "ssh -F /dev/null -o BatchMode=yes -o UserKnownHostsFile=/dev/null",
    );
    let wrong = run(&mut wrong);
    assert_eq!(wrong.code, Some(20), "{wrong:?}");
}

#[test]
fn a_credential_helper_and_the_authority_that_the_user_trusts_let_a_mirror_in() {
    let world = World::new("by-https");
    let folder = world.folder.path();
    let repository = BareRepository::create(folder, "repo.git");
    let authority = Authority::new("company").unwrap();
    let front = HttpFront::start_tls(folder, &authority);
    // alice and "open sesame", as a header carries them.
    front.require(&["Basic YWxpY2U6b3BlbiBzZXNhbWU="]);
    let url = front.url("repo.git");
    let helper = folder.join("helper");
    let script =
        "#!/bin/sh\n[ \"$1\" = get ] && printf 'username=alice\\npassword=open sesame\\n'\n";
    fs::write(&helper, script).unwrap();
    fs::set_permissions(&helper, fs::Permissions::from_mode(0o755)).unwrap();
    let trusted = folder.join("company.pem");
    fs::write(&trusted, authority.pem()).unwrap();
    let configure = |lines: &str| fs::write(folder.join(".gitconfig"), lines).unwrap();
    let arguments = ["mirror", "--once", "-n", &world.namespace, "--repo", &url];

    let login = format!("[credential]\n\thelper = {}\n", helper.display());
    configure(&login);
    let stranger = world.run(&arguments);
    assert_eq!(stranger.code, Some(20), "{stranger:?}");
    let trust = format!("[http]\n\tsslCAInfo = {}\n", trusted.display());
    configure(&trust);
    let nobody = world.run(&arguments);
    assert_eq!(nobody.code, Some(21), "{nobody:?}");
    configure(&format!("{login}{trust}"));
    let let_in = world.run(&arguments);
    assert_eq!(let_in.code, Some(0), "{let_in:?}");
    assert_eq!(pushed(&repository), 3);
    let said = format!("{let_in:?}{nobody:?}{stranger:?}");
    assert!(
        !said.contains("sesame") && !said.contains("YWxpY2U6"),
        "{said}"
    );
}
