//! The frame of the HTML pages: one style sheet inline, no script, readable without either.

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;color:#1c2733;background:#fff}\
nav a{margin-right:1rem}a{color:#0b5cad}code,pre{font:14px/1.45 ui-monospace,monospace;background:#f2f5f8;border-radius:4px}\
code{padding:0 .25em}pre{padding:.75rem;overflow-x:auto}table{border-collapse:collapse;width:100%;margin:1rem 0}\
th,td{text-align:left;vertical-align:top;padding:.4rem .6rem;border-bottom:1px solid #d7dee6}th{background:#f2f5f8}\
small{color:#56677a;font-weight:normal}section{margin:2rem 0}h1,h2,h3{line-height:1.2}.ok{color:#176b2c}.bad{color:#a11616}\
form{max-width:26rem}label{display:block;margin:1rem 0 .25rem;font-weight:600}input,button{font:inherit;padding:.5rem .6rem;border-radius:4px}\
input{width:100%;box-sizing:border-box;border:1px solid #56677a;background:inherit;color:inherit}\
button{margin-top:1rem;border:0;background:#0b5cad;color:#fff;cursor:pointer}[role=alert]{border-left:4px solid #a11616;padding:.25rem .75rem}\
.banner{border-left:4px solid #e0a100;padding:.25rem .75rem}:focus-visible{outline:3px solid #e0a100;outline-offset:2px}\
figure{margin:1.5rem 0}figcaption{font-weight:600}.bar{fill:#0b5cad}.axis{stroke:#56677a}.label{font-size:11px;fill:#56677a}\
@media(prefers-color-scheme:dark){body{background:#12181f;color:#dde5ee}code,pre,th{background:#1d2630}a{color:#7db8f0}\
td,th{border-color:#33414f}small{color:#9fb0c2}.ok{color:#6fd08c}.bad{color:#ff8d8d}.bar{fill:#7db8f0}\
.axis{stroke:#9fb0c2}.label{fill:#9fb0c2}}";

const LINKS: [(&str, &str); 10] = [
    ("/documentation/", "API reference"),
    ("/documentation/scopes/", "Scopes"),
    ("/documentation/events/", "Events"),
    ("/documentation/errors/", "Errors"),
    ("/documentation/keys/", "Signing keys"),
    ("/api/rate-limits/", "Rate limits"),
    ("/documentation/changelog/", "Changelog"),
    ("/documentation/analytics/", "Analytics"),
    ("/status/", "Status"),
    ("/sign-in", "Sign in"),
];

pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// A page under construction. Text that goes in through a named method is escaped.
#[derive(Debug)]
pub struct Html(String);

impl Html {
    pub fn new(title: &str) -> Self {
        let mut page = Self::without_heading(title);
        page.raw(&format!("<h1>{}</h1>", escape(title)));
        page
    }

    pub fn without_heading(title: &str) -> Self {
        let links: String = LINKS.iter().map(|(path, name)| format!("<a href=\"{path}\">{name}</a>")).collect();
        Self(format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{} – tenantd</title>\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\"><style>{STYLE}</style></head>\
             <body><nav aria-label=\"Documentation\">{links}</nav><main>",
            escape(title)
        ))
    }

    /// Says on top of the page that what is seen belongs to somebody who evaluates.
    pub fn evaluation_banner(&mut self, tenant: &str) {
        self.raw(&format!(
            "<p role=\"note\" class=\"banner\"><strong>Evaluation.</strong> What {} shows is invented, and ends with it.</p>",
            escape(tenant)
        ));
    }

    /// HTML that is safe already.
    pub fn raw(&mut self, html: &str) {
        self.0.push_str(html);
    }

    pub fn paragraph(&mut self, text: &str) {
        self.raw(&format!("<p>{}</p>", escape(text)));
    }

    pub fn table(&mut self, heads: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
        let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escape(head))).collect();
        self.raw(&format!("<table><thead><tr>{heads}</tr></thead><tbody>"));
        for row in rows {
            let cells: String = row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            self.raw(&format!("<tr>{cells}</tr>"));
        }
        self.raw("</tbody></table>");
    }

    pub fn finish(mut self) -> String {
        self.raw("</main></body></html>");
        self.0
    }
}
