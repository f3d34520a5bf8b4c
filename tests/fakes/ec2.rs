//! A strict server for the used parts of the EC2 Query API and of STS: it refuses a wrong path, method, media type or signature
//! like AWS. It records everything it creates, so tests can detect duplicates.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc},
};

pub const ACCESS_KEY_ID: &str = "AKIAFAKEFAKEFAKEFAKE";
pub const SECRET_ACCESS_KEY: &str = "canary-secret-access-key-0123456789";

/// A fault instead of, before or after carrying out a request.
#[derive(Clone, Debug)]
pub enum Trouble {
    /// Refused with this status, code and header line.
    Refuse(u16, &'static str, &'static str),
    /// Delayed until a permit is available, then carried out.
    HoldBefore(Arc<Semaphore>),
    /// Carried out, then the response is delayed until a permit is available.
    HoldAfter(Arc<Semaphore>),
    /// Carried out, then the connection is closed without a response.
    CloseAfter,
}

#[derive(Clone, Debug)]
pub struct Instance {
    pub id: String,
    pub state: &'static str,
    pub token: String,
    pub tags: BTreeMap<String, String>,
    pub user_data: String,
    pub private_ip: &'static str,
}

#[derive(Default)]
struct State {
    instances: Vec<Instance>,
    creations: usize,
    troubles: HashMap<&'static str, VecDeque<Trouble>>,
    /// Whether client tokens are respected, as AWS does and others do not.
    honours_tokens: bool,
    /// Whether a new instance stays pending.
    boots_slowly: bool,
}

#[derive(Clone)]
pub struct FakeEc2 {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
    arrived: Arc<tokio::sync::Mutex<mpsc::UnboundedReceiver<String>>>,
}

impl FakeEc2 {
    pub async fn start(instances: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut state = State { honours_tokens: true, ..State::default() };
        for number in 0..instances {
            let tags = BTreeMap::from([("Name".to_owned(), format!("old-{number:03}"))]);
            let id = format!("i-{number:017x}");
            let (token, user_data) = (String::new(), String::new());
            state.instances.push(Instance { id, state: "running", token, tags, user_data, private_ip: "10.0.0.1" });
        }
        let state = Arc::new(Mutex::new(state));
        let (sender, arrived) = mpsc::unbounded_channel();
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, address, shared.clone(), sender.clone()));
            }
        });
        Self { address, state, arrived: Arc::new(tokio::sync::Mutex::new(arrived)) }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Applies this fault to the next requests of the action.
    pub fn trouble(&self, action: &'static str, trouble: Trouble, times: usize) {
        let mut state = self.state.lock().unwrap();
        state.troubles.entry(action).or_default().extend(std::iter::repeat_n(trouble, times));
    }

    pub fn clear_troubles(&self) {
        self.state.lock().unwrap().troubles.clear();
    }

    pub fn ignore_tokens(&self) {
        self.state.lock().unwrap().honours_tokens = false;
    }

    pub fn boot_slowly(&self, slowly: bool) {
        self.state.lock().unwrap().boots_slowly = slowly;
    }

    pub fn creations(&self) -> usize {
        self.state.lock().unwrap().creations
    }

    pub fn instances(&self) -> Vec<Instance> {
        self.state.lock().unwrap().instances.clone()
    }

    pub fn set_state(&self, id: &str, to: &'static str) {
        let mut state = self.state.lock().unwrap();
        state.instances.iter_mut().filter(|instance| instance.id == id).for_each(|instance| instance.state = to);
    }

    /// Changes an instance, for example into an unreadable one.
    pub fn change(&self, id: &str, change: impl Fn(&mut Instance)) {
        self.state.lock().unwrap().instances.iter_mut().filter(|instance| instance.id == id).for_each(change);
    }

    pub fn forget(&self, id: &str) {
        self.state.lock().unwrap().instances.retain(|instance| instance.id != id);
    }

    /// Waits until a request of the action has arrived.
    pub async fn arrived(&self, action: &str) {
        let mut arrived = self.arrived.lock().await;
        while arrived.recv().await.unwrap() != action {}
    }
}

struct Request {
    head: String,
    headers: HashMap<String, String>,
    body: String,
}

