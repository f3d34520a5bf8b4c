//! The sign-in link of `tenantd demo`: printed, redeemed once, issued again at the next start, and opened in the browser.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Stdio,
};

use serde_json::{Value, json};

use crate::{Server, tenantd, text};

const LINK: &str = "/api/auth/sign-in-link";

/// The token in the link that the server has printed.
fn token(server: &Server) -> String {
    let (url, link) = (server.info["url"].as_str().unwrap(), server.info["sign_in_url"].as_str().unwrap());
    link.strip_prefix(&format!("{url}/sign-in?link=")).unwrap_or_else(|| panic!("{link}")).to_owned()
}

/// The whole response to a request.
fn exchange(server: &Server, method: &str, path: &str, headers: &str, body: &str) -> String {
    let url = server.info["url"].as_str().unwrap();
    let mut connection = TcpStream::connect(url.trim_start_matches("http://")).unwrap();
    let length = body.len();
    write!(connection, "{method} {path} HTTP/1.0\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// Redeems the token and returns the credential that its session has.
fn sign_in(server: &Server, token: &str) -> Value {
    let body = json!({"token": token}).to_string();
    let answer = exchange(server, "POST", LINK, "Content-Type: application/json\r\n", &body);
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap_or_else(|| panic!("{answer}"));
    let cookie = format!("Cookie: {}\r\n", cookie.split(';').next().unwrap());
    let session = exchange(server, "GET", "/api/auth/session", &cookie, "");
    let (_, body) = session.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {session}"))
}

#[test]
fn the_link_of_a_demo_signs_in_once() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path());
    let first = token(&server);
    let me = sign_in(&server, &first);
    assert_eq!((&me["email"], &me["tenant"]["id"]), (&server.info["email"], &server.info["tenant_id"]));
    assert_eq!(server.post(LINK, &json!({"token": first}))["code"], "invalid_credentials");
    assert_eq!(server.stop(), Some(0));

    let server = Server::start(directory.path());
    let unused = token(&server);
    assert_ne!(unused, first);
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(directory.path());
    assert_eq!(server.post(LINK, &json!({"token": unused}))["code"], "invalid_credentials", "each start issues the only link");
    assert_eq!(sign_in(&server, &token(&server))["role"], "admin");
    server.json(&["tenant", "suspend", "demo"]);
    assert_eq!(server.stop(), Some(0));

    let server = Server::start(directory.path());
    assert_eq!(server.info.get("sign_in_url"), None, "no link works in a suspended tenant");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_demo_prints_its_link_first() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().display().to_string();
    let arguments = ["demo", "--listen", "127.0.0.1:0", "--data-dir", &path, "--tickets", "0"];
    let mut child = tenantd(&arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let shown: Vec<String> = lines.filter(|line| !line.is_empty()).take(3).collect();
    child.kill().unwrap();
    child.wait().unwrap();
    let (_, url) = shown[0].split_once(" is ready at ").unwrap_or_else(|| panic!("{shown:?}"));
    let link = shown[1].strip_prefix("Open ").and_then(|line| line.strip_suffix(" to sign in. The link works once."));
    assert!(link.is_some_and(|link| link.starts_with(&format!("{url}/sign-in?link="))), "{shown:?}");
    assert_eq!(shown[2], format!("sign in        {url}/sign-in"));
}

/// Starts a demo that opens its link, with this search path for programs. Returns it with its standard error.
fn opening(directory: &Path, search: &str) -> (Server, impl BufRead + use<>) {
    let path = directory.display().to_string();
    let arguments = ["demo", "--listen", "127.0.0.1:0", "--data-dir", &path, "--json", "--tickets", "0", "--open"];
    let mut child = tenantd(&arguments).env("PATH", search).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let info = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let errors = BufReader::new(child.stderr.take().unwrap());
    (Server { child, directory: directory.to_owned(), info }, errors)
}

#[test]
fn a_demo_opens_its_link_in_the_browser() {
    let directory = tempfile::tempdir().unwrap();
    let (programs, opened) = (directory.path().join("programs"), directory.path().join("opened"));
    std::fs::create_dir(&programs).unwrap();
    for name in ["xdg-open", "open"] {
        let program = programs.join(name);
        let part = format!("{}.part", opened.display());
        let script = format!("#!/bin/sh\nprintf '%s %s' $# \"$1\" > '{part}'\nmv '{part}' '{}'\n", opened.display());
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let search = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let (server, _errors) = opening(&directory.path().join("data"), &search);
    let seen = loop {
        match std::fs::read(&opened) {
            Ok(seen) => break text(&seen),
            Err(_) => std::thread::yield_now(),
        }
    };
    assert_eq!(seen, format!("1 {}", server.info["sign_in_url"].as_str().unwrap()));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_demo_without_a_browser_continues() {
    let directory = tempfile::tempdir().unwrap();
    let nothing = directory.path().join("nothing");
    std::fs::create_dir(&nothing).unwrap();
    let (server, mut errors) = opening(&directory.path().join("data"), &nothing.display().to_string());
    let mut said = String::new();
    while !said.contains("did not open the link") {
        assert!(errors.read_line(&mut said).unwrap() > 0, "{said}");
    }
    assert!(said.contains("Open it yourself."), "{said}");
    assert_eq!(sign_in(&server, &token(&server))["kind"], "user");
    assert_eq!(server.stop(), Some(0));
}
