//! The load generator for any server, under orders: a line of JSON on standard input is one measurement, and a line on standard
//! output its figures. `compare/` has it drive tenantd and peers with the same requests.
//!
//! The receiver of webhooks is in the same process: both ends of a delivery are timed by one clock.

use std::{
    io::BufRead,
    net::SocketAddr,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    load::{self, Measured, Request, Span},
    receiver::{self, Receiver},
};

pub const DRIVE: &str = "--drive";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Order {
    address: SocketAddr,
    process_id: u32,
    /// The bytes of the request as text, with `load::UNIQUE` where each needs a text of its own.
    request: String,
    status: u16,
    clients: usize,
    work: Work,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    /// So many requests, which nobody times.
    Times(usize),
    /// As many as go in the time.
    Rate { warm_up_ms: u64, measure_ms: u64 },
    /// The same, and the deliveries that they cause.
    Deliveries { warm_up_ms: u64, measure_ms: u64 },
    /// An even pace of one client, and the deliveries that it causes.
    CalmDeliveries { per_second: u32, measure_ms: u64 },
}

pub fn obey(receiver: &str) {
    let receiver = Receiver::start_at(receiver);
    for line in std::io::stdin().lock().lines() {
        let order: Order = serde_json::from_str(&line.unwrap()).expect("an order");
        println!("{}", follow(&order, &receiver));
    }
}

fn follow(order: &Order, receiver: &Receiver) -> Value {
    let request = Request::raw(order.request.clone(), order.status);
    let run = |span| load::run(order.address, order.process_id, order.clients, &request, span);
    match order.work {
        Work::Times(count) => {
            load::repeat(order.address, order.clients, &request, count);
            json!({})
        }
        Work::Rate { warm_up_ms, measure_ms } => told(&run(span(warm_up_ms, measure_ms))),
        Work::Deliveries { warm_up_ms, measure_ms } => {
            let span = span(warm_up_ms, measure_ms);
            receiver.take();
            let begin = Instant::now() + span.warm_up;
            let created = run(span);
            let arrivals = receiver.settled();
            let mut figures = told(&receiver::within(&arrivals, (begin, begin + span.measure)));
            figures["created"] = json!(created.count);
            figures["arrived"] = json!(arrivals.len());
            figures
        }
        Work::CalmDeliveries { per_second, measure_ms } => {
            let measure = Duration::from_millis(measure_ms);
            receiver.take();
            let begin = Instant::now();
            load::run_at_pace(order.address, &request, per_second, measure);
            told(&receiver::within(&receiver.settled(), (begin, begin + measure)))
        }
    }
}

fn span(warm_up_ms: u64, measure_ms: u64) -> Span {
    Span { warm_up: Duration::from_millis(warm_up_ms), measure: Duration::from_millis(measure_ms) }
}

fn told(measured: &Measured) -> Value {
    let millis = |latency: Duration| latency.as_secs_f64() * 1000.0;
    json!({
        "per_second": measured.per_second,
        "count": measured.count,
        "p50_ms": millis(measured.p50),
        "p99_ms": millis(measured.p99),
    })
}
