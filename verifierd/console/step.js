/** One step, whole: what was asked, expected and observed, what decided, what was checked, and what people say of it. */

import { get } from "./api.js";
import { data, failed, fill, h, icon, state } from "./dom.js";
import * as labels from "./labels.js";
import { comparison, warmth } from "./text.js";
import * as words from "./words.js";

/** The page of one verdict. */
export class StepView {
    #context;
    #verdict = null;
    #turn = 0;
    #heat = false;
    #all = false;

    /**
     * @param context.go Show a route.
     * @param context.toast Say something shortly.
     * @param context.link Verdict id -> the route of it here.
     * @param context.back The route that `Esc` and the arrow lead to.
     * @param context.onlabel Step id, label that holds now or null.
     */
    constructor(context) {
        this.#context = context;
        this.element = h("article", { class: "step", tabindex: "-1", "aria-label": "Step" });
    }

    get verdict() {
        return this.#verdict;
    }

    async show(id) {
        const turn = ++this.#turn;
        if (this.#verdict?.verdict_id !== id) {
            this.#heat = false;
            this.#all = false;
            // What is there stays until the other one has come, unless that takes long.
            setTimeout(() => turn === this.#turn && this.#verdict?.verdict_id !== id && this.#wait(), 150);
        }
        try {
            const verdict = await get(`/api/verdicts/${encodeURIComponent(id)}`);
            if (turn !== this.#turn) return;
            const other = this.#verdict?.verdict_id !== verdict.verdict_id;
            this.#verdict = verdict;
            this.#draw();
            if (other) this.element.scrollTop = 0;
        } catch (error) {
            if (turn !== this.#turn) return;
            this.#verdict = null;
            fill(this.element, this.#bar(), failed(error, () => this.show(id)));
        }
    }

    /** Nothing is chosen. */
    clear() {
        this.#turn += 1;
        this.#verdict = null;
        fill(this.element, state("quiet", "No step chosen", "Choose one with a click, or with j, k and Enter."));
    }

    /** A label came in from elsewhere, or was given here. */
    async labelled(stepId) {
        if (this.#verdict?.step_id === stepId) await this.show(this.#verdict.verdict_id);
    }

    async say(label, note = "") {
        const verdict = this.#verdict;
        if (!verdict) return;
        const done = await labels.say(verdict.verdict_id, label, this.#context.toast, note);
        if (!done) return;
        this.#context.onlabel?.(verdict.step_id, done.label?.label ?? null);
        await this.labelled(verdict.step_id);
    }

    /** The step before (-1) or after (1), if there is one. */
    move(by) {
        const there = this.#verdict?.neighbours[by < 0 ? "before" : "after"];
        if (there) this.#context.go(this.#context.link(there));
    }

    #wait() {
        this.#verdict = null;
        fill(this.element, this.#bar(), state("loading", "Loading the step"));
    }

    #draw() {
        const verdict = this.#verdict;
        const held = document.activeElement?.dataset?.label;
        const raw = this.element.querySelector("details.raw")?.open;
        fill(
            this.element,
            this.#bar(),
            h(
                "header",
                { class: `verdict verdict-${verdict.verdict}` },
                h("h1", {}, icon(verdict.verdict), ` Step ${words.number(verdict.step)} `, h("span", { class: "badge" }, words.VERDICTS[verdict.verdict])),
                h("p", { class: "decision" }, `${words.DECISIONS[verdict.verdict]} `, h("span", {}, sentence(words.REASONS[verdict.reason] ?? words.spaced(verdict.reason)))),
                verdict.detail && h("p", { class: "detail" }, data(verdict.detail)),
            ),
            alarm(verdict),
            labels.panel(verdict, (label, note) => this.say(label, note)),
            section("Action", h("p", { class: "hint" }, data(verdict.tool), `, ${verdict.domain}`), quoted(verdict.action)),
            this.#compared(),
            section("Evidence", evidence(verdict)),
            section("Checked", checked(verdict)),
            section("Limits", limits(verdict)),
            section("Time and tokens", timings(verdict)),
            section("Where", where(verdict)),
            this.#raw(raw),
        );
        if (held) this.element.querySelector(`[data-label="${held}"]`)?.focus();
    }

    #bar() {
        const { before = null, after = null } = this.#verdict?.neighbours ?? {};
        const to = (id, name, text) =>
            id
                ? h("a", { class: "plain", href: this.#context.link(id), title: text, "aria-label": text }, icon(name))
                : h("span", { class: "plain off", "aria-hidden": "true" }, icon(name));
        return h(
            "div",
            { class: "step-bar" },
            h("a", { class: "plain back", href: this.#context.back(), title: "Back (Esc)" }, icon("back"), " Timeline"),
            this.#verdict && data(this.#verdict.trajectory, { class: "step-of" }),
            h("span", { class: "around" }, to(before, "back", "Step before (k)"), to(after, "forward", "Step after (j)")),
        );
    }

    #compared() {
        const verdict = this.#verdict;
        if (verdict.predicted === null && !verdict.observed) {
            return section("Observed", h("p", { class: "hint" }, "No text came, or the policy quotes none."));
        }
        const notes = [];
        if (verdict.predicted === null) {
            const partly = verdict.coverage > 0 || verdict.signals.length > 0;
            notes.push(partly ? "No whole text was predicted, only parts of it." : "Nobody could predict it.");
        } else if (verdict.predicted === verdict.observed) {
            notes.push(verdict.observed ? "Exactly what was predicted." : "Nothing was predicted, and nothing came.");
        }
        const heat = this.#heat ? verdict.surprise : null;
        const shown = verdict.observed || verdict.predicted ? comparison(verdict, { heat, all: this.#all }) : null;
        const switched = (name, pressed, act) =>
            h("button", { type: "button", class: "switch", "aria-pressed": String(pressed), onclick: act }, name);
        const controls = h(
            "div",
            { class: "controls" },
            verdict.surprise !== null &&
                switched("Token surprise", this.#heat, () => {
                    this.#heat = !this.#heat;
                    this.#draw();
                }),
            shown?.folds &&
                switched("All lines", this.#all, () => {
                    this.#all = !this.#all;
                    this.#draw();
                }),
        );
        return section(
            "Predicted against observed",
            controls.childElementCount > 0 && controls,
            notes.map((note) => h("p", { class: "hint" }, note)),
            heat && legend(),
            shown?.element,
        );
    }

    #raw(open) {
        const body = h("div", {});
        const read = async () => {
            fill(body, state("loading", "Reading the log"));
            try {
                fill(body, record(await get(`/api/verdicts/${encodeURIComponent(this.#verdict.verdict_id)}/record`)));
            } catch (error) {
                fill(body, failed(error, read));
            }
        };
        const details = h("details", { class: "raw" }, h("summary", {}, h("h2", {}, "Raw record")), body);
        details.addEventListener("toggle", () => details.open && !body.childElementCount && read());
        details.open = Boolean(open);
        return details;
    }
}

function section(title, ...children) {
    return h("section", {}, h("h2", {}, title), children);
}

function sentence(text) {
    return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

function quoted(text) {
    const limit = 4000;
    const block = h("pre", { class: "quote", tabindex: "0" });
    const cut = () =>
        fill(
            block,
            data(text.slice(0, limit)),
            h("button", { type: "button", class: "cut", onclick: () => fill(block, data(text)) }, `${words.counted(text.length - limit, "character")} more`),
        );
    if (text.length > limit) cut();
    else fill(block, data(text || "(none)"));
    return block;
}

function alarm({ alarm: now }) {
    if (!now?.raised) return null;
    const first = now.first_bad ? ` The suspected first bad step is ${words.number(now.first_bad)}.` : "";
    return h(
        "p",
        { class: `notice ${now.new ? "notice-alarm" : ""}`, role: "note" },
        icon("bell"),
        h("span", {}, now.new ? "The trajectory alarmed at this step." : "The trajectory had alarmed before.", first),
    );
}

function evidence({ signals }) {
    if (!signals.length) return h("p", { class: "hint" }, "No signals.");
    return h(
        "ul",
        { class: "signals" },
        signals.map((signal) =>
            h(
                "li",
                {},
                h("b", {}, words.spaced(signal.name)),
                signal.value !== 1 && ` ${words.figure(signal.value)}`,
                words.SIGNALS[signal.name] && h("span", { class: "hint" }, ` ${words.SIGNALS[signal.name]}`),
                signal.detail && h("p", {}, data(signal.detail)),
                signal.span && place(signal, signals),
            ),
        ),
    );
}

function place(signal, signals) {
    const number = signals.filter((other) => other.span).indexOf(signal);
    const look = (event) => {
        const mark = event.target.closest(".step")?.querySelector(`#span-${number}`);
        mark?.scrollIntoView({ block: "center" });
        mark?.animate?.([{ outlineOffset: "6px" }, { outlineOffset: "0" }], { duration: 300 });
    };
    return h("button", { type: "button", class: "link", onclick: look }, `characters ${signal.span[0]} to ${signal.span[1]}`);
}

function checked(verdict) {
    if (verdict.observation_kind !== "env") {
        const kind = words.KINDS[verdict.observation_kind] ?? words.spaced(verdict.observation_kind);
        return h("p", {}, `Nothing: the observation is ${kind}, and only the environment is judged.`);
    }
    const share = verdict.coverage;
    const rest = 1 - share;
    const bar = h("div", { class: "coverage", role: "img", "aria-label": `${words.percent(share)} checked` }, h("span", { class: "pinned" }), h("span", { class: "open" }));
    bar.firstChild.style.flexGrow = share;
    bar.lastChild.style.flexGrow = rest;
    const text =
        share >= 1
            ? "All of the observation's text was pinned and compared."
            : share > 0
              ? `${words.percent(share)} of the observation's text was pinned and compared; the other ${words.percent(rest)} could be anything, so far as was known.`
              : "None of the observation's text was pinned: so far as was known, anything could have come.";
    return [
        bar,
        h(
            "ul",
            { class: "checks" },
            check(share > 0, text),
            check(verdict.status_checked, verdict.status_checked ? "The exit status was compared." : "The exit status was not compared."),
            verdict.tokens.scored > 0 && check(null, "A model's likelihood of all of it was taken, which is a guess and no check."),
        ),
    ];
}

function check(done, text) {
    return h("li", { class: done ? "done" : "open" }, icon(done ? "on_path" : "abstain"), ` ${text}`);
}

function limits(verdict) {
    const rows = [];
    if (verdict.score !== null) {
        let text = `Score ${words.figure(verdict.score)}${verdict.tokens.scored ? " of a model's surprise" : " (0 is as predicted)"}`;
        if (verdict.threshold !== null) {
            text += `, ${verdict.score > verdict.threshold ? "above" : "not above"} ${words.figure(verdict.threshold)}, which few clean steps of all tools exceed`;
        }
        rows.push(`${text}.`);
    }
    rows.push(
        verdict.p_value === null
            ? "No p-value: the step was not compared with clean ones."
            : `p-value ${words.figure(verdict.p_value)}: so odd or odder are ${words.percent(verdict.p_value)} of clean steps.`,
    );
    const now = verdict.alarm;
    if (now) {
        const over = now.statistic > now.threshold ? "above" : "not above";
        rows.push(`Evidence of the trajectory ${words.figure(now.statistic)}, ${over} the level ${words.figure(now.threshold)} of an alarm.`);
    } else rows.push("The step changed nothing of the trajectory's evidence.");
    return h("ul", { class: "plain-list" }, rows.map((row) => h("li", {}, row)));
}

function timings({ seconds, tokens }) {
    const rows = [
        ["prediction", words.seconds(seconds.predict)],
        ["in all", words.seconds(seconds.total)],
        ...["prompt", "cached", "scored", "generated", "computed"].filter((name) => tokens[name]).map((name) => [`${name} tokens`, words.number(tokens[name])]),
    ];
    if (rows.length === 2) rows.push(["tokens", "no model was asked"]);
    return facts(rows);
}

function where(verdict) {
    return facts([
        ["log", [data(verdict.origin.path), ` at byte ${words.number(verdict.origin.offset)}`]],
        ["judged", words.moment(verdict.time)],
        ["policy", h("code", {}, verdict.policy)],
        ["predictor", h("code", {}, verdict.predictor)],
        ["model", verdict.model ? h("code", {}, data(verdict.model)) : "none"],
        ["verdict", h("code", {}, verdict.verdict_id)],
        ["step", h("code", {}, verdict.step_id)],
    ]);
}

function facts(rows) {
    return h("dl", { class: "facts" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

function legend() {
    const steps = [0.5, 1, 2, 4, 6, 9];
    return h(
        "p",
        { class: "legend" },
        "Nats: ",
        steps.map((nats) => h("mark", { class: `heat heat-${warmth(nats)}` }, String(nats))),
        " and more. The warmer, the less the model expected it; what is below is not kept.",
    );
}

function record(found) {
    const length = found.length === null ? "" : `, ${words.bytes(found.length)}`;
    return [
        found.state !== "ok" && h("p", { class: "notice" }, icon("trouble"), h("span", {}, found.note)),
        found.path !== null && h("p", { class: "hint" }, data(found.path), ` at byte ${words.number(found.offset)}${length}`),
        found.text !== null && quoted(found.text),
    ];
}
