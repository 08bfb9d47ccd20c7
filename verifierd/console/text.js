/** Long texts as lines with places marked: predicted against observed, deciding spans, surprise. */

import { alone, compare, utf16, widened } from "./diff.js";
import { data, fill, h, unseen } from "./dom.js";
import { counted, figure } from "./words.js";

const CONTEXT = 3; // equal lines kept around what differs
const FOLD = 8; // equal lines in a row that are shown whole
const ROWS = 400; // rows drawn at first, and more by each click
const CHARACTERS = 2000; // of a line drawn at first
const HEAT = [0.5, 1, 2, 4, 6, 9]; // nats at which a warmer colour begins

/** How warm a token is, 0 to 6. */
export function warmth(nats) {
    return HEAT.filter((limit) => nats >= limit).length;
}

/**
 * A verdict's texts: `{element, folds}`, where `folds` says whether equal lines are, or would be, left out.
 *
 * @param verdict Its `predicted`, `observed` and `signals`.
 * @param options.heat Spans [start, end, nats] to colour instead of what differs.
 * @param options.all Leave no equal lines out.
 */
export function comparison(verdict, { heat = null, all = false } = {}) {
    const { predicted, observed } = verdict;
    const place = utf16(observed);
    const marks = verdict.signals
        .filter((signal) => signal.span)
        .map((signal, number) => {
            const [start, end] = widened(observed, ...signal.span.map(place));
            return { start, end, kind: "deciding", title: signal.detail || signal.name, anchor: `span-${number}` };
        });
    const heated = (heat ?? []).map(([start, end, nats]) => ({
        start: place(start),
        end: place(end),
        kind: `heat heat-${warmth(nats)}`,
        title: `${figure(nats)} nats`,
    }));
    const both = predicted !== null && predicted !== observed && !heat;
    const rows = both ? compare(predicted, observed) : alone(observed);
    const body = h("tbody");
    const more = h("div", { class: "more" });
    const some = folded(rows, both, marks);
    const parts = all ? rows.map((row) => [row]) : some;
    let drawn = 0;

    const draw = (count) => {
        const until = Math.min(parts.length, drawn + count);
        for (; drawn < until; drawn += 1) {
            const part = parts[drawn];
            if (part.length === 1) body.append(line(part[0], both, marks, heated));
            else body.append(gap(part, both, marks, heated));
        }
        const left = parts.length - drawn;
        const next = h("button", { type: "button", onclick: () => draw(ROWS) }, `Show more (${counted(left, "row")} left)`);
        fill(more, left > 0 && next);
    };
    draw(ROWS);
    const titles = both ? [heading("Predicted"), heading("Observed")] : [heading(predicted === observed ? "Predicted and observed" : "Observed")];
    const columns = h("colgroup", {}, titles.flatMap(() => [h("col", { class: "number" }), h("col")]));
    const table = h("table", { class: both ? "diff" : "diff diff-one" }, columns, h("thead", {}, h("tr", {}, titles)), body);
    return { element: h("div", { class: "texts" }, table, more), folds: some.length < rows.length };
}

function heading(text) {
    return h("th", { scope: "col", colspan: "2" }, text);
}

/** Rows in parts: one row, or a run of equal rows that may be left out. */
function folded(rows, both, marks) {
    const parts = [];
    let run = [];
    const close = (last) => {
        const front = parts.length ? CONTEXT : 0;
        const back = last ? 0 : CONTEXT;
        if (run.length <= Math.max(FOLD, front + back + 1)) parts.push(...run.map((row) => [row]));
        else {
            parts.push(...run.slice(0, front).map((row) => [row]));
            parts.push(run.slice(front, run.length - back));
            parts.push(...run.slice(run.length - back).map((row) => [row]));
        }
        run = [];
    };
    for (const row of rows) {
        const marked = marks.some(({ start, end }) => meets(row.right, start, end));
        if (both && row.same && !marked) run.push(row);
        else {
            if (run.length) close(false);
            parts.push([row]);
        }
    }
    if (run.length) close(true);
    return parts;
}

