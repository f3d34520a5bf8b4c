//! A DNS server with scripted answers. The API tests include this file too.

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
};

use hickory_resolver::proto::{
    op::{Message, MessageType, ResponseCode},
    rr::{RData, Record, RecordType, rdata::TXT},
};
use tokio::{net::UdpSocket, task::AbortHandle};

#[derive(Clone, Debug)]
pub enum Answer {
    /// The addresses and their TTL in seconds.
    Addresses(Vec<IpAddr>, u32),
    Texts(Vec<String>),
    NoSuchName,
    Failure,
    Silence,
}

pub struct DnsServer {
    pub address: SocketAddr,
    asked: Arc<Mutex<HashMap<RecordType, usize>>>,
    serving: AbortHandle,
}

impl Drop for DnsServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl DnsServer {
    /// `script` gets the name and the number of earlier questions of the same type.
    pub async fn start(script: impl Fn(&str, usize) -> Answer + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let asked: Arc<Mutex<HashMap<RecordType, usize>>> = Arc::default();
        let counts = asked.clone();
        let serving = tokio::spawn(async move {
            let mut packet = [0; 2048];
            while let Ok((length, client)) = socket.recv_from(&mut packet).await {
                let question = Message::from_vec(&packet[..length]).unwrap();
                let query = question.queries[0].clone();
                let before = {
                    let mut counts = counts.lock().unwrap();
                    let count = counts.entry(query.query_type()).or_default();
                    *count += 1;
                    *count - 1
                };
                let reply = reply_to(&question, script(&query.name().to_utf8(), before));
                if let Some(reply) = reply {
                    socket.send_to(&reply, client).await.unwrap();
                }
            }
        });
        Self { address, asked, serving: serving.abort_handle() }
    }

    /// Answers every name with these addresses for five minutes.
    pub async fn answering(addresses: &[&str]) -> Self {
        let addresses: Vec<IpAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        Self::start(move |_, _| Answer::Addresses(addresses.clone(), 300)).await
    }

    /// How often IPv4 addresses were asked for.
    pub fn questions(&self) -> usize {
        self.asked.lock().unwrap().get(&RecordType::A).copied().unwrap_or_default()
    }
}

fn reply_to(question: &Message, answer: Answer) -> Option<Vec<u8>> {
    let query = question.queries[0].clone();
    let mut reply = Message::new(question.metadata.id, MessageType::Response, question.metadata.op_code);
    reply.metadata.recursion_desired = true;
    reply.metadata.recursion_available = true;
    reply.add_query(query.clone());
    match answer {
        Answer::Silence => return None,
        Answer::Failure => reply.metadata.response_code = ResponseCode::ServFail,
        Answer::NoSuchName => reply.metadata.response_code = ResponseCode::NXDomain,
        Answer::Addresses(addresses, ttl) => {
            let of_family = addresses.into_iter().filter(|ip| ip.is_ipv4() == (query.query_type() == RecordType::A));
            reply.add_answers(of_family.map(|ip| Record::from_rdata(query.name().clone(), ttl, RData::from(ip))));
        }
        Answer::Texts(texts) => {
            let texts = texts.into_iter().filter(|_| query.query_type() == RecordType::TXT);
            // Long texts come in pieces.
            let split =
                |text: String| text.as_bytes().chunks(20).map(|piece| String::from_utf8_lossy(piece).into_owned()).collect();
            reply.add_answers(texts.map(|text| Record::from_rdata(query.name().clone(), 1, RData::TXT(TXT::new(split(text))))));
        }
    }
    Some(reply.to_vec().unwrap())
}
