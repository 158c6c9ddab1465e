//! `gitops-reverser clean`, as a person meets it.

use assert_cmd::Command;
use reverser_testkit::command;
use reverser_testkit::control_plane::{ControlPlane, User};

/// Exit status, standard output and standard error of `clean` on this input.
#[track_caller]
fn clean(arguments: &[&str], input: impl Into<Vec<u8>>) -> (i32, String, String) {
    let mut command = Command::cargo_bin("gitops-reverser").unwrap();
    let output = command
        .arg("clean")
        .args(arguments)
        .write_stdin(input)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

const CLEAN: &str = "\
apiVersion: v1
kind: ConfigMap
metadata:
  name: web
  namespace: shop
data:
  \"on\": \"yes\"
";

const LIVE: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"on":"yes"},
    "metadata":{"name":"web","namespace":"shop","uid":"1","resourceVersion":"2"}}"#;

#[test]
fn what_kubectl_prints_becomes_what_git_would_hold() {
    let plane = ControlPlane::shared();
    let namespace = plane.namespace("clean");
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = plane.kubectl(User::Alice);
        command::run(kubectl.arg("-n").arg(&namespace).args(arguments)).stdout
    };
    kubectl(&[
        "create",
        "deployment",
        "web",
        "--image=nginx:1.29",
        "--replicas=2",
    ]);
    for format in ["yaml", "json"] {
        let live = kubectl(&["get", "deployment", "web", "-o", format]);
        let (status, output, errors) = clean(&["--path"], live);
        assert_eq!((status, errors.as_str()), (0, ""));
        let begins = format!(
            "# apps/v1/deployments/{namespace}/web.yaml\napiVersion: apps/v1\nkind: Deployment\n\
             metadata:\n  name: web\n  namespace: {namespace}\n  labels:\n    app: web\nspec:\n"
        );
        assert!(output.starts_with(&begins), "{output}");
        assert!(
            output.contains("image: nginx:1.29") && !output.contains("status"),
            "{output}"
        );
    }
    let everything = kubectl(&[
        "get",
        "deployments,configmaps,serviceaccounts",
        "-o",
        "yaml",
    ]);
    let (status, output, _) = clean(&[], everything);
    assert_eq!(status, 0);
    assert!(output.contains("kind: Deployment"), "{output}");
}