function gap(rows, both, marks, heated) {
    const row = h("tr", { class: "gap" });
    const open = () => row.replaceWith(...rows.slice(0, ROWS).map((each) => line(each, both, marks, heated)), ...rest());
    const rest = () => (rows.length > ROWS ? [gap(rows.slice(ROWS), both, marks, heated)] : []);
    row.append(
        h("td", { colspan: "4" }, h("button", { type: "button", onclick: open }, `${counted(rows.length, "equal line")}`)),
    );
    return row;
}

function line(row, both, marks, heated) {
    const cells = both ? [...side(row.left, "predicted"), ...side(row.right, "observed", marks, heated)] : side(row.right, "observed", marks, heated);
    return h("tr", { class: both ? (row.same ? "same" : "changed") : "" }, cells);
}

function side(line, name, marks = [], heated = []) {
    if (!line) return [h("td", { class: `number ${name}` }), h("td", { class: `text ${name} nothing` }, unseen("no such line"))];
    const places = [
        ...line.changes.map(([start, end]) => ({ start, end, kind: "change" })),
        ...[...heated, ...marks].filter(({ start, end }) => meets(line, start, end)).map((mark) => ({
            ...mark,
            start: Math.max(0, mark.start - line.start),
            end: Math.min(line.text.length, mark.end - line.start),
        })),
    ];
    return [
        h("td", { class: `number ${name}` }, String(line.number)),
        h("td", { class: `text ${name} ${line.changes.length ? "has-change" : ""}` }, shortened(line.text, places)),
    ];
}

function meets(line, start, end) {
    if (!line) return false;
    const last = line.start + line.text.length;
    return start === end ? start >= line.start && start <= last : start < last && end > line.start;
}

/** A line with its places; of a very long one the part around the first place, until somebody wants it all. */
function shortened(text, places) {
    const cell = h("div", { class: "line" });
    const show = (start, end) => {
        const rest = (count, whole) =>
            count > 0 &&
            h("button", { type: "button", class: "cut", onclick: () => show(...whole) }, `${counted(count, "character")} more`);
        fill(
            cell,
            rest(start, [Math.max(0, start - 100_000), end]),
            pieces(text, places, start, end),
            rest(text.length - end, [start, Math.min(text.length, end + 100_000)]),
        );
    };
    if (text.length <= 2 * CHARACTERS) show(0, text.length);
    else {
        const first = places.length ? Math.min(...places.map(({ start }) => start)) : 0;
        const start = Math.max(0, first - CHARACTERS / 4);
        show(start, Math.min(text.length, start + CHARACTERS));
    }
    return cell;
}

/** Text cut where places begin and end; each piece with the kinds of all places that cover it. */
function pieces(text, places, from, to) {
    const cuts = new Set([from, to]);
    for (const { start, end } of places) {
        if (start > from && start < to) cuts.add(start);
        if (end > from && end < to) cuts.add(end);
    }
    const edges = [...cuts].sort((a, b) => a - b);
    const found = [];
    for (let i = 0; i < edges.length - 1; i += 1) {
        const [start, end] = [edges[i], edges[i + 1]];
        const covering = places.filter((place) => place.start < end && place.end > start);
        const piece = text.slice(start, end);
        if (!covering.length) found.push(data(piece));
        else {
            const kinds = [...new Set(covering.map(({ kind }) => kind))].join(" ");
            const title = covering.map((place) => place.title).filter(Boolean).join("; ");
            const anchor = covering.find((place) => place.anchor && place.start === start)?.anchor;
            found.push(h("mark", { class: kinds, title: title || null, id: anchor ?? null }, data(piece)));
        }
    }
    for (const { start, end, title, anchor } of places) {
        // Where something is missing there is no text to mark.
        if (start === end && anchor) found.push(h("mark", { class: "deciding missing", title, id: anchor }, unseen("something is missing here")));
    }
    return found;
}
