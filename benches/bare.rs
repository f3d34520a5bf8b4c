//! The ceilings: poem-openapi and redb alone, without tenantd. Each runs in a separate process with the same allocator as the real
//! server.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use poem::{
    Route,
    listener::{Acceptor, Listener, TcpListener},
};
use poem_openapi::{Enum, Object, OpenApi, OpenApiService, param, payload::Json, types::ParseFromJSON};
use redb::{Database, Durability, TableDefinition};
use serde_json::{Value, json};

use tenantd_base::{clock::Timestamp, id::ApiKeyId};

use crate::load::Measured;

pub const SERVE: &str = "--bare-server";
pub const SERVE_TICKETS: &str = "--bare-tickets";
pub const COMMIT: &str = "--bare-commits";
pub const LIST_LENGTH: usize = 20;

#[derive(Clone, Debug, Enum)]
#[oai(rename_all = "snake_case")]
enum Status {
    Active,
    Expiring,
    Expired,
    Disabled,
    Revoked,
}

#[derive(Clone, Debug, Object)]
struct CreatedBy {
    kind: String,
    id: String,
    name: String,
}

/// The fields of an API key of the real server.
#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct ApiKey {
    id: ApiKeyId,
    name: String,
    description: Option<String>,
    prefix: String,
    last_four: String,
    scopes: Vec<String>,
    allowed_ips: Option<Vec<String>>,
    status: Status,
    created_at: Timestamp,
    created_by: CreatedBy,
    updated_at: Timestamp,
    expires_at: Timestamp,
    last_used_at: Option<Timestamp>,
    last_used_ip: Option<String>,
    use_count: u64,
    rotated_at: Option<Timestamp>,
    previous_expires_at: Option<Timestamp>,
    revoked_at: Option<Timestamp>,
    version: u64,
}

#[derive(Clone, Debug, Object)]
#[oai(skip_serializing_if_is_none)]
struct Page {
    limit: u32,
    next_cursor: Option<String>,
}

#[derive(Clone, Debug, Object)]
struct List {
    data: Vec<ApiKey>,
    page: Page,
}

struct Api {
    sample: ApiKey,
}

#[OpenApi(prefix_path = "/api/admin/api-keys")]
impl Api {
    #[oai(path = "/:id", method = "get")]
    async fn read(&self, id: param::Path<ApiKeyId>) -> Json<ApiKey> {
        Json(ApiKey { id: id.0, ..self.sample.clone() })
    }

    #[oai(path = "/", method = "get")]
    async fn list(&self) -> Json<List> {
        // The same length as a cursor of the real server.
        let next_cursor = Some("c".repeat(32));
        let page = Page { limit: u32::try_from(LIST_LENGTH).unwrap(), next_cursor };
        Json(List { data: vec![self.sample.clone(); LIST_LENGTH], page })
    }
}

/// A ticket and a page of tickets of the real server. poem-openapi converts an object to such a tree of values before it writes the
/// text, so the handlers copy a tree.
struct Tickets {
    one: Value,
    page: Value,
}

#[OpenApi(prefix_path = "/api/psa/tickets")]
impl Tickets {
    #[oai(path = "/:id", method = "get")]
    async fn read(&self, id: param::Path<String>) -> Json<Value> {
        drop(id);
        Json(self.one.clone())
    }

    #[oai(path = "/", method = "get")]
    async fn list(&self) -> Json<Value> {
        Json(self.page.clone())
    }
}

/// Serves the sample, an API key of the real server, until the process ends.
pub fn serve(sample: &str) {
    let sample: Value = serde_json::from_str(sample).unwrap();
    let sample = ApiKey::parse_from_json(Some(sample)).unwrap_or_else(|error| panic!("{}", error.into_message()));
    serve_api(Api { sample });
}

/// Serves a ticket and a page until the process ends.
pub fn serve_tickets(samples: &str) {
    let [one, page]: [Value; 2] = serde_json::from_str(samples).unwrap();
    serve_api(Tickets { one, page });
}

fn serve_api(api: impl OpenApi + 'static) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let acceptor = TcpListener::bind("127.0.0.1:0").into_acceptor().await.unwrap();
        let address = acceptor.local_addr().remove(0);
        println!("{}", json!({"url": format!("http://{}", address.as_socket_addr().unwrap())}));
        let service = OpenApiService::new(api, "Bare", "1");
        poem::Server::new_with_acceptor(acceptor).run(Route::new().nest("/", service)).await.unwrap();
    });
}

/// Commits small records one after another to a new file, and prints the measurement.
pub fn commit(directory: &Path, span: Duration, two_phase: bool) {
    const RECORDS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
    const CACHE_BYTES: usize = 128 << 20;
    let path = directory.join("raw.redb");
    let database = Database::builder().set_cache_size(CACHE_BYTES).create(&path).unwrap();
    let mut latencies = Vec::new();
    let begin = Instant::now();
    while begin.elapsed() < span {
        let started = Instant::now();
        let mut transaction = database.begin_write().unwrap();
        transaction.set_durability(Durability::Immediate).unwrap();
        transaction.set_two_phase_commit(two_phase);
        let key = u64::try_from(latencies.len()).unwrap();
        transaction.open_table(RECORDS).unwrap().insert(key, [7_u8; 100].as_slice()).unwrap();
        transaction.commit().unwrap();
        latencies.push(started.elapsed());
    }
    let measured = Measured::new(latencies, begin.elapsed(), Duration::ZERO);
    println!("{}", json!({"per_second": measured.per_second, "p50_seconds": measured.p50.as_secs_f64()}));
    drop(database);
    std::fs::remove_file(path).unwrap();
}
