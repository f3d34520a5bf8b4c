//! The cards beside the conversation: service level, details, devices, related tickets, time, organization.

use maud::{Markup, html};

use super::{
    edit::plain,
    forms::Panel,
    one::{View, children_of, unfinished},
    priority_badge,
    record::TicketLink,
    sla::Target,
    status_badge,
};
use crate::{
    components::{Tone, badge, card, facts, words},
    form::{Control, Fields, VERSION},
    moment,
};

impl View<'_> {
    pub(super) fn cards(&self) -> Markup {
        html! {
            @if self.ticket.resolution.is_some() { (card("Resolution", &self.resolution())) }
            (card("Service level", &self.service_level()))
            (card("Details", &self.details()))
            (card("Devices", &self.devices()))
            (card("Related tickets", &self.related()))
            (card("Time", &self.time()))
            (card(&self.ticket.organization.name, &self.customer()))
        }
    }

    fn resolution(&self) -> Markup {
        let Some(resolution) = &self.ticket.resolution else { return html! {} };
        html! {
            p { (badge(Tone::Good, &words(&resolution.code))) }
            p.text { (resolution.summary) }
            p.muted { (resolution.resolved_by.name) " · " (self.visitor.clock.relative(&resolution.resolved_at)) }
        }
    }

    fn service_level(&self) -> Markup {
        let (ticket, clock) = (self.ticket, self.visitor.clock);
        if ticket.sla.state == "none" {
            return html! { p.muted { "No service level applies to this ticket." } };
        }
        let is_paused = ticket.status_category == "waiting";
        let show = |target: &Option<Target>| target.as_ref().map(|target| target.show(&ticket.created_at, is_paused, clock));
        let paused = ticket.sla.paused_minutes;
        facts(&[
            ("First response", show(&ticket.sla.first_response)),
            ("Resolution", show(&ticket.sla.resolution)),
            ("Paused for", (paused > 0).then(|| html! { (moment::minutes(paused)) })),
        ])
    }

    fn details(&self) -> Markup {
        let (ticket, clock) = (self.ticket, self.visitor.clock);
        let text = |value: &Option<String>| value.as_ref().map(|value| html! { (value) });
        let contact = ticket.contact.as_ref().map(|contact| {
            html! { (contact.name) @if let Some(email) = &contact.email { br; a href={ "mailto:" (email) } { (email) } } }
        });
        let external = html! { @for reference in &ticket.external_refs { div { (reference.system) ": " (reference.id) } } };
        let tags = html! { @for tag in &ticket.tags { (badge(Tone::Neutral, tag)) " " } };
        let custom: Vec<(String, String)> = ticket.custom_fields.iter().map(|(name, value)| (words(name), plain(value))).collect();
        let mut rows = vec![
            (
                "Assignee",
                Some(html! { @if let Some(assignee) = &ticket.assignee { (assignee.name) } @else { span.muted { "Nobody" } } }),
            ),
            ("Status", Some(status_badge(&ticket.status))),
            ("Priority", Some(priority_badge(&ticket.priority))),
            ("Type", Some(html! { (words(&ticket.kind)) })),
            ("Source", Some(html! { (words(&ticket.source)) })),
            ("Queue", text(&ticket.queue)),
            ("Category", text(&ticket.category)),
            ("Contact", contact),
            ("Due", ticket.due_at.as_ref().map(|due| clock.absolute(due))),
            ("Tags", (!ticket.tags.is_empty()).then_some(tags)),
            ("Reported", (ticket.occurrences > 1).then(|| html! { (ticket.occurrences) " times" })),
            ("External", (!ticket.external_refs.is_empty()).then_some(external)),
            ("Changed", Some(clock.relative(&ticket.updated_at))),
        ];
        rows.extend(custom.iter().map(|(name, value)| (name.as_str(), Some(html! { (value) }))));
        html! {
            (facts(&rows))
            @if self.may_write { (self.edit()) }
        }
    }

    fn devices(&self) -> Markup {
        let start = Fields::default();
        let form = self.form(Panel::Devices, &start);
        let version = html! { input type="hidden" name=(VERSION) value={ "v" (self.ticket.version) }; };
        html! {
            @if self.ticket.devices.is_empty() { p.muted { "No devices." } }
            @if self.may_write && !self.ticket.devices.is_empty() {
                form method="post" action=(self.path("/devices")) {
                    (self.visitor.tokens())
                    (version)
                    ul.plain {
                        @for device in &self.ticket.devices {
                            li {
                                (self.named(device, "devices")) " "
                                button.quiet name="remove" value=(device.id) aria-label={ "Remove the device " (device.name) } { "Remove" }
                            }
                        }
                    }
                }
            } @else {
                ul.plain { @for device in &self.ticket.devices { li { (self.named(device, "devices")) } } }
            }
            @if self.may_write {
                details.edit open[self.is_open(Panel::Devices)] {
                    summary.button { "Add a device" }
                    form method="post" action=(self.path("/devices")) {
                        (self.visitor.tokens())
                        (version)
                        (form.summary())
                        (form.field("device", "Device", Control::Input("text"), "The whole name or the ID.", true))
                        div.actions { button.primary { "Add" } }
                    }
                }
            }
        }
    }

    fn related(&self) -> Markup {
        let (parent, merged) = (&self.ticket.parent, &self.ticket.merged_into);
        html! {
            @if parent.is_none() && merged.is_none() && self.children.is_empty() { p.muted { "No related tickets." } }
            (facts(&[("Parent", parent.as_ref().map(TicketLink::show)), ("Merged into", merged.as_ref().map(TicketLink::show))]))
            @if !self.children.is_empty() {
                h3 { "Children" }
                ul.plain {
                    @for child in self.children {
                        li { a href={ "/tickets/" (child.reference) } { (child.reference) " " (child.subject) } " " (status_badge(&child.status)) }
                    }
                }
                @if self.all_children > self.children.len() as u64 {
                    p { a href=(children_of(&self.ticket.id).at("/tickets")) { "All " (self.all_children) " children" } }
                }
            }
        }
    }

    fn time(&self) -> Markup {
        html! {
            p { strong { (moment::minutes(self.ticket.time_spent_minutes)) } " in total" }
            @if !self.time_entries.is_empty() {
                ul.plain {
                    @for entry in self.time_entries {
                        li {
                            (moment::minutes(entry.minutes)) " · " (words(&entry.work_type))
                            @if !entry.billable { " · not billable" }
                            @if let Some(note) = &entry.note { div.text { (note) } }
                            div.muted { (entry.created_by.name) " · " (self.visitor.clock.relative(&entry.created_at)) }
                        }
                    }
                }
            }
            @if self.may_write { (self.add_time()) }
        }
    }

    fn add_time(&self) -> Markup {
        let mut start = Fields::default();
        start.set("work_type", "remote");
        start.set("billable", "yes");
        let form = self.form(Panel::Time, &start);
        html! {
            details.edit open[self.is_open(Panel::Time)] {
                summary.button { "Add time" }
                form method="post" action=(self.path("/time")) {
                    (self.visitor.tokens())
                    (form.summary())
                    (form.field("minutes", "Minutes", Control::Input("number"), "", true))
                    (form.field("work_type", "Kind of work", Control::Input("text"), "Such as remote, on_site or travel.", true))
                    (form.field("note", "What was done", Control::Text { rows: 3 }, "", false))
                    label.check { input type="checkbox" name="billable" value="yes" checked[form.fields.has("billable")]; " Billable" }
                    div.actions { button.primary { "Add" } }
                }
            }
        }
    }

    fn customer(&self) -> Markup {
        let organization = &self.ticket.organization.id;
        let open = unfinished(organization).without("limit").at("/tickets");
        html! {
            (facts(&[("Open tickets", Some(html! { a href=(open) { (self.unfinished.to_string()) } }))]))
            p { (self.organization()) }
            @if self.may_write { p { a href={ "/tickets/new?organization_id=" (organization) } { "New ticket for this organization" } } }
        }
    }
}
