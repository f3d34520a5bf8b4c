//! Who waits for whom, and how work is charged.

use super::*;
use crate::{clock::Timestamp, entropy::Entropy};

fn tenant(seed: u64) -> TenantId {
    TenantId::new(Timestamp::from_millis(1), &mut Entropy::from_seed(seed))
}

fn party(seed: u64) -> Party {
    tenant(seed).into()
}

/// How long the first tenant waits after `later`, given each tenant's use in seconds on two processors.
fn wait_of_first(used: &[f64], later: Duration) -> Option<Duration> {
    let (shares, now) = (Shares::with_processors(2.0), instant());
    let mut state = shares.state();
    for (seed, used) in (1..).zip(used) {
        state.account(party(seed), now).used.processors = *used;
    }
    state.wait(party(1), 0, now + later)
}

#[test]
fn a_tenant_above_its_share_waits_for_others() {
    let soon = Duration::ZERO;
    assert_eq!(wait_of_first(&[60.0], soon), None, "nobody else works");
    assert_eq!(wait_of_first(&[60.0, 0.01], soon), Some(WAIT.1));
    assert_eq!(wait_of_first(&[60.0, 0.01], RECENT), None, "the other has ended");
    assert_eq!(wait_of_first(&[0.99, 0.01], soon), None, "half of two processors");
    assert!(wait_of_first(&[1.05, 0.01], soon).is_some());
    assert_eq!(wait_of_first(&[0.01, 60.0], soon), None, "only the other is busy");
    assert_eq!(wait_of_first(&[0.99, 0.99], soon), None, "both share everything");
    assert!(wait_of_first(&[0.99, 0.99, 0.01], soon).is_some(), "both leave room for the third");
}

#[test]
fn half_of_the_writer_is_left_to_others_too() {
    let (shares, now) = (Shares::with_processors(64.0), instant());
    let mut state = shares.state();
    state.account(party(2), now).used.processors = 0.01;
    state.account(party(1), now).used.writer = 0.45;
    assert_eq!(state.wait(party(1), 0, now), None);
    state.account(party(1), now).used.writer = 0.6;
    assert!(state.wait(party(1), 0, now).is_some());
}

#[test]
fn a_busy_tenant_waits_for_the_readers_of_the_log_while_others_work() {
    let (shares, now) = (Shares::with_processors(2.0), instant());
    let mut state = shares.state();
    state.account(party(1), now).used.processors = BUSY * 2.0;
    assert_eq!(state.wait(party(1), MAX_BACKLOG + 1, now), None, "nobody else works");
    state.account(party(2), now).used.processors = 0.01;
    assert_eq!(state.wait(party(1), MAX_BACKLOG, now), None);
    assert_eq!(state.wait(party(1), MAX_BACKLOG + 1, now), Some(WAIT.1));
    assert_eq!(state.wait(party(2), MAX_BACKLOG + 1, now), None, "the other is not busy");
}

#[tokio::test]
async fn refusals_are_charged_to_their_network() {
    let at = |address: &str| Party::at(address.parse().unwrap());
    assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
    assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
    assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
    assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
    let shares = Shares::with_processors(2.0);
    for _ in 0..10_000 {
        shares.note_refusal(at("192.0.2.1")).await.unwrap();
    }
    shares.charge_processors(tenant(1), Duration::from_micros(1));
    let state = shares.state();
    assert!(state.wait(at("192.0.2.1"), 0, instant()).is_some());
    assert_eq!(state.wait(at("192.0.2.2"), 0, instant()), None);
}

#[test]
fn uncharged_work_is_added_in_proportion() {
    let mut writer = Resource::new(1.0, Duration::ZERO);
    let later = writer.since + ESTIMATE_INTERVAL;
    assert!((writer.charge(0.1, writer.since, || Duration::ZERO) - 0.1).abs() < f64::EPSILON, "nothing is known yet");
    assert!((writer.charge(0.1, later, || Duration::from_millis(500)) - 0.25).abs() < 0.001);
    assert!((writer.charge(0.1, later, || Duration::ZERO) - 0.25).abs() < 0.001);
}

#[test]
fn use_decays() {
    let mut account = Account::new(instant());
    account.used = Use { processors: 2.0, writer: 1.0 };
    assert!((account.used(account.at + Duration::from_secs(1)).processors - 0.735).abs() < 0.01);
    account.fade(account.at + Duration::from_secs(5));
    assert!(account.used.most() < 0.02);
}

#[tokio::test]
async fn work_is_charged_to_its_tenant_with_its_panics() {
    let shares = Shares::default();
    let compute = || {
        let begin = processor_time();
        while processor_time().saturating_sub(begin) < Duration::from_secs(1) {
            std::hint::spin_loop();
        }
    };
    shares.work_for(tenant(1), async { compute() }).await;
    assert!(shares.is_busy(tenant(1)) && !shares.is_busy(tenant(2)));
    assert!(Payer::current().is_none());
    let payer = shares.work_for(tenant(2), async { Payer::current() }).await.unwrap();
    let panicked = std::thread::spawn(move || {
        payer.pay(|| {
            compute();
            panic!("on purpose")
        })
    });
    assert!(panicked.join().is_err());
    assert!(shares.is_busy(tenant(2)));
}

#[tokio::test]
async fn waiting_requests_are_bounded() {
    let shares = Shares::default();
    shares.charge_processors(tenant(1), Duration::from_hours(1));
    shares.charge_processors(tenant(2), Duration::from_micros(1));
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..=MAX_WAITING {
        let shares = shares.clone();
        waiting.spawn(async move { shares.turn_of_request(tenant(1)).await.map(drop) });
    }
    assert_eq!(waiting.join_next().await.unwrap().unwrap(), Err(Full), "one is too many");
    assert!(shares.turn_of_request(tenant(2)).await.is_ok());
    waiting.shutdown().await;
    assert_eq!(shares.state().accounts[&party(1)].waiting, 0, "those that gave up do not count");
}

#[tokio::test]
async fn a_turn_counts_in_advance_and_is_settled_at_its_end() {
    let shares = Shares::default();
    let used = |shares: &Shares| shares.state().accounts[&party(1)].used(instant()).processors;
    shares.charge_processors(tenant(1), Duration::from_millis(100));
    let before = used(&shares);
    let turns: Vec<Turn> = [(); 3].map(|()| shares.free_turn(party(1)).unwrap()).into();
    assert!(used(&shares) > before * 1.5);
    drop(turns);
    assert!(used(&shares) <= before);
}