async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
        // The client tries to start a TLS handshake.
        if bytes.first().is_some_and(|byte| !byte.is_ascii_uppercase()) {
            return None;
        }
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let text = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = text.lines();
    let head = lines.next()?.to_owned();
    let headers: HashMap<String, String> =
        lines.filter_map(|line| line.split_once(": ")).map(|(name, value)| (name.to_lowercase(), value.to_owned())).collect();
    let length: usize = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or_default();
    while bytes.len() < end + length {
        let mut buffer = [0; 4096];
        let count = stream.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&buffer[..count]);
    }
    Some(Request { head, headers, body: String::from_utf8(bytes[end..].to_vec()).ok()? })
}

async fn serve(mut stream: TcpStream, address: SocketAddr, state: Arc<Mutex<State>>, arrived: mpsc::UnboundedSender<String>) {
    while let Some(request) = read(&mut stream).await {
        let parameters: HashMap<String, String> = form_urlencoded::parse(request.body.as_bytes()).into_owned().collect();
        let action = parameters.get("Action").cloned().unwrap_or_default();
        let trouble = {
            let mut state = state.lock().unwrap();
            state.troubles.get_mut(action.as_str()).and_then(VecDeque::pop_front)
        };
        drop(arrived.send(action.clone()));
        if let Some(Trouble::HoldBefore(gate)) = &trouble {
            gate.acquire().await.unwrap().forget();
        }
        let (status, line, body) = match &trouble {
            Some(Trouble::Refuse(status, code, line)) => (*status, *line, error(code)),
            _ => match refuse(&request, address, &action) {
                Some((status, code)) => (status, "", error(code)),
                None => answer(&mut state.lock().unwrap(), &action, &parameters),
            },
        };
        match &trouble {
            Some(Trouble::HoldAfter(gate)) => gate.acquire().await.unwrap().forget(),
            Some(Trouble::CloseAfter) => return,
            _ => {}
        }
        let line = if line.is_empty() { String::new() } else { format!("{line}\r\n") };
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: text/xml;charset=UTF-8\r\n{line}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn error(code: &str) -> String {
    format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>{code} it is</Message></Error></Errors><RequestID>r</RequestID></Response>"
    )
}

/// The refusal that AWS would return.
fn refuse(request: &Request, address: SocketAddr, action: &str) -> Option<(u16, &'static str)> {
    let header = |name: &str| request.headers.get(name).map_or("", String::as_str);
    if request.head != "POST / HTTP/1.1" || header("host") != address.to_string() {
        return Some((400, "InvalidRequest"));
    }
    if header("content-type") != "application/x-www-form-urlencoded; charset=utf-8" {
        return Some((400, "UnsupportedProtocol"));
    }
    let version = if action == "GetCallerIdentity" { "Version=2011-06-15" } else { "Version=2016-11-15" };
    if !request.body.contains(version) {
        return Some((400, "NoSuchVersion"));
    }
    let service = if action == "GetCallerIdentity" { "sts" } else { "ec2" };
    let authorization = header("authorization");
    let part = |name: &str| authorization.split([' ', ',']).find_map(|part| part.strip_prefix(name)).unwrap_or_default();
    let scope: Vec<&str> = part("Credential=").split('/').collect();
    let [key, day, region, named, "aws4_request"] = scope.as_slice() else { return Some((400, "IncompleteSignature")) };
    if *key != ACCESS_KEY_ID {
        return Some((401, "AuthFailure"));
    }
    if *named != service || !header("x-amz-date").starts_with(day) {
        return Some((403, "SignatureDoesNotMatch"));
    }
    let names = part("SignedHeaders=");
    let canonical: String = names.split(';').map(|name| format!("{name}:{}\n", header(name))).collect();
    let canonical = format!("POST\n/\n\n{canonical}\n{names}\n{}", hex(&Sha256::digest(request.body.as_bytes())));
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{}\n{day}/{region}/{service}/aws4_request\n{}",
        header("x-amz-date"),
        hex(&Sha256::digest(canonical.as_bytes()))
    );
    let mac = |key: &[u8], text: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(text.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let key = [*day, *region, service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{SECRET_ACCESS_KEY}").into_bytes(), |key, step| mac(&key, step));
    let complete = ["content-type", "host", "x-amz-date"].iter().all(|name| names.split(';').any(|signed| signed == *name));
    (!complete || hex(&mac(&key, &to_sign)) != part("Signature=")).then_some((403, "SignatureDoesNotMatch"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn answer(state: &mut State, action: &str, parameters: &HashMap<String, String>) -> (u16, &'static str, String) {
    let text = |name: &str| parameters.get(name).map_or("", String::as_str);
    match action {
        "GetCallerIdentity" => (
            200,
            "",
            "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/tenantd</Arn>\
             <UserId>AIDA</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
                .to_owned(),
        ),
        "DescribeInstanceTypes" => (
            200,
            "",
            "<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>t3.small</instanceType><vCpuInfo><defaultVCpus>2</defaultVCpus>\
             </vCpuInfo><memoryInfo><sizeInMiB>2048</sizeInMiB></memoryInfo></item></instanceTypeSet></DescribeInstanceTypesResponse>"
                .to_owned(),
        ),
        "DescribeInstances" => describe(state, parameters),
        "RunInstances" if text("DryRun") == "true" => (412, "", error("DryRunOperation")),
        "RunInstances" => {
            assert_eq!((text("MinCount"), text("MaxCount")), ("1", "1"));
            assert!(!text("ClientToken").is_empty() && text("ClientToken").len() <= 64, "an order has a token");
            if text("ImageId") == "ami-missing" {
                return (400, "", error("InvalidAMIID.NotFound"));
            }
            let known = state.instances.iter().position(|instance| instance.token == text("ClientToken"));
            let place = known.filter(|_| state.honours_tokens).unwrap_or_else(|| create(state, parameters));
            let item = item(&state.instances[place]);
            (200, "", format!("<RunInstancesResponse><reservationId>r</reservationId><instancesSet>{item}</instancesSet></RunInstancesResponse>"))
        }
        _ => (400, "", error("InvalidAction")),
    }
}

/// The place of a new instance.
fn create(state: &mut State, parameters: &HashMap<String, String>) -> usize {
    let text = |name: &str| parameters.get(name).cloned().unwrap_or_default();
    let tags = (1..20).filter_map(|place| {
        let part = |name: &str| parameters.get(&format!("TagSpecification.1.Tag.{place}.{name}")).cloned();
        Some((part("Key")?, part("Value")?))
    });
    state.creations += 1;
    state.instances.push(Instance {
        id: format!("i-{:017x}", 0xabc_0000 + state.creations),
        state: "pending",
        token: text("ClientToken"),
        tags: tags.collect(),
        user_data: text("UserData"),
        private_ip: "10.0.0.1",
    });
    state.instances.len() - 1
}

fn describe(state: &mut State, parameters: &HashMap<String, String>) -> (u16, &'static str, String) {
    let id = parameters.get("InstanceId.1");
    let tag = parameters.get("Filter.1.Name").and_then(|name| name.strip_prefix("tag:"));
    let wanted = |instance: &Instance| {
        id.is_none_or(|id| instance.id == *id) && tag.is_none_or(|tag| instance.tags.get(tag) == parameters.get("Filter.1.Value.1"))
    };
    let found: Vec<Instance> = state.instances.iter().filter(|instance| wanted(instance)).cloned().collect();
    if found.is_empty() && id.is_some() {
        return (400, "", error("InvalidInstanceID.NotFound"));
    }
    let start: usize = parameters.get("NextToken").and_then(|token| token.strip_prefix("page-")?.parse().ok()).unwrap_or_default();
    let limit: usize = parameters.get("MaxResults").map_or(usize::MAX, |limit| limit.parse().unwrap());
    let items: String = found.iter().skip(start).take(limit).map(item).collect();
    let next = if found.len() > start.saturating_add(limit) {
        format!("<nextToken>page-{}</nextToken>", start + limit)
    } else {
        String::new()
    };
    if !state.boots_slowly {
        state.instances.iter_mut().filter(|instance| instance.state == "pending").for_each(|instance| instance.state = "running");
    }
    let body = format!(
        "<DescribeInstancesResponse><reservationSet><item><reservationId>r</reservationId><instancesSet>{items}</instancesSet></item>\
         </reservationSet>{next}</DescribeInstancesResponse>"
    );
    (200, "", body)
}

fn item(instance: &Instance) -> String {
    let tags: String =
        instance.tags.iter().map(|(key, value)| format!("<item><key>{key}</key><value>{value}</value></item>")).collect();
    format!(
        "<item><instanceId>{}</instanceId><imageId>ami-1</imageId><instanceState><code>0</code><name>{}</name></instanceState>\
         <instanceType>t3.small</instanceType><privateIpAddress>{}</privateIpAddress><launchTime>2026-01-01T00:00:00.000Z</launchTime>\
         <placement><availabilityZone>us-east-1a</availabilityZone></placement><tagSet>{tags}</tagSet></item>",
        instance.id, instance.state, instance.private_ip
    )
}
