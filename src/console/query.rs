//! The query of a list: its filters, sort and page are the URL, with the names of the API's parameters.

use form_urlencoded::Serializer;

/// The pairs of a query string, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Pairs without a value are dropped: an empty field of a filter form filters nothing.
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = form_urlencoded::parse(text.as_bytes()).into_owned();
        Self(pairs.map(|(name, value)| (name, value.trim().to_owned())).filter(|(_, value)| !value.is_empty()).collect())
    }

    pub(crate) fn first(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.0.iter().any(|(known, found)| known == name && found == value)
    }

    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self
    }

    /// Sets a parameter to one value.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.without(name).and(name, value)
    }

    /// Adds another value of a parameter.
    pub(crate) fn and(mut self, name: &str, value: &str) -> Self {
        self.0.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a parameter unless the query has it.
    pub(crate) fn or(self, name: &str, value: &str) -> Self {
        if self.0.iter().any(|(known, _)| known == name) { self } else { self.with(name, value) }
    }

    /// The query without parameters that have no value.
    pub(crate) fn filled(mut self) -> Self {
        self.0.retain(|(_, value)| !value.is_empty());
        self
    }

    /// The path with this query.
    pub(crate) fn at(&self, path: &str) -> String {
        if self.0.is_empty() {
            return path.to_owned();
        }
        let mut query = Serializer::new(String::new());
        query.extend_pairs(&self.0);
        format!("{path}?{}", query.finish())
    }

    pub(crate) fn text(&self) -> String {
        Serializer::new(String::new()).extend_pairs(&self.0).finish()
    }
}

/// A segment of a path.
pub(crate) fn segment(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_changed_in_one_parameter_and_keeps_the_others() {
        let query = Query::parse("status=open&status=new&q=&sort=-priority&cursor=abc");
        assert_eq!((query.first("sort"), query.first("q")), ("-priority", ""));
        assert!(query.has("status", "new") && !query.has("status", "closed"));
        assert_eq!(
            query.clone().without("cursor").with("sort", "number").at("/tickets"),
            "/tickets?status=open&status=new&sort=number"
        );
        assert_eq!(Query::default().at("/tickets"), "/tickets");
        assert_eq!(Query::default().or("limit", "50").or("limit", "1").text(), "limit=50");
        assert_eq!(segment("a/b c?"), "a%2Fb%20c%3F");
    }
}
