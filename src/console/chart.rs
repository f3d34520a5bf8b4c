//! Charts as SVG: bars over time, with a name and a description for people who do not see them, and the same figures as a table.

use maud::{Markup, html};

use crate::components::grouped;

pub(crate) const WIDTH: f64 = 720.0;
pub(crate) const HEIGHT: f64 = 160.0;
/// Room for the words at the axes.
pub(crate) const LEFT: f64 = 56.0;
pub(crate) const BOTTOM: f64 = 20.0;
/// A bar is as wide as if there were at least as many.
const FEWEST: usize = 12;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Mark {
    pub(crate) label: String,
    /// Absent where nothing was measured, which is not the same as zero.
    pub(crate) value: Option<f64>,
}

/// A series of figures with its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chart {
    /// Unique on its page, in letters, digits and hyphens.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What the bars are, in a sentence.
    pub(crate) description: String,
    pub(crate) unit: &'static str,
    pub(crate) marks: Vec<Mark>,
    /// The value at which the axis begins. A share near 100 shows nothing from 0.
    pub(crate) floor: f64,
}

impl Chart {
    /// The chart and its table.
    pub(crate) fn render(&self) -> Markup {
        let value = if self.unit.is_empty() { "value" } else { self.unit };
        html! {
            figure.chart {
                figcaption { (self.title) }
                (self.svg())
                details {
                    summary { (self.title) " as a table" }
                    div.scroll tabindex="0" role="group" aria-label=(self.title) {
                        table {
                            thead { tr { th scope="col" { "from" } th scope="col" { (value) } } }
                            tbody {
                                @for mark in &self.marks { tr { td { (mark.label) } td { (mark.value.map(number).unwrap_or_default()) } } }
                            }
                        }
                    }
                }
            }
        }
    }

    fn svg(&self) -> Markup {
        let most = self.marks.iter().filter_map(|mark| mark.value).fold(self.floor, f64::max);
        let top = if most > self.floor { most } else { self.floor + 1.0 };
        let drawn = HEIGHT - BOTTOM;
        let step = (WIDTH - LEFT) / self.marks.len().max(FEWEST) as f64;
        let end = |mark: Option<&Mark>| mark.map(|mark| mark.label.clone()).unwrap_or_default();
        let (title, description) = (format!("{}-title", self.id), format!("{}-desc", self.id));
        html! {
            svg role="img" aria-labelledby={ (title) " " (description) } viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width="100%" {
                title id=(title) { (self.title) }
                desc id=(description) { (self.description) }
                line.axis x1=(LEFT) y1=(drawn) x2=(WIDTH) y2=(drawn) {}
                text.label x=(LEFT - 6.0) y="12" text-anchor="end" { (axis_label(top)) }
                text.label x=(LEFT - 6.0) y=(drawn) text-anchor="end" { (axis_label(self.floor)) }
                @for (place, mark) in self.marks.iter().enumerate() {
                    @if let Some(value) = mark.value {
                        @let height = ((value - self.floor) / (top - self.floor)).clamp(0.0, 1.0) * drawn;
                        rect.column x=(one(LEFT + step * place as f64)) y=(one(drawn - height)) width=(one((step * 0.85).max(0.5))) height=(one(height)) {
                            title { (mark.label) ": " (number(value)) " " (self.unit) }
                        }
                    }
                }
                text.label x=(LEFT) y=(HEIGHT - 5.0) { (end(self.marks.first())) }
                text.label x=(WIDTH) y=(HEIGHT - 5.0) text-anchor="end" { (end(self.marks.last().filter(|_| self.marks.len() > 1))) }
            }
        }
    }
}

pub(crate) fn one(value: f64) -> String {
    format!("{value:.1}")
}

/// A figure with at most two digits after the point, and commas between its thousands.
pub(crate) fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    whole.parse().map_or_else(|_| text.to_owned(), |whole| format!("{}{rest}", grouped(whole)))
}

/// A figure that fits beside an axis.
pub(crate) fn axis_label(value: f64) -> String {
    match value {
        1e9.. => format!("{}bn", number(value / 1e9)),
        1e6.. => format!("{}M", number(value / 1e6)),
        _ => number(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_has_a_bar_for_each_value_a_name_and_a_table_and_no_text_of_its_own_is_markup() {
        let mark = |label: &str, value| Mark { label: label.to_owned(), value };
        let chart = Chart {
            id: "c".to_owned(),
            title: "<b>".to_owned(),
            description: "Tickets a day.".to_owned(),
            unit: "tickets",
            marks: vec![mark("1", Some(4.0)), mark("2", None), mark("3", Some(0.0))],
            floor: 0.0,
        };
        let text = chart.render().into_string();
        assert_eq!(text.matches("<rect").count(), 2, "what was not measured has no bar");
        assert!(
            text.contains("role=\"img\"") && text.contains("<title id=\"c-title\">&lt;b&gt;</title>") && text.contains("<desc")
        );
        assert!(text.contains("<td>1</td><td>4</td>") && !text.contains("<b>"));
        assert_eq!([1.50, 100.0, 0.004, 1_234_567.5].map(number), ["1.5", "100", "0", "1,234,567.5"]);
        assert_eq!([999_999.0, 1e6, 2.25e9].map(axis_label), ["999,999", "1M", "2.25bn"]);
    }
}
