//! A definition as a graph: SVG with a name and a description. The list of the steps says the same in words.

use maud::{Markup, html};
use serde_json::Value;

use super::{
    definition::{all_steps, branches, steps},
    layout::{Block, Branch, Drawing, Frame, Line, Look, Node},
    record::{text, trigger_words, triggers},
};
use crate::desk::organizations::counted;

/// A definition with more steps is not drawn. The API takes no more.
const MOST_STEPS: usize = 200;
/// The letters that fit into a box.
const TITLE_LETTERS: usize = 24;
const BELOW_LETTERS: usize = 28;
const ROUND: i32 = 8;

/// The graph of a definition. `name` is its title.
pub(super) fn graph(name: &str, definition: &Value) -> Markup {
    let count = all_steps(definition).len();
    if count > MOST_STEPS {
        return html! { p.muted { "The definition has too many steps to draw." } };
    }
    let started = started(definition);
    let steps = counted(u64::try_from(count).unwrap_or_default(), "step", "steps");
    let description = format!("{} {steps}. The list below the graph has them in order.", starts(&started));
    let list = |member: &str| nodes(definition.get(member).unwrap_or(&Value::Null));
    let drawing = Drawing::of(started, &list("steps"), &list("on_failure"));
    html! {
        div.scroll.flow tabindex="0" role="group" aria-label="Graph" {
            svg role="img" aria-labelledby="graph-title graph-description" viewBox={ "0 0 " (drawing.width) " " (drawing.height) }
                width=(drawing.width) height=(drawing.height) {
                title #graph-title { (name) }
                desc #graph-description { (description) }
                @for Frame((x, y), (width, height)) in &drawing.frames { rect.frame x=(x) y=(y) width=(width) height=(height) rx=(ROUND) {} }
                @for line in &drawing.lines { (draw_line(line)) }
                @for block in &drawing.blocks { (draw_block(block)) }
                @for label in &drawing.labels { text.label x=(label.x) y=(label.y) { (label.text) } }
            }
        }
    }
}

fn draw_line(line: &Line) -> Markup {
    html! {
        path.way d=(line.path) {}
        @if let Some((x, y)) = line.arrow { path.arrow d={ "M" (x - 4) " " (y - 7) "L" (x) " " (y) "L" (x + 4) " " (y - 7) "Z" } {} }
    }
}

fn draw_block(block: &Block) -> Markup {
    let look = match block.look {
        Look::Trigger => "trigger",
        Look::Step => "step",
        Look::Wait => "wait",
        Look::Control => "control",
        Look::End => "end",
    };
    let middle = block.x + block.width / 2;
    let (title_y, below_y) = (block.y + 22, block.y + 40);
    html! {
        g class=(look) {
            title { (block.title) @if !block.below.is_empty() { ": " (block.below) } }
            rect x=(block.x) y=(block.y) width=(block.width) height=(block.height) rx=(ROUND) {}
            @if block.below.is_empty() {
                text.name x=(middle) y=(block.y + block.height / 2 + 4) text-anchor="middle" { (short(&block.title, TITLE_LETTERS)) }
            } @else {
                text.name x=(block.x + 12) y=(title_y) { (short(&block.title, TITLE_LETTERS)) }
                text.below x=(block.x + 12) y=(below_y) { (short(&block.below, BELOW_LETTERS)) }
            }
        }
    }
}

/// What starts the workflow.
fn started(definition: &Value) -> Vec<Node> {
    let given = definition.as_object().map_or(&[][..], triggers);
    let node = |title: String, below: String| Node {
        title,
        below,
        look: Look::Trigger,
        ends: false,
        repeats: false,
        branches: Vec::new(),
    };
    if given.is_empty() {
        return vec![node("By hand".to_owned(), "manual".to_owned())];
    }
    let of = |trigger: &Value| {
        let condition = text(trigger, "condition");
        let below = if condition.is_empty() { text(trigger, "type").to_owned() } else { format!("if {condition}") };
        node(trigger_words(trigger), below)
    };
    given.iter().map(of).collect()
}

fn starts(started: &[Node]) -> String {
    let titles: Vec<&str> = started.iter().map(|node| node.title.as_str()).collect();
    format!("Starts: {}.", titles.join(", "))
}

fn nodes(list: &Value) -> Vec<Node> {
    steps(list).iter().map(node).collect()
}

fn node(step: &Value) -> Node {
    let kind = text(step, "type");
    let branches: Vec<Branch> = branches(step).into_iter().map(|(label, list)| Branch { label, nodes: nodes(list) }).collect();
    let look = match kind {
        "approval" | "wait.duration" | "wait.event" | "vm.wait_state" => Look::Wait,
        _ if branches.is_empty() => Look::Step,
        _ => Look::Control,
    };
    let is_conditional = !text(step, "if").is_empty();
    let decides = step.get("with").map_or("", |with| text(with, "condition"));
    let below = match (kind, is_conditional) {
        ("if", _) => format!("if {decides}"),
        (_, true) => format!("{kind}, if {}", text(step, "if")),
        (_, false) => kind.to_owned(),
    };
    Node {
        title: text(step, "id").to_owned(),
        below,
        look,
        ends: matches!(kind, "return" | "fail") && !is_conditional && text(step, "on_error") != "continue",
        repeats: kind == "for_each",
        branches,
    }
}

/// A text that fits, with an ellipsis if something was cut off.
fn short(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let start: String = text.chars().take(letters.saturating_sub(1)).collect();
    format!("{}…", start.trim_end())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_graph_has_a_box_for_each_part_and_no_text_of_its_own_is_markup() {
        let definition = json!({
            "triggers": [{"type": "event", "event": "ticket.created", "condition": "event.data.ticket.priority == 'critical'"}],
            "steps": [
                {"id": "check", "type": "if", "with": {"condition": "true", "then": [{"id": "<b>", "type": "set"}]}},
                {"id": "each", "type": "for_each", "with": {"items": [], "steps": [{"id": "ask", "type": "approval"}]}},
            ],
            "on_failure": [{"id": "note", "type": "set"}],
        });
        let text = graph("<i>", &definition).into_string();
        // The trigger, five steps, the end, and the head of the steps after a failure. A loop has a frame.
        assert_eq!((text.matches("<g ").count(), text.matches("class=\"frame\"").count()), (8, 1));
        assert!(text.contains("role=\"img\"") && text.contains("<title id=\"graph-title\">&lt;i&gt;</title>"));
        assert!(text.contains("Starts: ticket.created. 5 steps.") && text.contains(">if event.data.ticket.priori…<"));
        assert!(!text.contains("<b>") && text.contains("&lt;b&gt;"));
    }

    #[test]
    fn a_definition_without_triggers_is_started_by_hand() {
        let text = graph("N", &json!({"steps": [{"id": "done", "type": "return"}]})).into_string();
        assert!(text.contains("Starts: By hand. 1 step.") && !text.contains(">End<"));
    }
}
