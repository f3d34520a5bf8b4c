//! Clients that create, rotate and revoke API keys concurrently, each its own keys, until the server fails.

use futures_util::future::join_all;
use reqwest::Client;

use tenantd_base::entropy::Entropy;

use crate::books::{Act, Caller, Key};

const CLIENTS: u64 = 8;

/// A step of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is about to send a request.
    Request,
    /// It received a success.
    Acknowledgement,
}

/// The final state of a client.
pub struct Left {
    /// Its keys. The last request about one of them is in doubt.
    pub keys: Vec<Key>,
    /// The code of the last problem, if there was a response.
    pub code: Option<String>,
}

pub fn http_client() -> Client {
    // Without a provider no client can be built, even for plain HTTP. Installing a second one is refused, which is harmless.
    drop(rustls::crypto::ring::default_provider().install_default());
    Client::builder().no_proxy().build().unwrap()
}

/// Runs clients until each has failed. The number of the server's life is part of their keys' names.
pub async fn work(caller: &Caller, life: u64, random: &mut Entropy, step: &dyn Fn(Step)) -> Vec<Left> {
    let clients = (0..CLIENTS).map(|client| {
        let random = Entropy::from_seed(random.next_u64());
        work_alone(caller, format!("life-{life}-client-{client}"), random, step)
    });
    join_all(clients).await
}

async fn work_alone(caller: &Caller, name: String, mut random: Entropy, step: &dyn Fn(Step)) -> Left {
    let mut keys: Vec<Key> = Vec::new();
    loop {
        let live: Vec<usize> = (0..keys.len()).filter(|place| keys[*place].is_live()).collect();
        let chosen = usize::try_from(random.below(live.len() as u64)).unwrap();
        let (place, act) = match (live.get(chosen), random.below(10)) {
            (Some(place), 0..2) => (*place, Act::Rotate),
            (Some(place), 2..4) => (*place, Act::Revoke),
            _ => {
                keys.push(Key::new(format!("{name}-{}", keys.len())));
                (keys.len() - 1, Act::Create)
            }
        };
        step(Step::Request);
        match keys[place].ask(caller, act).await {
            Ok(answer) if answer.status.is_success() => step(Step::Acknowledgement),
            Ok(answer) => {
                let code = Some(answer.code().to_owned());
                return Left { keys, code };
            }
            Err(_) => return Left { keys, code: None },
        }
    }
}
