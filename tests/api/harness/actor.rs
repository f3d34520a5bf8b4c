//! An API client with or without a credential.

use std::path::Path;

use serde_json::{Value, json};

pub fn client(data_directory: &Path) -> reqwest::Client {
    // Installing the provider twice in one process is not an error.
    drop(rustls::crypto::ring::default_provider().install_default());
    let mut builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    let certificate = data_directory.join("tls/certificate.pem");
    if let Ok(pem) = std::fs::read(certificate) {
        builder = builder.tls_certs_only([reqwest::Certificate::from_pem(&pem).unwrap()]);
    } else {
        builder = builder.tls_certs_only([]);
    }
    builder.build().unwrap()
}

pub fn socket_client(socket: &Path) -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().no_proxy().tls_certs_only([]).unix_socket(socket).build().unwrap()
}

#[derive(Clone)]
pub struct Actor {
    client: reqwest::Client,
    base_url: String,
    headers: Vec<(String, String)>,
}

impl Actor {
    pub fn new(client: reqwest::Client, base_url: String) -> Self {
        Self { client, base_url, headers: Vec::new() }
    }

    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same actor for a server at another address.
    pub fn moved(mut self, base_url: &str) -> Self {
        base_url.clone_into(&mut self.base_url);
        self
    }

    pub fn bearer(self, key: &str) -> Self {
        self.with("authorization", &format!("Bearer {key}"))
    }

    pub fn call(&self, method: &str, path: &str) -> Call {
        let method: reqwest::Method = method.parse().unwrap();
        let mut request = self.client.request(method, format!("{}{path}", self.base_url));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        Call { request }
    }

    pub fn get(&self, path: &str) -> Call {
        self.call("GET", path)
    }

    pub fn post(&self, path: &str) -> Call {
        self.call("POST", path)
    }

    pub fn put(&self, path: &str) -> Call {
        self.call("PUT", path)
    }

    pub fn patch(&self, path: &str) -> Call {
        self.call("PATCH", path)
    }

    pub fn delete(&self, path: &str) -> Call {
        self.call("DELETE", path)
    }

    /// Confirms that it is them, as a person does before a sensitive change in an old session.
    pub async fn confirm(&self) {
        let reply = self.post("/api/auth/confirm").json(json!({"password": super::PASSWORD})).send().await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
}

pub struct Call {
    request: reqwest::RequestBuilder,
}

impl Call {
    pub fn json(mut self, body: Value) -> Self {
        self.request = self.request.json(&body);
        self
    }

    pub fn text(mut self, content_type: &str, body: impl Into<reqwest::Body>) -> Self {
        self.request = self.request.header("content-type", content_type).body(body);
        self
    }

    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.request = self.request.header(name, value);
        self
    }

    /// Sends the request and returns as soon as the response starts.
    pub async fn begin(self) -> reqwest::Response {
        self.request.send().await.unwrap()
    }

    pub async fn send(self) -> Reply {
        let response = self.request.send().await.unwrap();
        let status = response.status().as_u16();
        let version = response.version();
        let headers = response.headers().clone();
        let text = response.text().await.unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Reply { status, version, headers, text, body }
    }
}

pub struct Reply {
    pub status: u16,
    pub version: reqwest::Version,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
    /// Null if the text is not JSON.
    pub body: Value,
}

impl Reply {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Checks the form of the problem and returns its code.
    pub fn problem(&self, status: u16) -> &str {
        assert_eq!(self.status, status, "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json", "{}", self.text);
        for member in ["type", "title", "detail", "instance", "request_id"] {
            assert!(self.body[member].is_string(), "{member} is missing in {}", self.text);
        }
        assert_eq!(self.body["status"], status);
        assert_eq!(self.body["request_id"], self.header("x-request-id"));
        self.body["code"].as_str().unwrap()
    }

    /// The body of a success.
    pub fn ok(&self, status: u16) -> &Value {
        assert_eq!(self.status, status, "{}", self.text);
        &self.body
    }

    /// The values of a response with one value per line.
    pub fn lines(&self, status: u16) -> Vec<Value> {
        assert_eq!(self.status, status, "{}", self.text);
        self.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The field errors: `pointer or parameter` and code.
    pub fn field_errors(&self) -> Vec<(String, String)> {
        let errors = self.body["errors"].as_array().cloned().unwrap_or_default();
        let place = |error: &Value| {
            let place = ["pointer", "parameter", "header"].iter().find_map(|name| error[*name].as_str()).unwrap_or("?");
            (place.to_owned(), error["code"].as_str().unwrap_or("?").to_owned())
        };
        let mut found: Vec<_> = errors.iter().map(place).collect();
        found.sort();
        found
    }
}
