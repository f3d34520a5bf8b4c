//! What the expressions of a definition may refer to: a step sees only the steps that precede it on every path.

use std::collections::{BTreeMap, BTreeSet};

use tenantd_base::{fault::Fault, vocabulary::nearest};

use super::{BlockNumber, Definition, StepKind, StepNumber, read::Mention};

const NAMES: [&str; 4] = ["inputs", "steps", "run", "event"];
const LOOP_NAMES: [&str; 2] = ["item", "item_index"];

/// Checks every mention. Returns for each step the steps whose results it reads.
pub(super) fn check(definition: &Definition, mentions: &[Mention], faults: &mut Vec<Fault>) -> Vec<Vec<StepNumber>> {
    let mut before = BTreeMap::new();
    let mut visible = BTreeSet::new();
    walk(definition, definition.main, &mut visible, &mut before);
    if let Some(block) = definition.on_failure {
        // Any step may have run before a failure.
        let all: BTreeSet<StepNumber> = visible.clone();
        walk(definition, block, &mut all.clone(), &mut before);
    }
    let numbers: BTreeMap<&str, StepNumber> =
        definition.steps.iter().zip(0..).map(|(step, number)| (step.id.as_str(), number)).collect();
    let mut reads: BTreeMap<StepNumber, BTreeSet<StepNumber>> = BTreeMap::new();
    let has_event = !definition.events().is_empty();
    for mention in mentions {
        let known = mention.step.and_then(|step| before.get(&step)).cloned().unwrap_or_default();
        let looped = mention.step.and_then(|step| definition.step(step)).is_some_and(|step| !step.loops.is_empty());
        check_names(mention, looped, has_event, faults);
        for id in &mention.references.steps {
            match numbers.get(id.as_str()) {
                Some(number) if known.contains(number) => {
                    if let Some(step) = mention.step {
                        reads.entry(step).or_default().insert(*number);
                    }
                }
                Some(number) => faults.push(not_before(mention, id, *number, definition)),
                None => {
                    let fault = Fault::new(&mention.pointer, "unknown_step", format!("there is no step with the id {id}"));
                    faults.push(fault.with_suggestion(nearest(id, numbers.keys().copied())));
                }
            }
        }
    }
    let read = |step: &std::sync::Arc<super::Step>| reads.remove(&step.number).unwrap_or_default().into_iter().collect();
    definition.steps.iter().map(read).collect()
}

fn check_names(mention: &Mention, looped: bool, has_event: bool, faults: &mut Vec<Fault>) {
    for name in &mention.references.names {
        let name = name.as_str();
        if name == "secrets" {
            let message = "write a secret alone, as in `Bearer {{ secrets.NAME }}`, in a header or in the body of a step that sends \
                           a request; other places and larger expressions cannot use secrets";
            faults.push(Fault::new(&mention.pointer, "secret_not_allowed", message));
            continue;
        }
        let problem = if name == "event" && !has_event && !mention.knows_event {
            Some("this workflow has no event trigger, so there is no event".to_owned())
        } else if LOOP_NAMES.contains(&name) && !looped {
            Some(format!("{name} is available only inside for_each"))
        } else if name == "steps" && mention.step.is_none() {
            Some("no step has run yet when this is evaluated".to_owned())
        } else if NAMES.contains(&name) || LOOP_NAMES.contains(&name) {
            None
        } else {
            Some(format!("unknown name {name}"))
        };
        if let Some(problem) = problem {
            let suggestion = nearest(name, NAMES.into_iter().chain(LOOP_NAMES)).filter(|near| near != name);
            faults.push(Fault::new(&mention.pointer, "unknown_name", problem).with_suggestion(suggestion));
        }
    }
    if mention.references.any_step {
        faults.push(Fault::new(&mention.pointer, "unknown_step", "name one step, as in steps.ID.output"));
    }
}

fn not_before(mention: &Mention, id: &str, number: StepNumber, definition: &Definition) -> Fault {
    let own = mention.step.and_then(|step| definition.step(step));
    let other = definition.step(number);
    let in_loop = own.zip(other).is_some_and(|(own, other)| !own.loops.starts_with(&other.loops));
    let message = if in_loop {
        format!("{id} runs once for each item of a loop, so it is available only inside the loop")
    } else {
        format!("{id} does not run before this step")
    };
    Fault::new(&mention.pointer, "later_step", message)
}

/// Records for each step of a block the steps that precede it. `visible` contains the steps before the block, and on return those
/// after it.
fn walk(
    definition: &Definition,
    block: BlockNumber,
    visible: &mut BTreeSet<StepNumber>,
    before: &mut BTreeMap<StepNumber, BTreeSet<StepNumber>>,
) {
    for number in definition.block(block) {
        before.insert(*number, visible.clone());
        let Some(step) = definition.step(*number) else { continue };
        let entered: Vec<BlockNumber> = match &step.kind {
            StepKind::If { then, otherwise, .. } => std::iter::once(*then).chain(*otherwise).collect(),
            StepKind::Parallel { branches } => branches.clone(),
            StepKind::ForEach { block, .. } => vec![*block],
            _ => Vec::new(),
        };
        let mut behind = visible.clone();
        for inner in entered {
            // Branches do not see each other.
            let mut own = visible.clone();
            walk(definition, inner, &mut own, before);
            if !matches!(step.kind, StepKind::ForEach { .. }) {
                behind.extend(own);
            }
        }
        *visible = behind;
        visible.insert(*number);
    }
}
