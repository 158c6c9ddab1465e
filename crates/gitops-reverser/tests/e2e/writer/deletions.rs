//! What lists lack.

use gitops_reverser::dispatch::ToWriter;
use reverser_core::plan::DeleteProof;

use super::bench::{Bench, path, soon};

/// What a list says that lacks these.
fn list_without(names: &[String]) -> ToWriter {
    let remove = |name: &String| ToWriter::Remove {
        path: path(name),
        proof: Some(DeleteProof::AbsentFromList),
        origin: None,
    };
    ToWriter::Together(names.iter().map(remove).collect())
}

#[test]
fn a_cluster_that_vanishes_list_by_list_meets_the_guard() {
    let bench = Bench::patient();
    let writer = bench.run();
    writer.await_failure("prod", "");
    let names = |letter: char, count: usize| -> Vec<String> {
        (0..count)
            .map(|number| format!("{letter}-{number}"))
            .collect()
    };
    let (many, few) = (names('a', 12), names('b', 5));
    for name in many.iter().chain(&few) {
        writer.put(name, "one");
    }
    let left = |count: usize| {
        soon(&format!("{count} objects"), || {
            let objects = bench.objects("clusters/prod").len();
            (objects == count).then_some(()).ok_or(objects.to_string())
        });
    };
    left(17);
    // By itself this could be work, and goes once no other list has come.
    writer.tell("prod", list_without(&many));
    left(5);
    // So few are never guarded where there were no more.
    writer.tell("prod", list_without(&few));
    let stop = soon("the guard", || {
        let report = writer.report("prod").ok_or("no report")?;
        report.stopped.clone().ok_or(format!("{report:?}"))
    });
    assert_eq!(stop.deletions, 5);
    assert_eq!(bench.objects("clusters/prod").len(), 5);
    let mut destination = bench.destination("main", "clusters/prod");
    destination.acknowledged = Some(stop.id);
    writer.tell("prod", ToWriter::Settings(Box::new(destination)));
    left(0);
    soon("a report without a stop", || {
        let report = writer.report("prod").ok_or("no report")?;
        let released = report.stopped.is_none() && report.failure.is_none();
        released.then_some(()).ok_or(format!("{report:?}"))
    });
}
