//! Places the parts of a workflow: boxes below each other, branches beside each other, loops in a frame. Lengths are in pixels.

const BOX_WIDTH: i32 = 216;
const BOX_HEIGHT: i32 = 52;
const END_WIDTH: i32 = 72;
const END_HEIGHT: i32 = 28;
/// Between two boxes below each other.
const GAP: i32 = 38;
/// Between two branches.
const BESIDE: i32 = 28;
/// The width of a branch without steps.
const EMPTY_WIDTH: i32 = 72;
/// Between a frame and what is in it.
const PADDING: i32 = 14;
/// How far above a box its line bends.
const BEND: i32 = 18;
const MARGIN: i32 = 12;

/// What a box stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Trigger,
    Step,
    /// A step that waits for people, time or events.
    Wait,
    /// A step with branches.
    Control,
    /// Where a list begins or ends.
    End,
}

/// A step or a trigger.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) title: String,
    pub(super) below: String,
    pub(super) look: Look,
    /// Nothing follows it.
    pub(super) ends: bool,
    /// Its branch runs once for each item.
    pub(super) repeats: bool,
    pub(super) branches: Vec<Branch>,
}

#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) label: String,
    pub(super) nodes: Vec<Node>,
}

type Point = (i32, i32);

#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) title: String,
    pub(super) below: String,
    pub(super) look: Look,
}

/// A line, with an arrow if it ends at a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) path: String,
    pub(super) arrow: Option<Point>,
}

/// The place of a frame: its left upper corner and its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame(pub(super) Point, pub(super) Point);

#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) text: String,
}

/// Everything that is drawn.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) blocks: Vec<Block>,
    pub(super) lines: Vec<Line>,
    pub(super) frames: Vec<Frame>,
    pub(super) labels: Vec<Label>,
}

impl Node {
    fn inset(&self) -> i32 {
        if self.repeats { PADDING } else { 0 }
    }

    fn branches_width(&self) -> i32 {
        let widths: i32 = self.branches.iter().map(|branch| width_of(&branch.nodes) + 2 * self.inset()).sum();
        widths + BESIDE * gaps(self.branches.len())
    }

    fn width(&self) -> i32 {
        self.branches_width().max(BOX_WIDTH)
    }

    fn height(&self) -> i32 {
        let tallest = self.branches.iter().map(|branch| height_of(&branch.nodes)).max();
        tallest.map_or(BOX_HEIGHT, |tallest| BOX_HEIGHT + GAP + tallest + 2 * self.inset())
    }
}

fn gaps(count: usize) -> i32 {
    i32::try_from(count.saturating_sub(1)).unwrap_or_default()
}

fn width_of(nodes: &[Node]) -> i32 {
    nodes.iter().map(Node::width).max().unwrap_or(EMPTY_WIDTH)
}

fn height_of(nodes: &[Node]) -> i32 {
    nodes.iter().map(Node::height).sum::<i32>() + GAP * gaps(nodes.len())
}

impl Drawing {
    pub(super) fn of(triggers: Vec<Node>, steps: &[Node], on_failure: &[Node]) -> Self {
        let mut drawing = Self::default();
        let row = Node { branches: Vec::new(), ..start("") };
        let row_width = (row.width() + BESIDE) * i32::try_from(triggers.len()).unwrap_or_default() - BESIDE;
        let width = width_of(steps).max(row_width);
        let center = MARGIN + width / 2;
        let mut entries = Vec::new();
        let mut left = center - row_width / 2;
        for trigger in triggers {
            entries.push((left + BOX_WIDTH / 2, MARGIN + BOX_HEIGHT));
            drawing.block(left + BOX_WIDTH / 2, MARGIN, &trigger);
            left += BOX_WIDTH + BESIDE;
        }
        let (exits, bottom) = drawing.list(steps, center, MARGIN + BOX_HEIGHT + GAP, entries);
        drawing.end(center, bottom + GAP, &exits);
        drawing.width = width + 2 * MARGIN;
        drawing.height = bottom + MARGIN + if exits.is_empty() { 0 } else { GAP + END_HEIGHT };
        if !on_failure.is_empty() {
            drawing.beside(on_failure);
        }
        drawing
    }

    /// The steps after a failure, to the right of the others.
    fn beside(&mut self, on_failure: &[Node]) {
        let width = width_of(on_failure);
        let center = self.width + BESIDE + width / 2;
        self.block(center, MARGIN, &start("If the run fails"));
        let (_, bottom) = self.list(on_failure, center, MARGIN + BOX_HEIGHT + GAP, vec![(center, MARGIN + BOX_HEIGHT)]);
        self.width += BESIDE + width + MARGIN;
        self.height = self.height.max(bottom + MARGIN);
    }

    /// Steps below each other. Returns where the lines to the next step begin, and the lower end.
    fn list(&mut self, nodes: &[Node], center: i32, top: i32, entries: Vec<Point>) -> (Vec<Point>, i32) {
        let (mut entries, mut y) = (entries, top);
        for node in nodes {
            for entry in &entries {
                self.connect(*entry, (center, y));
            }
            entries = self.node(node, center, y);
            y += node.height() + GAP;
        }
        (entries, if nodes.is_empty() { top } else { y - GAP })
    }

