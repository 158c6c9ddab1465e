use super::*;

const LENGTH: Duration = Duration::from_secs(24);

fn at(seconds: u64) -> BootTime {
    BootTime::after_start(Duration::from_secs(1_000 + seconds))
}

fn document(holder: &str, renewal: &str) -> Document {
    Document {
        renewal: renewal.to_owned(),
        holder: (!holder.is_empty()).then(|| holder.to_owned()),
        length: Some(LENGTH),
        wanted_by: None,
    }
}

fn wanted(document: Document, by: &str) -> Document {
    Document {
        wanted_by: Some(by.to_owned()),
        ..document
    }
}

fn candidate() -> Claim {
    Claim::new("me", LENGTH, false)
}

fn installation() -> Claim {
    Claim::new("me", LENGTH, true)
}

#[test]
fn a_lease_that_nobody_has_is_taken_at_once() {
    let mut claim = candidate();
    assert_eq!(claim.decide(None, true, false, at(0)), Move::Create);
    assert_eq!(
        claim.decide(Some(document("", "1")), true, false, at(0)),
        Move::Take
    );
    assert_eq!(
        claim.held_until(at(0)),
        None,
        "before the server has confirmed it"
    );
    claim.taken(document("me", "2"), at(0));
    assert!(claim.held_until(at(19)).is_some());
}

#[test]
fn who_is_killed_is_waited_for_as_long_as_the_lease_says() {
    let mut claim = candidate();
    let dead = Some(document("other", "1"));
    assert_eq!(claim.decide(dead.clone(), true, false, at(0)), Move::Wait);
    assert_eq!(claim.decide(dead.clone(), true, false, at(23)), Move::Wait);
    assert_eq!(claim.decide(dead, true, false, at(24)), Move::Take);
    let mut claim = candidate();
    for second in 0..100 {
        let renewed = document("other", &(second / 8).to_string());
        assert_eq!(
            claim.decide(Some(renewed), true, false, at(second)),
            Move::Wait
        );
    }
}

#[test]
fn what_is_held_ends_before_anybody_else_may_take_it() {
    let (mut holder, mut other) = (candidate(), Claim::new("other", LENGTH, false));
    // The request took ten seconds; the other one saw its result the moment it was there.
    holder.taken(document("me", "1"), at(0));
    let seen = Some(document("me", "1"));
    assert_eq!(other.decide(seen.clone(), true, false, at(10)), Move::Wait);
    let first_taken =
        (10..60).find(|second| other.decide(seen.clone(), true, false, at(*second)) == Move::Take);
    let last_held = (10..60)
        .take_while(|second| holder.held_until(at(*second)).is_some())
        .last();
    assert!(last_held < first_taken, "{last_held:?} {first_taken:?}");
    assert_eq!(last_held, Some(19));
}

/// The times in a document come from the clock of whoever wrote it. Only that they change counts.
#[test]
fn clocks_that_jump_change_nothing() {
    for renewal in [
        "1970-01-01T00:00:00Z",
        "2999-01-01T00:00:00Z",
        "",
        "nonsense",
    ] {
        let mut claim = candidate();
        let document = Some(document("other", renewal));
        assert_eq!(
            claim.decide(document.clone(), true, false, at(0)),
            Move::Wait
        );
        assert_eq!(
            claim.decide(document.clone(), true, false, at(23)),
            Move::Wait
        );
        assert_eq!(claim.decide(document, true, false, at(24)), Move::Take);
    }
}

#[test]
fn who_sleeps_through_its_lease_holds_nothing_when_it_wakes() {
    let mut claim = candidate();
    claim.taken(document("me", "1"), at(0));
    assert_eq!(claim.held_until(at(3_600)), None);
}

#[test]
fn a_stolen_lease_is_lost_and_a_deleted_one_is_made_again() {
    let mut claim = candidate();
    claim.taken(document("me", "1"), at(0));
    assert_eq!(
        claim.decide(Some(document("thief", "2")), true, false, at(1)),
        Move::Wait
    );
    assert_eq!(claim.held_until(at(1)), None);
    assert_eq!(claim.other_holder(), Some("thief"));
    claim.taken(document("me", "3"), at(2));
    assert_eq!(claim.decide(None, true, false, at(3)), Move::Create);
    assert!(claim.held_until(at(3)).is_some(), "nobody else has it");
}

#[test]
fn installations_take_turns() {
    let mut claim = installation();
    let other = document("other", "1");
    assert_eq!(
        claim.decide(Some(other.clone()), true, false, at(0)),
        Move::Ask
    );
    let asked = wanted(other, "me");
    assert_eq!(claim.decide(Some(asked), true, false, at(1)), Move::Wait);
    let free = wanted(document("", "2"), "me");
    assert_eq!(claim.decide(Some(free), true, false, at(2)), Move::Take);
    claim.taken(document("me", "3"), at(2));
    let asked = wanted(document("me", "3"), "other");
    assert_eq!(
        claim.decide(Some(asked.clone()), true, false, at(3)),
        Move::Take,
        "too soon"
    );
    assert_eq!(
        claim.decide(Some(asked.clone()), true, true, at(5)),
        Move::Take,
        "in the middle"
    );
    assert_eq!(claim.decide(Some(asked), true, false, at(5)), Move::Yield);
    claim.let_go();
    let free = Some(wanted(document("", "4"), "other"));
    assert_eq!(
        claim.decide(free.clone(), true, false, at(6)),
        Move::Wait,
        "its turn"
    );
    assert_eq!(
        claim.decide(free, true, false, at(30)),
        Move::Take,
        "it never came"
    );
}

#[test]
fn an_installation_with_nothing_to_write_asks_for_nothing() {
    let mut claim = installation();
    assert_eq!(claim.decide(None, false, false, at(0)), Move::Wait);
    assert_eq!(
        claim.decide(Some(document("", "1")), false, false, at(0)),
        Move::Wait
    );
    let other = Some(document("other", "2"));
    assert_eq!(claim.decide(other.clone(), false, false, at(1)), Move::Wait);
    assert_eq!(claim.decide(other, false, false, at(99)), Move::Wait);
}

#[test]
fn whoever_asks_for_a_turn_does_not_keep_a_dead_holder_alive() {
    let mut claim = installation();
    let dead = document("other", "1");
    claim.decide(Some(dead.clone()), true, false, at(0));
    claim.decide(Some(wanted(dead.clone(), "me")), true, false, at(20));
    assert_eq!(
        claim.decide(Some(wanted(dead, "third")), true, false, at(24)),
        Move::Take
    );
}

#[test]
fn another_replica_of_the_installation_goes_on_where_the_last_one_was() {
    let mut claim = installation();
    assert_eq!(
        claim.decide(Some(document("me", "1")), true, false, at(0)),
        Move::Take
    );
}
