//! HTTP/2 by hand: more streams than allowed, and streams that are opened and reset immediately.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    process::Server,
    wire::{attacker, connect_from},
};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const MAX_CONCURRENT_STREAMS: u16 = 3;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;
const CANCEL: u32 = 8;
/// The configured limit.
const STREAMS: u32 = 100;
const EXCESS: u32 = 50;
const RESETS: u32 = 20_000;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The next frame, or `None` at the end of the connection.
async fn read_frame(connection: &mut TcpStream) -> Option<Frame> {
    let mut head = [0; 9];
    connection.read_exact(&mut head).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    connection.read_exact(&mut payload).await.ok()?;
    Some(Frame { kind: head[3], flags: head[4], stream: u32::from_be_bytes(head[5..9].try_into().unwrap()), payload })
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

/// The header fields of a request, none of which the peer adds to its table.
fn get(server: &Server, path: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let authority = server.address.to_string();
    // Entries 2 and 6 of the static table are the method GET and the scheme http; 4 and 1 are the names of path and authority.
    [vec![0x82, 0x86, 0x04], text(path), vec![0x01], text(&authority), vec![0x00], text("x-api-key"), text(&server.api_key)]
        .concat()
}

/// A connection with exchanged settings, and the number of streams that the server allows.
async fn open(server: &Server) -> (TcpStream, Option<u32>) {
    let mut connection = connect_from(attacker(0), server.address).await.unwrap();
    let preface = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".as_slice(), &frame(SETTINGS, 0, 0, &[])].concat();
    connection.write_all(&preface).await.unwrap();
    let settings = read_frame(&mut connection).await.unwrap();
    assert_eq!((settings.kind, settings.flags), (SETTINGS, 0));
    let streams = settings.payload.chunks(6).find(|entry| entry[..2] == MAX_CONCURRENT_STREAMS.to_be_bytes());
    connection.write_all(&frame(SETTINGS, 1, 0, &[])).await.unwrap();
    (connection, streams.map(|entry| number(&entry[2..])))
}

/// Opens more streams than allowed, each of which waits for an event that never comes.
pub async fn too_many(server: &Server) -> String {
    let (mut connection, allowed) = open(server).await;
    assert_eq!(allowed, Some(STREAMS), "the server does not say how many streams it allows");
    // The largest event number: no event follows it.
    let waiting = get(server, "/api/events?after=4611686018427387904&wait_seconds=30");
    let opened: Vec<u8> = (0..STREAMS + EXCESS).flat_map(|place| frame(HEADERS, 0x5, 2 * place + 1, &waiting)).collect();
    connection.write_all(&opened).await.unwrap();
    let mut refused = Vec::new();
    while refused.len() < EXCESS as usize {
        let frame = read_frame(&mut connection).await.expect("the server ended the connection");
        assert!(frame.kind != HEADERS && frame.kind != DATA, "stream {} was answered", frame.stream);
        if frame.kind == RST_STREAM {
            assert_eq!(number(&frame.payload), REFUSED_STREAM);
            refused.push(frame.stream);
        }
    }
    assert!(refused.iter().all(|stream| *stream > 2 * STREAMS), "streams within the limit were refused: {refused:?}");
    format!("{} of {} streams were refused", refused.len(), STREAMS + EXCESS)
}

/// Opens streams and resets them immediately, as long as the server allows it.
pub async fn reset(server: &Server) -> String {
    let (mut connection, _) = open(server).await;
    let request = get(server, "/api/auth/session");
    let flood: Vec<u8> = (0..RESETS)
        .flat_map(|place| {
            [frame(HEADERS, 0x5, 2 * place + 1, &request), frame(RST_STREAM, 0, 2 * place + 1, &CANCEL.to_be_bytes())]
        })
        .flatten()
        .collect();
    let (mut reader, mut writer) = connection.split();
    let send = async { writer.write_all(&flood).await.is_ok() };
    let watch = async {
        let mut seen = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while let Ok(length @ 1..) = reader.read(&mut buffer).await {
            seen.extend_from_slice(&buffer[..length]);
        }
        seen
    };
    let (taken, seen) = tokio::join!(send, watch);
    let mut rest = seen.as_slice();
    let mut code = None;
    while let Some((head, after)) = rest.split_at_checked(9) {
        let length = usize::try_from(u32::from_be_bytes([0, head[0], head[1], head[2]])).unwrap();
        let Some((payload, after)) = after.split_at_checked(length) else { break };
        if head[3] == GOAWAY {
            code = Some(number(&payload[4..]));
        }
        rest = after;
    }
    // The connection has ended. The final frame may have been lost with the unread data.
    assert!(code.is_none_or(|reason| reason == ENHANCE_YOUR_CALM), "the server said {code:?}");
    format!("the connection was ended, reason {code:?}, the whole flood taken: {taken}")
}
