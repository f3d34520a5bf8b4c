//! Markdown as HTML: of guides, the changelog and the descriptions in the published document. Markup in the source is shown as text, and links
//! lead to this site or to `https`, so a text cannot put anything into a page but text.

use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{CodeBlockKind, CowStr, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use crate::components::code_block;

/// A text with its headings.
#[derive(Debug)]
pub struct Document {
    pub title: String,
    /// Headings of the second level with their anchors.
    pub sections: Vec<(String, String)>,
    pub body: Markup,
}

/// Renders a description: paragraphs, lists and code.
pub fn description(source: &str) -> Markup {
    html! { div.prose { (document(source).body) } }
}

/// Renders the text of a table's cell: without a paragraph when it has only one.
pub fn cell(source: &str) -> Markup {
    let Markup { 0: rendered } = document(source).body;
    let inner = rendered.trim().strip_prefix("<p>").and_then(|rest| rest.strip_suffix("</p>"));
    PreEscaped(inner.filter(|inner| !inner.contains("<p>")).map_or(rendered.clone(), str::to_owned))
}

/// Renders a text. Its first heading of the first level becomes the title and is left out of the body.
pub fn document(source: &str) -> Document {
    let mut parts = Parts::default();
    let mut events = Vec::new();
    for event in Parser::new_ext(source, Options::ENABLE_TABLES) {
        parts.take(event, &mut events);
    }
    let mut body = String::new();
    pulldown_cmark::html::push_html(&mut body, events.into_iter());
    Document { title: parts.title, sections: parts.sections, body: PreEscaped(body) }
}

#[derive(Default)]
struct Parts {
    title: String,
    sections: Vec<(String, String)>,
    /// The heading that is open: its level and text.
    heading: Option<(HeadingLevel, String)>,
    /// The code block that is open: its language and text.
    code: Option<(String, String)>,
}

impl Parts {
    fn take<'a>(&mut self, event: Event<'a>, events: &mut Vec<Event<'a>>) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let info = if let CodeBlockKind::Fenced(info) = kind { info.to_string() } else { String::new() };
                self.code = Some((info.split_whitespace().next().unwrap_or_default().to_owned(), String::new()));
            }
            Event::End(TagEnd::CodeBlock) => {
                if let Some((language, text)) = self.code.take() {
                    events.push(Event::Html(code_block(&language, &text).into_string().into()));
                }
            }
            Event::Text(text) if self.code.is_some() => self.code.iter_mut().for_each(|(_, code)| code.push_str(&text)),
            Event::Start(Tag::Heading { level, .. }) => self.heading = Some((level, String::new())),
            Event::End(TagEnd::Heading(_)) => self.end_heading(events),
            Event::Text(text) | Event::Code(text) if self.heading.is_some() => {
                self.heading.iter_mut().for_each(|(_, heading)| heading.push_str(&text));
            }
            Event::Start(Tag::Table(alignments)) => {
                events.push(Event::Html("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">".into()));
                events.push(Event::Start(Tag::Table(alignments)));
            }
            Event::End(TagEnd::Table) => {
                events.push(Event::End(TagEnd::Table));
                events.push(Event::Html("</div>".into()));
            }
            Event::Html(text) | Event::InlineHtml(text) => events.push(Event::Text(text)),
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = CowStr::from(target(&dest_url));
                events.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            // The binary has no pictures.
            Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => {}
            event => events.push(event),
        }
    }

    fn end_heading(&mut self, events: &mut Vec<Event<'_>>) {
        let Some((level, text)) = self.heading.take() else { return };
        if level == HeadingLevel::H1 && self.title.is_empty() {
            self.title = text;
            return;
        }
        let anchor = anchor(&text);
        let heading = match level {
            HeadingLevel::H1 | HeadingLevel::H2 => html! { h2 id=(anchor) { (text) } },
            HeadingLevel::H3 => html! { h3 id=(anchor) { (text) } },
            _ => html! { h4 { (text) } },
        };
        if level == HeadingLevel::H2 {
            self.sections.push((anchor, text));
        }
        events.push(Event::Html(heading.into_string().into()));
    }
}

/// Where a link leads. A guide links to the file of another guide, so that the link works in the repository as well.
fn target(link: &str) -> String {
    let (file, fragment) = link.split_once('#').map_or((link, None), |(file, fragment)| (file, Some(fragment)));
    let path = match file.strip_suffix(".md") {
        Some(name) if !name.contains('/') => format!("/documentation/guides/{name}/"),
        _ if file.is_empty() || (file.starts_with('/') && !file.starts_with("//")) || file.starts_with("https://") => {
            file.to_owned()
        }
        _ => return "/documentation/".to_owned(),
    };
    fragment.map_or(path.clone(), |fragment| format!("{path}#{fragment}"))
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(text: &str) -> String {
    let anchored = |letter: char| match letter {
        ' ' => Some('-'),
        letter if letter.is_alphanumeric() || "-_".contains(letter) => Some(letter),
        _ => None,
    };
    text.to_lowercase().chars().filter_map(anchored).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_a_text_stays_text() {
        let source = "<script>alert(1)</script>\n\na <b>c</b> [x](javascript:alert(1)) ![p](https://a.example/p.png)";
        let rendered = description(source).into_string();
        assert!(!rendered.contains("<script") && !rendered.contains("<b>") && !rendered.contains("<img"), "{rendered}");
        assert!(rendered.contains("<a href=\"/documentation/\">x</a>"), "{rendered}");
    }

    #[test]
    fn code_keeps_its_characters_and_is_escaped() {
        let rendered = document("```sh\ncurl \"$URL\" <x>\n```\n").body.into_string();
        assert!(rendered.contains("curl &quot;$URL&quot; &lt;x&gt;"), "{rendered}");
        assert!(rendered.contains("language-sh"), "{rendered}");
    }

    #[test]
    fn links_between_guides_lead_to_their_pages() {
        assert_eq!(target("webhooks.md#verify"), "/documentation/guides/webhooks/#verify");
        assert_eq!(target("/documentation/errors/"), "/documentation/errors/");
        assert_eq!(target("#here"), "#here");
        assert_eq!(target("https://example.com/a.md"), "https://example.com/a.md");
        assert_eq!(target("//evil.example"), "/documentation/");
        assert_eq!(target("javascript:alert(1)"), "/documentation/");
    }

    #[test]
    fn headings_have_the_anchors_of_github() {
        let document = document("# A guide\n\n## Use `If-Match`, twice\n\ntext\n");
        assert_eq!(document.title, "A guide");
        assert_eq!(document.sections, [("use-if-match-twice".to_owned(), "Use If-Match, twice".to_owned())]);
        assert!(!document.body.into_string().contains("A guide"));
    }

    #[test]
    fn a_cell_has_no_paragraph() {
        assert_eq!(cell("`a` or *b*").into_string(), "<code>a</code> or <em>b</em>");
        assert!(cell("a\n\nb").into_string().contains("<p>a</p>"));
    }
}
