//! Names the device of a session in words, from the `User-Agent` header that its client sent.

/// Browsers and other clients, by a part of their user agent. The first that matches counts: most browsers also name others.
const CLIENTS: [(&str, &str); 12] = [
    ("Edg/", "Edge"),
    ("EdgA/", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python-", "Python"),
];

const SYSTEMS: [(&str, &str); 8] = [
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("CrOS", "ChromeOS"),
    ("Mac OS X", "macOS"),
    ("Macintosh", "macOS"),
    ("Linux", "Linux"),
];

/// Returns words such as `Firefox on Linux`. A client says about itself what it likes, so the words help to recognize a device and
/// prove nothing.
pub fn device(user_agent: Option<&str>) -> String {
    let Some(text) = user_agent else { return "Unknown device".to_owned() };
    let find = |known: &[(&'static str, &'static str)]| known.iter().find(|(part, _)| text.contains(part)).map(|(_, name)| *name);
    match (find(&CLIENTS), find(&SYSTEMS)) {
        (Some(client), Some(system)) => format!("{client} on {system}"),
        (Some(client), None) => client.to_owned(),
        (None, Some(system)) => format!("Unknown browser on {system}"),
        (None, None) => "Unknown device".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_in_words() {
        for (user_agent, words) in [
            ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
            (
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0",
                "Edge on Windows",
            ),
            (
                "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Safari/605.1.15",
                "Safari on macOS",
            ),
            (
                "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36",
                "Chrome on Android",
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/140.0 Safari/604.1",
                "Chrome on iPhone",
            ),
            ("curl/8.5.0", "curl"),
            ("something else", "Unknown device"),
        ] {
            assert_eq!(device(Some(user_agent)), words, "{user_agent}");
        }
        assert_eq!(device(None), "Unknown device");
    }
}
