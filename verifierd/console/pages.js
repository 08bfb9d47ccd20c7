/** The smaller pages: alarms, lines that could not be read, records of unknown types. */

import { get } from "./api.js";
import { data, failed, fill, h, icon, state } from "./dom.js";
import * as figures from "./figures.js";
import { VirtualList } from "./virtual.js";
import * as words from "./words.js";

class Page {
    update() {}
    focus() {}
    happened() {}
    leave() {}
}

/** Rates and budget, as they move. */
export class FiguresView extends Page {
    title = "Figures";
    element = h("div", { class: "view" }, state("loading", "Loading"));

    constructor(context) {
        super();
        if (context.summary) this.happened("summary", context.summary);
    }

    happened(kind, detail) {
        if (kind === "summary") fill(this.element, figures.page(detail));
    }
}

/** Alarms, open ones first. */
export class AlarmsView extends Page {
    #context;
    #due = 0;
    title = "Alarms";
    element = h("div", { class: "view" }, state("loading", "Loading"));

    constructor(context) {
        super();
        this.#context = context;
        this.#read();
    }

    happened(kind) {
        if (kind === "alarm" || kind === "resumed") this.#due ||= setTimeout(() => this.#read(), 300);
    }

    leave() {
        clearTimeout(this.#due);
    }

    async #read() {
        this.#due = 0;
        try {
            const { open, alarms } = await get("/api/alarms", { limit: 500 });
            fill(this.element, this.#page(open, alarms));
        } catch (error) {
            fill(this.element, failed(error, () => this.#read()));
        }
    }

    #page(open, alarms) {
        if (!alarms.length) return state("on_path", "No alarms", "A trajectory alarms once, when the evidence against it is enough.");
        return h(
            "div",
            { class: "page" },
            h("h1", {}, "Alarms"),
            h("p", { class: "lead" }, `${words.counted(open, "alarm")} open.`),
            h("ul", { class: "cards alarms" }, alarms.map((alarm) => this.#card(alarm))),
        );
    }

    #card(alarm) {
        const known = alarm.acknowledged;
        const acknowledge = async () => (await this.#context.acknowledge(alarm.id)) && this.#read();
        return h(
            "li",
            { class: `card ${known ? "" : "alarmed"}` },
            h("h2", {}, icon("bell"), " ", h("a", { href: `#/v/${encodeURIComponent(alarm.id)}` }, data(alarm.trajectory), ` step ${words.number(alarm.step)}`)),
            h(
                "p",
                {},
                `${words.moment(alarm.time)}, ${words.ago(alarm.time)}. Evidence ${words.figure(alarm.statistic)}, level ${words.figure(alarm.threshold)}.`,
                alarm.first_bad > 0 && ` Suspected since step ${words.number(alarm.first_bad)}.`,
            ),
            known
                ? h("p", { class: "hint" }, `Acknowledged ${words.moment(known.time)} by `, data(known.by || "somebody"), known.note && [": ", data(known.note)])
                : h("button", { type: "button", onclick: acknowledge }, "Acknowledge"),
        );
    }
}

/** Lines that could not be read, the last ones first. */
export class QuarantineView extends Page {
    #list;
    title = "Quarantine";

    constructor() {
        super();
        this.#list = new VirtualList({
            label: "Lines that could not be read",
            key: (item) => item.id ?? `${item.path}:${item.offset}:${item.time}`,
            load: async (after) => {
                const found = await get("/api/quarantine", { limit: 500, after });
                return { items: found.lines, next: found.next };
            },
            render: (item) => [
                h("span", { class: "standing" }, icon("trouble")),
                h("span", { class: "reason" }, words.spaced(item.reason)),
                h("span", { class: "name", title: item.path }, data(item.path)),
                h("span", { class: "place" }, `byte ${words.number(item.offset)}, ${words.bytes(item.length)}`),
                h("time", { class: "when", datetime: item.time, title: words.moment(item.time) }, words.ago(item.time)),
            ],
            empty: () => state("on_path", "Every line could be read"),
        });
        this.element = h(
            "div",
            { class: "view quarantine" },
            h(
                "div",
                { class: "view-head" },
                h("h1", {}, "Quarantine"),
                h("p", { class: "hint" }, "Lines of logs and label files that could not be read. Their content is not kept; the rest of the file went on."),
            ),
            h("div", { class: "list-frame" }, this.#list.element),
        );
        this.#list.reset();
    }

    get list() {
        return this.#list;
    }

    focus() {
        this.#list.focus();
    }

    happened(kind) {
        if (kind === "resumed") this.#list.reset();
    }

    leave() {
        this.#list.destroy();
    }
}

/** Records of types that no adapter knows: a new version of an agent may write them. */
export class UnknownView extends Page {
    title = "Unknown records";
    element = h("div", { class: "view" }, state("loading", "Loading"));

    constructor() {
        super();
        this.#read();
    }

    happened(kind) {
        if (kind === "resumed") this.#read();
    }

    async #read() {
        try {
            fill(this.element, page((await get("/api/unknown")).formats));
        } catch (error) {
            fill(this.element, failed(error, () => this.#read()));
        }
    }
}

function page(formats) {
    const rows = Object.entries(formats).flatMap(([format, types]) => Object.entries(types).map(([type, count]) => [format, type, count]));
    if (!rows.length) return state("on_path", "Every record was of a known type");
    rows.sort((a, b) => b[2] - a[2]);
    return h(
        "div",
        { class: "page" },
        h("h1", {}, "Unknown records"),
        h("p", { class: "lead" }, "Record types that no adapter knows. They were skipped; steps in them were not judged."),
        h(
            "table",
            { class: "plain-table" },
            h("thead", {}, h("tr", {}, ["Format", "Record type", "Count"].map((title) => h("th", { scope: "col" }, title)))),
            h("tbody", {}, rows.map(([format, type, count]) => h("tr", {}, h("td", {}, words.spaced(format)), h("td", {}, data(type)), h("td", { class: "figure-cell" }, words.number(count))))),
        ),
    );
}
