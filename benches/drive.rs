//! Runs the load generator against any server. Each line of JSON on standard input requests one measurement, and each line on
//! standard output has its results. `compare/` uses it for tenantd and other servers with the same requests.
//!
//! The webhook receiver runs in the same process, so one clock times both ends of a delivery.

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
    /// The request as text, with `load::UNIQUE` in place of a unique text.
    request: String,
    status: u16,
    clients: usize,
    work: Work,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Work {
    /// A number of requests without measurement.
    Times(usize),
    /// As many requests as possible within the time.
    Rate { warm_up_ms: u64, measure_ms: u64 },
    /// The same, with the webhook deliveries that they cause.
    Deliveries { warm_up_ms: u64, measure_ms: u64 },
    /// Requests of one client at a constant rate, with the webhook deliveries that they cause.
    CalmDeliveries { per_second: u32, measure_ms: u64 },
}

pub fn run_orders(receiver: &str) {
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
        Work::Rate { warm_up_ms, measure_ms } => to_json(&run(span(warm_up_ms, measure_ms))),
        Work::Deliveries { warm_up_ms, measure_ms } => {
            let span = span(warm_up_ms, measure_ms);
            receiver.take();
            let begin = Instant::now() + span.warm_up;
            let created = run(span);
            let arrivals = receiver.settled();
            let mut result = to_json(&receiver::within(&arrivals, (begin, begin + span.measure)));
            result["created"] = json!(created.count);
            result["arrived"] = json!(arrivals.len());
            result
        }
        Work::CalmDeliveries { per_second, measure_ms } => {
            let measure = Duration::from_millis(measure_ms);
            receiver.take();
            let begin = Instant::now();
            load::run_at_pace(order.address, &request, per_second, measure);
            to_json(&receiver::within(&receiver.settled(), (begin, begin + measure)))
        }
    }
}

fn span(warm_up_ms: u64, measure_ms: u64) -> Span {
    Span { warm_up: Duration::from_millis(warm_up_ms), measure: Duration::from_millis(measure_ms) }
}

fn to_json(measured: &Measured) -> Value {
    let millis = |latency: Duration| latency.as_secs_f64() * 1000.0;
    json!({
        "per_second": measured.per_second,
        "count": measured.count,
        "p50_ms": millis(measured.p50),
        "p99_ms": millis(measured.p99),
    })
}
