//! The quickstart of the README, typed as it is written.

use std::process::Command;

use reverser_testkit::control_plane::User;
use reverser_testkit::{command, tools};

use crate::cluster::Cluster;
use crate::repository;

/// The commands, block by block.
fn blocks() -> Vec<String> {
    let page = repository::read("README.md");
    let (_, from) = page
        .split_once("<!-- quickstart -->")
        .expect("the README has a quickstart");
    let (quickstart, _) = from.split_once("<!-- end of quickstart -->").unwrap();
    let blocks = quickstart.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split_once("\n```").unwrap().0.to_owned())
        .collect()
}

#[test]
fn the_quickstart_of_the_readme_works_as_it_is_written() {
    let cluster = Cluster::take();
    let blocks = blocks();
    let (own, rest) = blocks.split_first().unwrap();
    // What everybody has of their own is all that differs.
    let mut variables: Vec<&str> = own
        .lines()
        .map(|line| {
            line.strip_prefix("export ")
                .unwrap()
                .split_once('=')
                .unwrap()
                .0
        })
        .collect();
    variables.sort_unstable();
    assert_eq!(
        variables,
        ["GIT_TOKEN", "GIT_USERNAME", "IMAGE", "REPO_URL"]
    );

    let tools_folder = tools::find("kubectl")
        .parent()
        .unwrap()
        .display()
        .to_string();
    let path = format!("{tools_folder}:{}", std::env::var("PATH").unwrap());
    for block in rest {
        println!("{block}");
        let mut bash = Command::new("bash");
        bash.env_clear()
            .env("HOME", cluster.folder.path())
            .env("PATH", &path)
            .env("KUBECONFIG", cluster.kubeconfig(User::Alice))
            .env("REPO_URL", cluster.git.url("mirror.git"))
            .env("GIT_USERNAME", "bot")
            .env("GIT_TOKEN", "x")
            .env("IMAGE", "registry.example.com/gitops-reverser")
            .current_dir(repository::path(""))
            .args(["-euo", "pipefail", "-c", block]);
        let output = command::run(&mut bash);
        println!("{}", output.stdout);
    }
}
