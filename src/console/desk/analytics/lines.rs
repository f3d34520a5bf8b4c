//! A chart with lines, for what does not add up and for groups. Each line has its own dashes, so that color is not needed to tell them
//! apart, and the same figures are a table.

use maud::{Markup, html};

use crate::chart::{BOTTOM, HEIGHT, LEFT, WIDTH, axis_label, number, one};

/// The dashes of the lines. There are no more lines than dashes.
const DASHES: [&str; 5] = ["none", "7 3", "2 3", "12 3 2 3", "1 5"];
/// Room at the right for the last point.
const RIGHT: f64 = 8.0;
/// Room at the top for the highest point.
const TOP: f64 = 6.0;

/// The values of one line. What was not measured is absent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) values: Vec<Option<f64>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lines {
    /// Unique on its page.
    pub(super) id: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) unit: &'static str,
    pub(super) labels: Vec<String>,
    /// The most important first.
    pub(super) rows: Vec<Line>,
    /// Where the axis begins.
    pub(super) floor: f64,
}

impl Lines {
    /// The chart, its legend and its table. The table has all lines, the chart the first.
    pub(super) fn render(&self) -> Markup {
        let drawn = self.rows.len().min(DASHES.len());
        html! {
            figure.chart {
                figcaption { (self.title) @if !self.unit.is_empty() { ", " (self.unit) } }
                (self.svg())
                @if self.rows.len() > 1 { (self.legend()) }
                @if self.rows.len() > drawn { p.hint { "The chart shows the " (drawn) " largest of " (self.rows.len()) ". The table has all of them." } }
                (self.table())
            }
        }
    }

    fn legend(&self) -> Markup {
        html! {
            ul.legend {
                @for (place, (line, dashes)) in self.rows.iter().zip(DASHES).enumerate() {
                    li {
                        svg viewBox="0 0 32 8" width="32" height="8" aria-hidden="true" {
                            line class={ "line line-" (place) } x1="0" y1="4" x2="32" y2="4" stroke-dasharray=(dashes) {}
                        }
                        " " (line.name)
                    }
                }
            }
        }
    }

    fn table(&self) -> Markup {
        html! {
            details {
                summary { (self.title) " as a table" }
                div.scroll tabindex="0" role="group" aria-label=(self.title) {
                    table {
                        thead { tr { th scope="col" { "from" } @for line in &self.rows { th scope="col" { (line.name) } } } }
                        tbody {
                            @for (place, label) in self.labels.iter().enumerate() {
                                tr {
                                    th scope="row" { (label) }
                                    @for line in &self.rows { td { (line.values.get(place).copied().flatten().map(number).unwrap_or_default()) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn svg(&self) -> Markup {
        let most = self.rows.iter().flat_map(|line| &line.values).flatten().copied().fold(self.floor, f64::max);
        let top = if most > self.floor { most } else { self.floor + 1.0 };
        let bottom = HEIGHT - BOTTOM;
        let gaps = self.labels.len().saturating_sub(1).max(1) as f64;
        let at = |(place, value): (usize, f64)| {
            let x = LEFT + (WIDTH - LEFT - RIGHT) * place as f64 / gaps;
            let y = bottom - ((value - self.floor) / (top - self.floor)).clamp(0.0, 1.0) * (bottom - TOP);
            (one(x), one(y))
        };
        let (title, description) = (format!("{}-title", self.id), format!("{}-desc", self.id));
        html! {
            svg role="img" aria-labelledby={ (title) " " (description) } viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } width="100%" {
                title id=(title) { (self.title) }
                desc id=(description) { (self.description) }
                line.axis x1=(LEFT) y1=(bottom) x2=(WIDTH) y2=(bottom) {}
                text.label x=(LEFT - 6.0) y="12" text-anchor="end" { (axis_label(top)) }
                text.label x=(LEFT - 6.0) y=(bottom) text-anchor="end" { (axis_label(self.floor)) }
                @for (place, (line, dashes)) in self.rows.iter().zip(DASHES).enumerate() {
                    g class={ "line line-" (place) } {
                        title { (line.name) }
                        @for piece in pieces(&line.values) {
                            @match piece.as_slice() {
                                [point] => { @let (x, y) = at(*point); circle cx=(x) cy=(y) r="2" {} }
                                points => { polyline points=(path(points, at)) stroke-dasharray=(dashes) {} }
                            }
                        }
                    }
                }
                text.label x=(LEFT) y=(HEIGHT - 5.0) { (self.labels.first().map_or("", String::as_str)) }
                @if self.labels.len() > 1 {
                    text.label x=(WIDTH) y=(HEIGHT - 5.0) text-anchor="end" { (self.labels.last().map_or("", String::as_str)) }
                }
            }
        }
    }
}

/// The points of a polyline.
fn path(points: &[(usize, f64)], at: impl Fn((usize, f64)) -> (String, String)) -> String {
    let pairs = points.iter().map(|point| at(*point)).map(|(x, y)| format!("{x},{y}"));
    pairs.collect::<Vec<_>>().join(" ")
}

/// The values without the gaps, each with its place.
fn pieces(values: &[Option<f64>]) -> Vec<Vec<(usize, f64)>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    for (place, value) in values.iter().enumerate() {
        match value {
            Some(value) => piece.push((place, *value)),
            None if piece.is_empty() => {}
            None => pieces.push(std::mem::take(&mut piece)),
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_interrupts_a_line() {
        let values = [None, Some(1.0), Some(2.0), None, None, Some(3.0)];
        assert_eq!(pieces(&values), [vec![(1, 1.0), (2, 2.0)], vec![(5, 3.0)]]);
        assert!(pieces(&[None]).is_empty());
    }

    #[test]
    fn lines_are_told_apart_without_color_and_no_name_is_markup() {
        let line = |name: &str| Line { name: name.to_owned(), values: vec![Some(1.0), Some(4.0), None] };
        let chart = Lines {
            id: "c".to_owned(),
            title: "Requests".to_owned(),
            description: "One point per day.".to_owned(),
            unit: "",
            labels: vec!["1".to_owned(), "2".to_owned(), "3".to_owned()],
            rows: ["a", "<b>", "c", "d", "e", "f"].map(line).to_vec(),
            floor: 0.0,
        };
        let text = chart.render().into_string();
        assert_eq!(text.matches("<polyline").count(), 5, "the sixth is only in the table");
        assert!(text.contains("stroke-dasharray=\"7 3\"") && text.contains("&lt;b&gt;") && !text.contains("<b>"));
        assert!(text.contains("The chart shows the 5 largest of 6"));
        assert_eq!(text.matches("<td>4</td>").count(), 6);
    }
}
