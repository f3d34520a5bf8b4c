//! The client of the running server. It sends HTTP over the admin socket, a Unix socket: anyone who can open it is the operator.
//! With `--offline`, this process answers the same requests from the data directory of a stopped server.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use clap::Args;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::UnixStream;

use super::{Common, Failure, demo, offline};
use crate::app::{App, admin_socket};

/// The flag of commands that also work without a server.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct OfflineArgs {
    /// Use the data directory directly. The server must be stopped.
    #[arg(long, global = true)]
    pub(super) offline: bool,
}

#[derive(Debug)]
pub(super) struct Client {
    socket: PathBuf,
    /// Answers requests in this process instead of a server.
    local: Option<Box<App>>,
}

impl Client {
    pub(super) fn new(common: &Common) -> Result<Self, Failure> {
        let config = common.settings(&[])?;
        let configured = Self::at(&config.data.directory);
        if common.data_dir.is_some() || common.config.is_some() || configured.socket.exists() {
            return Ok(configured);
        }
        // Without an installation on this host, use a running demo.
        let mut demos = demo::directories().into_iter().map(|directory| Self::at(&directory)).filter(Self::is_running);
        Ok(demos.next().unwrap_or(configured))
    }

    pub(super) async fn connect(common: &Common, args: OfflineArgs) -> Result<Self, Failure> {
        let mut client = Self::new(common)?;
        if args.offline {
            client.local = Some(Box::new(offline::open_app(common).await?));
        }
        Ok(client)
    }

    /// A client of the server of this data directory.
    pub(super) fn at(data_directory: &Path) -> Self {
        Self { socket: admin_socket(data_directory), local: None }
    }

    /// Whether no server runs the background tasks.
    pub(super) fn is_offline(&self) -> bool {
        self.local.is_some()
    }

    pub(super) fn is_running(&self) -> bool {
        std::os::unix::net::UnixStream::connect(&self.socket).is_ok()
    }

    pub(super) async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, None).await
    }

    pub(super) async fn post(&self, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        self.call(Method::POST, path, body).await
    }

    pub(super) async fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::PUT, path, Some(body)).await
    }

    pub(super) async fn delete(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::DELETE, path, None).await
    }

    /// Whether the resource at the path exists.
    pub(super) async fn has(&self, path: &str) -> Result<bool, Failure> {
        let (status, answer) = self.ask(Method::GET, path, None).await?;
        match status {
            StatusCode::NOT_FOUND => Ok(false),
            status if status.is_success() => Ok(true),
            status => Err(problem_failure(status, &answer)),
        }
    }

    /// The raw body of the response to a GET request.
    pub(super) async fn text(&self, path: &str) -> Result<String, Failure> {
        let (status, bytes) = self.exchange(Method::GET, path, None).await?;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if status.is_success() { Ok(text) } else { Err(Failure::Failed(format!("GET {path} failed with {status}"))) }
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let (status, answer) = self.ask(method, path, body).await?;
        if status.is_success() { Ok(answer) } else { Err(problem_failure(status, &answer)) }
    }

    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(StatusCode, Value), Failure> {
        let (status, bytes) = self.exchange(method, path, body).await?;
        let answer: Value =
            if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).map_err(|error| broken(&error))? };
        Ok((status, answer))
    }

    async fn exchange(&self, method: Method, path: &str, body: Option<&Value>) -> Result<(StatusCode, Bytes), Failure> {
        let request =
            Request::builder().method(method).uri(path).header("host", "localhost").header("accept", "application/json, */*;q=0.1");
        let request = match body {
            Some(body) => request.header("content-type", "application/json").body(Bytes::from(body.to_string())),
            None => request.body(Bytes::new()),
        };
        let request = request.map_err(|error| broken(&error))?;
        if let Some(app) = &self.local {
            return app.answer_locally(request).await.map_err(|error| broken(&error));
        }
        let stream = UnixStream::connect(&self.socket).await.map_err(|error| connect_failure(&self.socket, &error))?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
        let driver = tokio::spawn(connection);
        let response = sender.send_request(request.map(Full::new)).await.map_err(|error| broken(&error))?;
        let status = response.status();
        let bytes = response.into_body().collect().await.map_err(|error| broken(&error))?.to_bytes();
        driver.abort();
        Ok((status, bytes))
    }

    /// The id of the tenant with this id or slug.
    pub(super) async fn tenant_id(&self, name: &str) -> Result<String, Failure> {
        if name.starts_with("tnt_") {
            return Ok(name.to_owned());
        }
        let query: String = form_urlencoded::Serializer::new(String::new()).append_pair("slug", name).finish();
        let found = self.get(&format!("/api/platform/tenants?{query}")).await?;
        let id = found.pointer("/data/0/id").and_then(Value::as_str).map(str::to_owned);
        let hint = "list the tenants with `tenantd tenant list`, or name the data directory of another server with --data-dir DIR";
        id.ok_or_else(|| Failure::Failed(format!("there is no tenant {name}; {hint}")))
    }
}

fn broken(error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("the request to the server failed: {error}"))
}

pub(super) fn connect_failure(socket: &Path, error: &std::io::Error) -> Failure {
    let shown = socket.display();
    if error.kind() == std::io::ErrorKind::PermissionDenied {
        return Failure::Denied(format!(
            "{shown}: permission denied; run this command as the user of the tenantd service, or as root"
        ));
    }
    let hint = "start it with `tenantd serve`, or name the data directory of a running server or demo with --data-dir DIR";
    Failure::NotRunning(format!("no server listens on {shown}; {hint}"))
}

pub(super) fn problem_failure(status: StatusCode, problem: &Value) -> Failure {
    let detail = problem.get("detail").and_then(Value::as_str).unwrap_or("the server gave no reason");
    let errors = problem.get("errors").and_then(Value::as_array).into_iter().flatten();
    let lines: Vec<String> = errors
        .map(|error| {
            let place = ["pointer", "parameter", "header"].iter().find_map(|name| error.get(*name)?.as_str()).unwrap_or_default();
            let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
            let suggestion = error.get("suggestion").and_then(Value::as_str).map(|nearest| format!("; did you mean {nearest}?"));
            format!("\n  {place}: {message}{}", suggestion.unwrap_or_default())
        })
        .collect();
    let text = format!("{detail}{}", lines.concat());
    if matches!(status, StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED) { Failure::Denied(text) } else { Failure::Failed(text) }
}