    fn node(&mut self, node: &Node, center: i32, top: i32) -> Vec<Point> {
        self.block(center, top, node);
        let bottom = (center, top + BOX_HEIGHT);
        if node.branches.is_empty() {
            return if node.ends { Vec::new() } else { vec![bottom] };
        }
        let inset = node.inset();
        let (first, last) = (top + BOX_HEIGHT + GAP + inset, top + node.height() - inset);
        let mut left = center - node.branches_width() / 2;
        let mut exits = Vec::new();
        for branch in &node.branches {
            let width = width_of(&branch.nodes) + 2 * inset;
            let middle = left + width / 2;
            self.labels.push(Label { x: middle + 8, y: first - inset - 5, text: branch.label.clone() });
            if branch.nodes.is_empty() {
                let path = format!("M{} {}V{}H{middle}V{last}", bottom.0, bottom.1, first - BEND);
                self.lines.push(Line { path, arrow: None });
                exits.push((middle, last));
            } else if node.repeats {
                self.frames.push(Frame((left, first - inset), (width, last - first + 2 * inset)));
                self.list(&branch.nodes, middle, first, vec![bottom]);
                exits.push((middle, last + inset));
            } else {
                exits.extend(self.list(&branch.nodes, middle, first, vec![bottom]).0);
            }
            left += width + BESIDE;
        }
        exits
    }

    fn block(&mut self, center: i32, y: i32, node: &Node) {
        let (title, below) = (node.title.clone(), node.below.clone());
        let x = center - BOX_WIDTH / 2;
        self.blocks.push(Block { x, y, width: BOX_WIDTH, height: BOX_HEIGHT, title, below, look: node.look });
    }

    /// The end of the run, if it can be reached.
    fn end(&mut self, center: i32, y: i32, entries: &[Point]) {
        if entries.is_empty() {
            return;
        }
        for entry in entries {
            self.connect(*entry, (center, y));
        }
        let Node { title, below, look, .. } = start("End");
        let x = center - END_WIDTH / 2;
        self.blocks.push(Block { x, y, width: END_WIDTH, height: END_HEIGHT, title, below, look });
    }

    fn connect(&mut self, from: Point, to: Point) {
        let way = if from.0 == to.0 { String::new() } else { format!("V{}H{}", to.1 - BEND, to.0) };
        self.lines.push(Line { path: format!("M{} {}{way}V{}", from.0, from.1, to.1), arrow: Some(to) });
    }
}

/// A box that only has a title.
fn start(title: &str) -> Node {
    Node { title: title.to_owned(), below: String::new(), look: Look::End, ends: false, repeats: false, branches: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(title: &str, branches: Vec<Branch>) -> Node {
        Node { look: Look::Step, branches, ..start(title) }
    }

    fn branch(nodes: Vec<Node>) -> Branch {
        Branch { label: "b".to_owned(), nodes }
    }

    fn assert_apart(drawing: &Drawing) {
        for (place, one) in drawing.blocks.iter().enumerate() {
            assert!(one.x >= 0 && one.y >= 0 && one.x + one.width <= drawing.width && one.y + one.height <= drawing.height);
            for other in &drawing.blocks[place + 1..] {
                let is_beside = one.x + one.width <= other.x || other.x + other.width <= one.x;
                let is_above = one.y + one.height <= other.y || other.y + other.height <= one.y;
                assert!(is_beside || is_above, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn steps_are_below_each_other_and_lead_to_the_end() {
        let drawing = Drawing::of(vec![start("t")], &[step("a", vec![]), step("b", vec![])], &[]);
        let titles: Vec<&str> = drawing.blocks.iter().map(|block| block.title.as_str()).collect();
        assert_eq!(titles, ["t", "a", "b", "End"]);
        assert!(drawing.blocks.is_sorted_by_key(|block| block.y));
        assert_eq!(drawing.lines.len(), 3);
        assert_apart(&drawing);
    }

    #[test]
    fn branches_are_beside_each_other_and_meet_again() {
        let inner = step("p", vec![branch(vec![step("x", vec![])]), branch(vec![step("y", vec![]), step("z", vec![])])]);
        let drawing = Drawing::of(
            vec![start("t"), start("u")],
            &[step("if", vec![branch(vec![inner]), branch(vec![])]), step("after", vec![])],
            &[step("note", vec![])],
        );
        assert_apart(&drawing);
        let after = drawing.blocks.iter().find(|block| block.title == "after").unwrap();
        let to_after = drawing.lines.iter().filter(|line| line.arrow == Some((after.x + after.width / 2, after.y)));
        assert_eq!(to_after.count(), 3, "both inner branches and the empty one");
    }

    #[test]
    fn a_loop_has_a_frame_around_its_steps() {
        let each = Node { repeats: true, ..step("each", vec![branch(vec![step("x", vec![]), step("y", vec![])])]) };
        let drawing = Drawing::of(vec![], &[each], &[]);
        let Frame((x, y), (width, height)) = drawing.frames[0];
        for block in drawing.blocks.iter().filter(|block| matches!(block.title.as_str(), "x" | "y")) {
            assert!(block.x > x && block.y > y);
            assert!(block.x + block.width < x + width && block.y + block.height < y + height);
        }
        assert_apart(&drawing);
    }

    #[test]
    fn nothing_follows_a_step_that_ends_the_run() {
        let last = Node { ends: true, ..step("return", vec![]) };
        let drawing = Drawing::of(vec![start("t")], &[last], &[]);
        assert!(drawing.blocks.iter().all(|block| block.title != "End"));
        assert_eq!(drawing.lines.len(), 1);
    }
}