#[test]
fn json_and_yaml_one_a_list_and_many_documents_are_read_alike() {
    let two = format!("{CLEAN}---\n{CLEAN}");
    let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{LIVE},{LIVE}]}}"#);
    let item = LIVE.replace(r#""apiVersion":"v1","kind":"ConfigMap","#, "");
    let typed = format!(r#"{{"apiVersion":"v1","kind":"ConfigMapList","items":[{item},{item}]}}"#);
    for (input, expected) in [
        (LIVE.to_owned(), CLEAN),
        (CLEAN.to_owned(), CLEAN),
        (format!("\u{feff}{CLEAN}"), CLEAN),
        (format!("---\n# nothing\n---\n{CLEAN}---\n"), CLEAN),
        (format!("{LIVE}\n{LIVE}"), &two),
        (format!("{LIVE}\n---\n{LIVE}"), &two),
        ("{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}, data: {'on': 'yes'}}".into(), CLEAN),
        (two.clone(), &two),
        (list, &two),
        (typed, &two),
        (
            r#"{"apiVersion":"v1","kind":"List","items":[]}"#.to_owned(),
            "",
        ),
    ] {
        assert_eq!(
            clean(&[], input.as_str()),
            (0, expected.to_owned(), String::new()),
            "{input}"
        );
    }
}

#[test]
fn an_object_whose_kind_ends_in_list_is_an_object() {
    let object = "apiVersion: acme.io/v1\nkind: AllowList\nmetadata:\n  name: x\nitems:\n- a\n";
    assert_eq!(clean(&[], object), (0, object.to_owned(), String::new()));
}

#[test]
fn bad_input_is_named_and_nothing_is_printed_unless_asked() {
    let input = format!("{CLEAN}---\na: 1\na: 2\n---\n{CLEAN}---\nkind: X\n");
    let (status, output, errors) = clean(&[], input.as_str());
    assert_eq!((status, output.as_str()), (1, ""));
    assert_eq!(
        errors,
        "error: standard input, document 2: line 10, column 1: the key \"a\" stands twice in one map\n\
         error: standard input, document 4: line 20, column 1: `apiVersion` is missing, or is not text\n\
         hint: --keep-going prints the objects that can be read\n"
    );
    let (status, output, _) = clean(&["--keep-going"], input.as_str());
    assert_eq!((status, output), (1, format!("{CLEAN}---\n{CLEAN}")));
}

#[test]
fn every_bad_input_is_an_error_with_its_place() {
    let deep = format!(r#"{{"a":{}1{}}}"#, "[".repeat(5_000), "]".repeat(5_000));
    let list = r#"{"apiVersion":"v1","kind":"List","items":[{"kind":"A"}]}"#;
    let no_name = LIVE.replace("web", "");
    for (input, error) in [
        (&b""[..], ": is empty"),
        (b"\xff\xfe", ": is not UTF-8 at byte 0"),
        (
            b"{\"a\":",
            ", document 1: line 1, column 5: EOF while parsing",
        ),
        (
            b"{\"a\":1,\n\"a\":2}",
            ", document 1: line 2, column 6: the key \"a\" stands twice",
        ),
        (
            b"a: [\n",
            ", document 1: line 1, column 4: unclosed bracket",
        ),
        (
            b"just text\n",
            ", document 1: line 1, column 1: expected an object",
        ),
        (b"[1]", ", document 1: line 1, column 1: expected an object"),
        (deep.as_bytes(), "nested deeper than 200 levels"),
        (
            list.as_bytes(),
            ", document 1, item 1: line 1, column 1: `apiVersion` is missing",
        ),
        (
            no_name.as_bytes(),
            ", document 1: line 1, column 1: `metadata.name` is missing",
        ),
    ] {
        let (status, output, errors) = clean(&[], input);
        assert_eq!((status, output.as_str()), (1, ""));
        assert!(
            errors.starts_with("error: standard input") && errors.contains(error),
            "{errors}"
        );
    }
    let (status, _, errors) = clean(&["no-such-file.yaml"], "");
    assert_eq!(status, 1);
    assert!(
        errors.starts_with("error: no-such-file.yaml: cannot be read: No such file"),
        "{errors}"
    );
}

#[test]
fn large_and_odd_objects_come_out_whole() {
    let object = |data: &str| {
        format!(
            r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}},"data":{data}}}"#
        )
    };
    let long_line = object(&format!(r#"{{"line":"{}"}}"#, "x".repeat(10_000_000)));
    let (status, output, _) = clean(&[], long_line);
    assert_eq!((status, output.len()), (0, 10_000_066));
    let odd = r#"{"~":"\u0000","1.0":"\t","<<":"a\r\n","=":"\u2028","null":"\ufeff","on":" a "}"#;
    let (status, output, _) = clean(&[], object(odd));
    assert_eq!(status, 0);
    let (_, again, _) = clean(&[], output.as_str());
    assert_eq!(again, output);
    let numbers = r#"{"a":9223372036854775807,"b":1e21,"c":-0,"d":0.1}"#;
    let (_, output, _) = clean(&[], object(numbers));
    assert!(
        output.ends_with("  a: 9223372036854775807\n  b: 1.0e+21\n  c: -0.0\n  d: 0.1\n"),
        "{output}"
    );
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let input = format!("{CLEAN}---\n").repeat(20_000);
    let program = assert_cmd::cargo::cargo_bin("gitops-reverser");
    let mut shell = std::process::Command::new("bash");
    shell
        .args(["-c", "set -o pipefail; \"$0\" clean | head -n 1"])
        .arg(program);
    let output = command::run_with_input(&mut shell, input.as_bytes());
    assert_eq!(output.stdout, "apiVersion: v1\n");
}
