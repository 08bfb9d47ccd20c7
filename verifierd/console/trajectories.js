/** The list of trajectories, those judged last first. */

import { get } from "./api.js";
import { data, fill, h, icon, state, unseen } from "./dom.js";
import { filters } from "./filters.js";
import { VirtualList } from "./virtual.js";
import * as words from "./words.js";

const PAGE = 500;
const HEAD = 100; // rows that are looked at again when something happens
const CALM = 1000; // milliseconds between two such looks

/** What a route has of this view's filters. */
export const FILTERS = ["q", "agent", "verdict", "alarm"];

export class TrajectoriesView {
    #context;
    #query;
    #list;
    #filters;
    #pill = h("button", { type: "button", class: "pill", hidden: true, onclick: () => this.#up() });
    #due = 0;
    #fresh = new Set();
    #clock;

    constructor(context, query) {
        this.#context = context;
        this.#query = query;
        this.#list = new VirtualList({
            label: "Trajectories",
            key: (item) => item.id,
            load: async (after) => {
                const { trajectories, next } = await get("/api/trajectories", { ...this.#query, limit: PAGE, after });
                return { items: trajectories, next };
            },
            render: row,
            kind: (item) => (open(item) ? "alarmed" : ""),
            empty: () => this.#empty(),
            onopen: (item) => context.go(`#/t/${encodeURIComponent(item.id)}`),
            onchange: () => this.#count(),
        });
        this.#filters = filters({
            query,
            go: (changed) => context.go(context.route("", changed)),
            search: "Find a trajectory",
            selects: [
                { name: "verdict", title: "Verdict", options: Object.entries(words.VERDICTS).map(([value, text]) => [value, `has ${text}`]) },
                { name: "agent", title: "Agent", options: [] },
            ],
            toggles: [{ name: "alarm", value: "open", text: "Open alarms" }],
        });
        this.element = h(
            "div",
            { class: "view trajectories" },
            h("div", { class: "view-head" }, h("h1", { class: "unseen" }, "Trajectories"), this.#filters.element),
            h("div", { class: "list-frame" }, this.#pill, this.#list.element),
        );
        this.#clock = setInterval(() => this.#list.refresh(), 30_000);
        this.#list.reset();
    }

    get title() {
        return "Trajectories";
    }

    get list() {
        return this.#list;
    }

    /** The same view with other filters. */
    update(query) {
        if (JSON.stringify(query) === JSON.stringify(this.#query)) return;
        this.#query = query;
        this.#filters.show(query);
        this.#fresh.clear();
        this.#pill.hidden = true;
        this.#list.reset();
    }

    search() {
        this.#filters.focus();
    }

    focus() {
        this.#list.focus();
    }

    happened(kind, detail) {
        if (kind === "verdict") {
            const known = this.#list.update(detail.trajectory_id, (item) => counted(item, detail));
            if (!known || !this.#list.atTop) this.#fresh.add(detail.trajectory_id);
            this.#soon();
        } else if (kind === "alarm") {
            this.#list.update(detail.trajectory_id, (item) => ({ ...item, alarm: detail }));
            if (this.#query.alarm) this.#list.reset();
            else this.#soon();
        } else if (kind === "label") this.#soon();
        else if (kind === "resumed") {
            this.#list.retry();
            this.#soon();
        }
    }

    leave() {
        clearInterval(this.#clock);
        clearTimeout(this.#due);
        this.#list.destroy();
    }

    #soon() {
        this.#due ||= setTimeout(() => this.#look(), CALM);
    }

    /** Look at the head again; below it, only say that there is something new. */
    async #look() {
        this.#due = 0;
        if (!this.#list.atTop) {
            const count = this.#fresh.size;
            fill(this.#pill, `${words.counted(count, "trajectory", "trajectories")} with new steps`);
            this.#pill.hidden = count === 0;
            return;
        }
        const query = this.#query;
        try {
            const { trajectories } = await get("/api/trajectories", { ...query, limit: HEAD });
            if (query !== this.#query) return;
            this.#fresh.clear();
            this.#pill.hidden = true;
            this.#list.lead(trajectories);
        } catch {
            // The connection's state says it; the next event tries again.
        }
    }

    #up() {
        this.#list.element.scrollTop = 0;
        this.#pill.hidden = true;
        this.#look();
    }

    #count() {
        const { items } = this.#list;
        const agents = new Set();
        for (const { format, agent } of items) {
            agents.add(format);
            if (agent) agents.add(agent);
        }
        this.#filters.offer("agent", [...agents].filter(Boolean).sort().map((agent) => [agent, words.spaced(agent)]));
        if (items.length || this.#list.complete) this.#filters.tell(`${words.number(items.length)}${this.#list.complete ? "" : "+"} ${items.length === 1 ? "trajectory" : "trajectories"}`);
    }

    #empty() {
        if (Object.values(this.#query).some(Boolean)) {
            const all = h("button", { type: "button", onclick: () => this.#context.go("#/") }, "Show all");
            return state("quiet", "No trajectory fits these filters", "", all);
        }
        return state("quiet", "No trajectory yet", "Steps appear here as soon as an agent that is watched acts.");
    }
}

/** Whether somebody should look. */
export function open(item) {
    return Boolean(item.alarm && !item.alarm.acknowledged);
}

/** The shares of a trajectory's verdicts. */
export function shares(verdicts) {
    const bar = h("span", { class: "shares", "aria-hidden": "true" });
    for (const kind of ["off_path", "abstain", "on_path"]) {
        if (!verdicts[kind]) continue;
        const part = h("span", { class: `share share-${kind}` });
        part.style.flexGrow = verdicts[kind];
        bar.append(part);
    }
    return bar;
}

/** A trajectory with one step more, unless it was counted when the trajectory was read. */
export function counted(item, step) {
    if (Date.parse(step.time) <= Date.parse(item.last)) return item;
    const steps = item.steps + 1;
    return {
        ...item,
        steps,
        last: step.time,
        coverage: (item.coverage * item.steps + step.coverage) / steps,
        verdicts: { ...item.verdicts, [step.verdict]: (item.verdicts[step.verdict] ?? 0) + 1 },
    };
}

function row(item) {
    const { verdicts } = item;
    const standing = open(item) ? "bell" : verdicts.off_path ? "off_path" : verdicts.on_path ? "on_path" : "abstain";
    const said = {
        bell: `open alarm since step ${item.alarm?.step}`,
        off_path: "has steps off path",
        on_path: "nothing off path",
        abstain: "nothing was decided",
    }[standing];
    const [session, agent] = item.agent ? [item.trajectory.slice(0, -item.agent.length - 1), item.agent] : [item.trajectory, ""];
    return [
        h("span", { class: `standing standing-${standing}` }, icon(standing, said)),
        h(
            "span",
            { class: "name", title: item.trajectory },
            data(session, { class: "session" }),
            agent && h("span", { class: "chip" }, "agent ", data(agent)),
            item.run > 0 && h("span", { class: "chip" }, `run ${item.run + 1}`),
        ),
        h("span", { class: "format" }, words.spaced(item.format)),
        h(
            "span",
            { class: "tally", title: Object.entries(verdicts).map(([kind, count]) => `${count} ${words.VERDICTS[kind]}`).join(", ") },
            shares(verdicts),
            verdicts.off_path > 0 && h("b", { class: "off" }, `${words.number(verdicts.off_path)} off`),
            verdicts.abstain > 0 && h("span", { class: "abstained" }, `${words.number(verdicts.abstain)} abstained`),
        ),
        h("span", { class: "steps" }, words.counted(item.steps, "step")),
        h("span", { class: "covered", title: "Share of the observations' text that was checked" }, `${words.percent(item.coverage, 1)} checked`),
        h("span", { class: "tagged" }, item.labels > 0 && [icon("tag"), ` ${words.number(item.labels)}`, unseen(" labelled")]),
        h("time", { class: "when", datetime: item.last, title: words.moment(item.last) }, words.ago(item.last)),
    ];
}
