//! Requests of the local operator without a listener. Commands use them to work on a data directory while no server runs. They take
//! the same path as requests over the admin socket, with the same checks and the same events.

use bytes::Bytes;
use http::StatusCode;

use super::{
    context::Client,
    edge::{Edge, Peer},
};

impl Edge {
    /// Answers a request as if it had come over the admin socket.
    pub async fn answer_locally(&self, request: http::Request<Bytes>) -> Result<(StatusCode, Bytes), String> {
        let (parts, body) = request.into_parts();
        let mut request = poem::Request::builder().method(parts.method).uri(parts.uri);
        for (name, value) in &parts.headers {
            request = request.header(name, value);
        }
        let peer = Peer { client: Client::Local, secure: false, https_port: None };
        let response = self.answer(request.body(body), peer).await;
        let status = response.status();
        let bytes = response.into_body().into_bytes().await.map_err(|error| error.to_string())?;
        Ok((status, bytes))
    }
}
