use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use reverser_testkit::control_plane::{ControlPlane, User};

#[tokio::test]
async fn alice_reads() {
    let start = std::time::Instant::now();
    let plane = ControlPlane::shared();
    println!("started in {:?}", start.elapsed());
    let namespace = plane.namespace("users");
    println!("{namespace} {:?} {}", plane.pids(), plane.dir().display());
    for user in User::ALL {
        let maps: Api<ConfigMap> = Api::namespaced(plane.client(user).unwrap(), &namespace);
        println!(
            "{user:?} {:?}",
            maps.list(&kube::api::ListParams::default())
                .await
                .map(|l| l.items.len())
                .map_err(|e| e.to_string())
        );
    }
}
