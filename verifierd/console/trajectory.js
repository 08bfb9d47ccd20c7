/** One trajectory: its steps as a timeline, and beside it the step that was chosen. */

import { get } from "./api.js";
import { data, failed, fill, h, icon, state } from "./dom.js";
import { filters } from "./filters.js";
import { StepView } from "./step.js";
import { counted, open, shares } from "./trajectories.js";
import { VirtualList } from "./virtual.js";
import * as words from "./words.js";

const PAGE = 500;
const CALM = 1000; // milliseconds between two looks at what may be new
const SIGNALS = 1; // names of them in a row

export const FILTERS = ["q", "verdict", "tool"];

export class TrajectoryView {
    #context;
    #id;
    #query;
    #chosen = null;
    #trajectory = null;
    #list;
    #filters;
    #step;
    #head = h("div", { class: "about" });
    #overview;
    #due = 0;
    #tools = new Set();

    constructor(context, id, query) {
        this.#context = context;
        this.#id = id;
        this.#query = query;
        this.#list = new VirtualList({
            label: "Steps",
            key: (item) => item.verdict_id,
            load: (after) => this.#load(after),
            render: row,
            kind: (item) => `of-${item.verdict}`,
            empty: () => this.#empty(),
            onopen: (item) => context.go(this.#link(item.verdict_id)),
            onchange: () => this.#changed(),
        });
        this.#overview = new Overview(this.#list);
        this.#step = new StepView({
            ...context,
            link: (verdictId) => this.#link(verdictId),
            back: () => this.#link(null),
            onlabel: (stepId, label) => this.#labelled(stepId, label),
        });
        this.#filters = filters({
            query,
            go: (changed) => context.go(context.route(`t/${encodeURIComponent(this.#id)}`, changed)),
            search: "Find in steps",
            selects: [
                { name: "verdict", title: "Verdict", options: Object.entries(words.VERDICTS) },
                { name: "tool", title: "Tool", options: [] },
            ],
        });
        this.element = h(
            "div",
            { class: "view trajectory" },
            h(
                "section",
                { class: "timeline", "aria-label": "Timeline" },
                h("div", { class: "view-head" }, this.#head, this.#filters.element, this.#overview.element),
                h("div", { class: "list-frame" }, this.#list.element),
            ),
            this.#step.element,
        );
        this.#step.clear();
        this.#list.reset();
    }

    get title() {
        return this.#trajectory?.trajectory ?? "Trajectory";
    }

    get list() {
        return this.#list;
    }

    get step() {
        return this.#chosen ? this.#step : null;
    }

    /** The same trajectory with other filters, or with another step beside it. */
    async update(query, chosen) {
        if (JSON.stringify(query) !== JSON.stringify(this.#query)) {
            this.#query = query;
            this.#filters.show(query);
            this.#list.reset();
        }
        const before = this.#chosen;
        this.#chosen = chosen;
        this.element.classList.toggle("has-step", Boolean(chosen));
        if (!chosen) {
            if (before) {
                this.#step.clear();
                this.#list.focus();
            }
            return;
        }
        if (chosen !== before) this.#step.show(chosen);
        const index = await this.#list.reach(chosen);
        if (index >= 0 && index !== this.#list.active && this.#chosen === chosen) this.#list.select(index);
    }

    search() {
        this.#filters.focus();
    }

    focus() {
        this.#list.focus();
    }

    /** Where `Esc` leads. */
    up() {
        if (this.#chosen) this.#context.go(this.#link(null));
        else this.#context.go("#/");
    }

    /** Label the step that is shown, or else the one that is marked in the list. */
    async say(label) {
        if (this.#chosen) {
            await this.#step.say(label);
            return;
        }
        const item = this.#list.items[this.#list.active];
        if (!item) return;
        const done = await this.#context.say(item.verdict_id, label);
        if (done) this.#labelled(item.step_id, done.label?.label ?? null);
    }

    happened(kind, detail) {
        if (kind === "verdict" && detail.trajectory_id === this.#id) {
            if (this.#trajectory) {
                this.#trajectory = counted(this.#trajectory, detail);
                this.#about();
            }
            if (this.#fits(detail)) this.#list.append(detail);
            if (this.#chosen && this.#step.verdict && !this.#step.verdict.neighbours.after) this.#again();
        } else if (kind === "label") {
            this.#labelled(detail.step_id, detail.label?.label ?? null);
            this.#step.labelled(detail.step_id);
        } else if (kind === "alarm" && detail.trajectory_id === this.#id && this.#trajectory) {
            this.#trajectory = { ...this.#trajectory, alarm: detail };
            this.#about();
        } else if (kind === "resumed") {
            this.#list.retry();
            if (this.#chosen && !this.#step.verdict) this.#step.show(this.#chosen);
            this.#again();
        }
    }

    leave() {
        clearTimeout(this.#due);
        this.#overview.leave();
        this.#list.destroy();
    }

    async #load(after) {
        const path = `/api/trajectories/${encodeURIComponent(this.#id)}/steps`;
        const { trajectory, steps, next } = await get(path, { ...this.#query, limit: PAGE, after });
        this.#trajectory = trajectory;
        this.#about();
        for (const { tool } of steps) this.#tools.add(tool);
        this.#filters.offer("tool", [...this.#tools].sort().map((tool) => [tool, tool]));
        return { items: steps, next };
    }

    /** What may have come meanwhile. */
    #again() {
        this.#due ||= setTimeout(async () => {
            this.#due = 0;
            const last = this.#list.items.at(-1);
            if (this.#step.verdict) this.#step.show(this.#step.verdict.verdict_id);
            if (!this.#list.complete || !last) return;
            try {
                const { items } = await this.#load(last.seq);
                for (const item of items) this.#list.append(item);
            } catch {
                // The connection's state says it.
            }
        }, CALM);
    }

    #fits(step) {
        const { q, verdict, tool } = this.#query;
        // What is not among the first characters of the action only the daemon can tell; it does at the next look.
        return (!verdict || step.verdict === verdict) && (!tool || step.tool === tool) && (!q || step.action.toLowerCase().includes(q.toLowerCase()));
    }

    #labelled(stepId, label) {
        for (const item of this.#list.items) {
            if (item.step_id === stepId) this.#list.update(item.verdict_id, (known) => ({ ...known, label }));
        }
    }

    #link(verdictId) {
        const path = `t/${encodeURIComponent(this.#id)}${verdictId ? `/${encodeURIComponent(verdictId)}` : ""}`;
        return this.#context.route(path, this.#query);
    }

    #about() {
        const trajectory = this.#trajectory;
        this.#context.retitle();
        fill(
            this.#head,
            h("a", { class: "plain", href: "#/", title: "All trajectories (Esc)", "aria-label": "All trajectories" }, icon("back")),
            h("h1", { title: trajectory.trajectory }, data(trajectory.trajectory)),
            trajectory.run > 0 && h("span", { class: "chip" }, `run ${trajectory.run + 1}`),
            h("span", { class: "hint" }, `${words.spaced(trajectory.format)}, ${words.counted(trajectory.steps, "step")}, `, h("time", { datetime: trajectory.last }, words.ago(trajectory.last))),
            shares(trajectory.verdicts),
            trajectory.alarm && this.#alarm(trajectory.alarm),
        );
    }

    #alarm(alarm) {
        const known = alarm.acknowledged;
        const acknowledge = async () => {
            const done = await this.#context.acknowledge(alarm.id);
            if (!done) return;
            this.#trajectory = { ...this.#trajectory, alarm: { ...alarm, acknowledged: done.acknowledged } };
            this.#about();
        };
        return h(
            "p",
            { class: `notice ${open({ alarm }) ? "notice-alarm" : ""}` },
            icon("bell"),
            " ",
            h("a", { href: this.#link(alarm.id) }, `Alarm at step ${words.number(alarm.step)}`),
            alarm.first_bad > 0 && alarm.first_bad !== alarm.step && `, suspected since step ${words.number(alarm.first_bad)}`,
            known
                ? [`; known to ${known.by ? "" : "somebody"}`, known.by && data(known.by)]
                : h("button", { type: "button", onclick: acknowledge }, "Acknowledge"),
        );
    }

    #changed() {
        const { items, complete } = this.#list;
        if (items.length || complete) this.#filters.tell(`${words.number(items.length)}${complete ? "" : "+"} ${items.length === 1 ? "step" : "steps"}`);
        this.#overview.draw();
    }

    #empty() {
        if (Object.values(this.#query).some(Boolean)) {
            const all = h("button", { type: "button", onclick: () => this.#context.go(`#/t/${encodeURIComponent(this.#id)}`) }, "Show all");
            return state("quiet", "No step fits these filters", "", all);
        }
        return state("quiet", "No steps", "They are deleted after a while; labelled ones stay.");
    }
}

/** A verdict by its id alone, as links from elsewhere have it. */
export class VerdictView {
    #context;
    #id;

    constructor(context, id) {
        this.#context = context;
        this.#id = id;
        this.element = h("div", { class: "view" }, state("loading", "Looking for the step"));
        this.#find(id);
    }

    get title() {
        return "Step";
    }

    update() {}

    focus() {}

    happened(kind) {
        if (kind === "resumed") this.#find(this.#id);
    }

    leave() {}

    async #find(id) {
        try {
            const verdict = await get(`/api/verdicts/${encodeURIComponent(id)}`);
            const place = `t/${encodeURIComponent(verdict.trajectory_id)}/${encodeURIComponent(verdict.verdict_id)}`;
            this.#context.go(this.#context.route(place), { replace: true });
        } catch (error) {
            fill(this.element, failed(error, () => this.#find(id)));
        }
    }
}

/** All steps at a glance, one stroke each; a click goes there. */
class Overview {
    #list;
    #frame = 0;
    #theme = matchMedia("(prefers-color-scheme: dark)");
    #observer = new ResizeObserver(() => this.draw());
    #again = () => this.draw();

    constructor(list) {
        this.#list = list;
        this.element = h("canvas", { class: "overview", role: "img", "aria-label": "Overview of all steps", height: "24" });
        this.element.addEventListener("click", (event) => {
            const share = event.offsetX / this.element.clientWidth;
            this.#list.select(Math.floor(share * this.#list.items.length));
        });
        this.#observer.observe(this.element);
        this.#theme.addEventListener("change", this.#again);
        addEventListener("verifierd-theme", this.#again);
        list.element.addEventListener("scroll", this.#again, { passive: true });
    }

    leave() {
        cancelAnimationFrame(this.#frame);
        this.#observer.disconnect();
        this.#theme.removeEventListener("change", this.#again);
        removeEventListener("verifierd-theme", this.#again);
    }

    draw() {
        this.#frame ||= requestAnimationFrame(() => {
            this.#frame = 0;
            this.#paint();
        });
    }

    #paint() {
        const { items, active } = this.#list;
        const width = Math.max(1, Math.round(this.element.clientWidth * devicePixelRatio));
        const height = Math.round(24 * devicePixelRatio);
        this.element.hidden = items.length < 2;
        if (this.element.width !== width || this.element.height !== height) Object.assign(this.element, { width, height });
        const style = getComputedStyle(this.element);
        const colours = Object.fromEntries(["on_path", "off_path", "abstain"].map((kind) => [kind, style.getPropertyValue(`--${kind}`)]));
        const pen = this.element.getContext("2d");
        pen.clearRect(0, 0, width, height);
        const stride = width / items.length;
        const strokes = Math.min(items.length, width);
        for (let stroke = 0; stroke < strokes; stroke += 1) {
            const [from, to] = [Math.floor((stroke / strokes) * items.length), Math.floor(((stroke + 1) / strokes) * items.length)];
            const count = { on_path: 0, off_path: 0, abstain: 0 };
            for (let i = from; i < to; i += 1) count[items[i].verdict] += 1;
            const room = width / strokes > 3 ? 1 : 0;
            const bar = (kind, low, high) => {
                pen.fillStyle = colours[kind];
                pen.fillRect((stroke / strokes) * width, height * (1 - high), Math.max(1, width / strokes - room), height * (high - low));
            };
            // Of thousands of steps many share a stroke. What is off path fills it, for it must be seen.
            const decided = (0.7 * count.on_path) / (to - from);
            if (count.off_path) bar("off_path", 0, 1);
            else {
                bar("on_path", 0, decided);
                bar("abstain", decided, decided + (0.4 * count.abstain) / (to - from));
            }
        }
        const { scrollTop, clientHeight, scrollHeight } = this.#list.element;
        pen.fillStyle = style.getPropertyValue("--ink");
        pen.globalAlpha = 0.12;
        if (scrollHeight > clientHeight) pen.fillRect((scrollTop / scrollHeight) * width, 0, (clientHeight / scrollHeight) * width, height);
        pen.globalAlpha = 1;
        if (active >= 0) pen.fillRect(active * stride + stride / 2 - 1, 0, 2 * devicePixelRatio, height);
    }
}

function row(item) {
    const signals = item.signals.filter((name) => name !== item.reason);
    return [
        h("span", { class: "step-number" }, words.number(item.step)),
        h("span", { class: `standing standing-${item.verdict}` }, icon(item.verdict, words.VERDICTS[item.verdict])),
        h("span", { class: "tool", title: item.tool }, data(item.tool)),
        h("span", { class: "action", title: item.action }, data(item.action.replaceAll("\n", " ⏎ "))),
        h(
            "span",
            { class: "chips" },
            item.alarm && h("span", { class: "chip chip-alarm" }, icon("bell"), " alarm"),
            item.label && h("span", { class: "chip chip-label" }, icon("tag"), ` ${words.labelled(item.label)}`),
            signals.slice(0, SIGNALS).map((name) => h("span", { class: "chip" }, words.spaced(name))),
            signals.length > SIGNALS && h("span", { class: "chip", title: signals.join(", ") }, `+${signals.length - SIGNALS}`),
        ),
        h("span", { class: "reason" }, words.spaced(item.reason)),
        h("time", { class: "when", datetime: item.time, title: words.moment(item.time) }, words.moment(item.time).slice(11)),
    ];
}
