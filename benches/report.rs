//! The report table. Each row has a value, its ceiling and its target. A missed target is shown but is not an error, because values
//! from a busy host prove little.

use std::fmt::Write;

/// The target of a value.
#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// No target, for information only.
    None,
}

impl Target {
    fn text(self, unit: &str) -> String {
        match self {
            Self::AtLeast(bound) => format!(">= {bound}{unit}"),
            Self::AtMost(bound) => format!("<= {bound}{unit}"),
            Self::None => String::new(),
        }
    }

    fn verdict(self, value: f64) -> &'static str {
        match self {
            Self::AtLeast(bound) if value < bound => "missed",
            Self::AtMost(bound) if value > bound => "missed",
            Self::None => "",
            _ => "met",
        }
    }
}

/// One round of a row: the value and its ceiling, measured directly after each other.
pub type Pair = (f64, f64);

#[derive(Default)]
pub struct Report {
    rows: Vec<[String; 7]>,
    notes: Vec<String>,
}

impl Report {
    /// Adds a row with a ceiling from the same rounds.
    pub fn ratio(&mut self, name: &str, unit: &str, rounds: &[Pair], target: Target) {
        let mut ratios: Vec<f64> = rounds.iter().map(|(figure, ceiling)| figure / ceiling).collect();
        let ratio = median(&mut ratios);
        let part = |pick: fn(&Pair) -> f64| median(&mut rounds.iter().map(pick).collect::<Vec<_>>());
        self.rows.push([
            name.to_owned(),
            format!("{} {unit}", number(part(|pair| pair.0))),
            format!("{} {unit}", number(part(|pair| pair.1))),
            format!("{ratio:.2}"),
            target.text(""),
            target.verdict(ratio).to_owned(),
            spread(&ratios),
        ]);
    }

    /// Adds a row without a ceiling.
    pub fn measurement(&mut self, name: &str, unit: &str, values: &[f64], target: Target) {
        let mut values = values.to_vec();
        let value = median(&mut values);
        self.rows.push([
            name.to_owned(),
            format!("{} {unit}", number(value)),
            String::new(),
            String::new(),
            target.text(&format!(" {unit}")),
            target.verdict(value).to_owned(),
            if values.len() > 1 { spread(&values) } else { String::new() },
        ]);
    }

    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    pub fn render(&self) -> String {
        let titles = ["", "tenantd", "ceiling", "ratio", "target", "", "rounds"].map(str::to_owned);
        let rows: Vec<&[String; 7]> = std::iter::once(&titles).chain(&self.rows).collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..titles.len()).map(width).collect();
        let mut out = String::new();
        for row in rows {
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Texts are left-aligned, numbers right-aligned.
                let _ = if matches!(column, 1..=3) { write!(out, "{cell:>width$}  ") } else { write!(out, "{cell:<width$}  ") };
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out.push('\n');
        for note in &self.notes {
            let _ = writeln!(out, "{note}");
        }
        out
    }
}

/// The median. Sorts the values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The range of sorted values.
fn spread(sorted: &[f64]) -> String {
    let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
    format!("{} .. {}", number(least), number(most))
}

fn number(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
