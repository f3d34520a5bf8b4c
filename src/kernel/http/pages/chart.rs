//! Charts as inline SVG, made by the server: bars over time, with a name and a description for those who do not see them, and the same
//! figures as a table beside. No script, no asset.

use super::layout::{Html, escape};

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 160.0;
/// Room for the words at the axes.
const LEFT: f64 = 56.0;
const BOTTOM: f64 = 20.0;

/// One bar.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub label: String,
    /// Absent where nothing was measured: that is no zero.
    pub value: Option<f64>,
}

/// A series of figures with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Chart {
    /// Unique on its page, in letters, digits and hyphens.
    pub id: String,
    pub title: String,
    /// What the bars are, in a sentence.
    pub description: String,
    pub unit: &'static str,
    pub marks: Vec<Mark>,
    /// The value that the axis begins with: a share near 100 shows nothing from 0.
    pub floor: f64,
}

impl Chart {
    /// The chart and its table.
    pub fn render(&self, page: &mut Html) {
        page.raw(&format!("<figure><figcaption>{}</figcaption>", escape(&self.title)));
        page.raw(&self.svg());
        page.raw(&format!("<details><summary>{} as a table</summary>", escape(&self.title)));
        let rows = self.marks.iter().map(|mark| vec![mark.label.clone(), mark.value.map(number).unwrap_or_default()]);
        page.table(&["from", if self.unit.is_empty() { "value" } else { self.unit }], rows);
        page.raw("</details></figure>");
    }

    fn svg(&self) -> String {
        let id = escape(&self.id);
        let most = self.marks.iter().filter_map(|mark| mark.value).fold(self.floor, f64::max);
        let top = if most > self.floor { most } else { self.floor + 1.0 };
        let (count, drawn) = (self.marks.len().max(1) as f64, HEIGHT - BOTTOM);
        let step = (WIDTH - LEFT) / count;
        let bars: String = self
            .marks
            .iter()
            .enumerate()
            .filter_map(|(place, mark)| {
                let share = ((mark.value? - self.floor) / (top - self.floor)).clamp(0.0, 1.0);
                let (x, height) = (LEFT + step * place as f64, share * drawn);
                let name = format!("{}: {} {}", mark.label, number(mark.value?), self.unit);
                Some(format!(
                    "<rect class=\"bar\" x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{height:.1}\"><title>{}</title></rect>",
                    drawn - height,
                    (step * 0.85).max(0.5),
                    escape(name.trim_end())
                ))
            })
            .collect();
        let end = |mark: Option<&Mark>| mark.map(|mark| escape(&mark.label)).unwrap_or_default();
        format!(
            "<svg role=\"img\" aria-labelledby=\"{id}-title {id}-desc\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"100%\">\
             <title id=\"{id}-title\">{}</title><desc id=\"{id}-desc\">{}</desc>\
             <line class=\"axis\" x1=\"{LEFT}\" y1=\"{drawn}\" x2=\"{WIDTH}\" y2=\"{drawn}\"/>\
             <text class=\"label\" x=\"{}\" y=\"12\" text-anchor=\"end\">{}</text>\
             <text class=\"label\" x=\"{}\" y=\"{drawn}\" text-anchor=\"end\">{}</text>{bars}\
             <text class=\"label\" x=\"{LEFT}\" y=\"{HEIGHT}\">{}</text>\
             <text class=\"label\" x=\"{WIDTH}\" y=\"{HEIGHT}\" text-anchor=\"end\">{}</text></svg>",
            escape(&self.title),
            escape(&self.description),
            LEFT - 6.0,
            number(top),
            LEFT - 6.0,
            number(self.floor),
            end(self.marks.first()),
            end(self.marks.last().filter(|_| self.marks.len() > 1)),
        )
    }
}

/// At most two digits behind the point.
fn number(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
        let mut page = Html::new("x");
        chart.render(&mut page);
        let text = page.finish();
        assert_eq!(text.matches("<rect").count(), 2, "what was not measured has no bar");
        assert!(
            text.contains("role=\"img\"") && text.contains("<title id=\"c-title\">&lt;b&gt;</title>") && text.contains("<desc")
        );
        assert!(text.contains("<td>1</td><td>4</td>") && !text.contains("<b>"));
        assert_eq!((number(1.50), number(100.0), number(0.004)), ("1.5".to_owned(), "100".to_owned(), "0".to_owned()));
    }
}
