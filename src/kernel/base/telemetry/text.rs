//! Log lines for people.
//!
//! **Invariant:** an event is one line. A value can contain text of others, such as the error of an identity provider or a host
//! name. Characters that end the line or control a terminal are escaped, so that nobody can forge a log line.

use std::fmt::{self, Write};

use tracing::Subscriber;
use tracing_subscriber::{
    field::RecordFields,
    fmt::{
        FormatFields, Layer, MakeWriter,
        format::{DefaultFields, Format, Writer},
    },
    registry::LookupSpan,
};

/// The layer that writes the lines.
pub(super) fn layer<S, W>(writer: W) -> Layer<S, OneLine, Format, W>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    W: for<'writer> MakeWriter<'writer> + 'static,
{
    tracing_subscriber::fmt::layer().with_ansi(false).fmt_fields(OneLine).with_writer(writer)
}

/// Formats fields like the crate, but on one line.
pub(super) struct OneLine;

impl<'writer> FormatFields<'writer> for OneLine {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        DefaultFields::new().format_fields(Writer::new(&mut Escaping(writer)), fields)
    }
}

struct Escaping<'a>(Writer<'a>);

impl Write for Escaping<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Includes the two separators that some viewers treat as the end of a line.
        let steers = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
        let mut rest = text;
        while let Some(place) = rest.find(steers) {
            let (plain, tail) = rest.split_at(place);
            self.0.write_str(plain)?;
            let mut letters = tail.chars();
            for letter in letters.by_ref().take(1) {
                write!(self.0, "{}", letter.escape_default())?;
            }
            rest = letters.as_str();
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_value_can_forge_a_line() {
        let written = Written::default();
        let writer = written.clone();
        let subscriber = tracing_subscriber::registry().with(layer(move || writer.clone()));
        let forged = "denied\r\n2026-01-01T00:00:00Z  INFO tenantd: signed in\u{1b}[2K\u{2028}x\u{85}\t\u{0}é";
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(error = %forged, ours = 7, "a provider refused a code");
            tracing::info!(text = forged, "quoted");
            tracing::info!("the message says {forged}");
            let _inside = tracing::info_span!("span", name = %forged).entered();
            tracing::info!("within");
        });
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<&str> = text.split_terminator('\n').collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines.iter().all(|line| !line.contains(|letter: char| letter.is_control() || letter == '\u{2028}')), "{text}");
        assert!(lines.iter().all(|line| line.contains("INFO") && !line.starts_with("2026-01-01T00:00:00Z")), "{text}");
        let [first, ..] = lines.as_slice() else { panic!("{text}") };
        assert!(
            first.contains("a provider refused a code error=denied\\r\\n2026-01-01T00:00:00Z  INFO tenantd: signed in"),
            "{first}"
        );
        assert!(first.ends_with("\\u{2028}x\\u{85}\\t\\u{0}é ours=7"), "other characters are not escaped: {first}");
    }
}
