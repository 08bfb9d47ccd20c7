/** How often the verdicts are wrong, as far as labels tell, and what is left of the false-alarm budget. */

import { fill, h, svg, unseen } from "./dom.js";
import { counted, number, percent } from "./words.js";

const RATES = [
    ["fpr", "False positives", "of the labelled steps that were on path, so many were called off path"],
    ["fnr", "False negatives", "of the labelled steps that were off path, so many were not called so"],
    ["abstention", "Abstentions", "of all verdicts, so many decided nothing"],
];

/** The strip above every page. */
export function strip(element, summary) {
    const { rates, budget, alarms_open: alarms } = summary;
    fill(
        element,
        h(
            "a",
            { class: `figure figure-alarms ${alarms ? "raised" : ""}`, href: "#/alarms", title: "Open alarms" },
            h("b", {}, number(alarms)),
            h("span", {}, alarms === 1 ? "open alarm" : "open alarms"),
        ),
        RATES.map(([name, title, meaning]) =>
            h(
                "a",
                { class: `figure figure-${name}`, href: "#/figures", title: `${title}: ${meaning}` },
                h("b", {}, percent(rates[name].value)),
                h("span", {}, title.toLowerCase()),
                interval(rates[name]),
            ),
        ),
        h(
            "a",
            { class: `figure figure-budget ${spent(budget) > 1 ? "raised" : ""}`, href: "#/figures", title: budgetText(budget) },
            h("b", {}, spent(budget) === null ? percent(budget.realised.value) : percent(spent(budget))),
            h("span", {}, spent(budget) === null ? "false alarms" : "of the false-alarm budget"),
            meter(spent(budget)),
        ),
    );
}

/** The page of figures. */
export function page(summary) {
    const { rates, budget, verdicts } = summary;
    const total = Object.values(verdicts).reduce((sum, count) => sum + count, 0);
    return h(
        "div",
        { class: "page figures" },
        h("h1", {}, "Figures"),
        h(
            "p",
            { class: "lead" },
            rates.labelled
                ? `${counted(rates.labelled, "verdict")} of ${number(total)} labelled, in the log or by people.`
                : `None of ${counted(total, "verdict")} is labelled yet. Open a step and say whether it was really off path.`,
            rates.pending ? ` ${counted(rates.pending, "label")} wait for their verdict.` : "",
        ),
        h(
            "div",
            { class: "cards" },
            RATES.map(([name, title, meaning]) => {
                const rate = rates[name];
                return h(
                    "section",
                    { class: `card figure-${name}` },
                    h("h2", {}, title),
                    h("p", { class: "big" }, percent(rate.value)),
                    interval(rate, true),
                    h("p", {}, between(rate)),
                    h("p", { class: "hint" }, `${meaning[0].toUpperCase()}${meaning.slice(1)}.`),
                );
            }),
            h(
                "section",
                { class: "card figure-budget" },
                h("h2", {}, spent(budget) === null ? "False alarms" : "False-alarm budget used"),
                h("p", { class: "big" }, percent(spent(budget) ?? budget.realised.value)),
                meter(spent(budget)),
                h("p", {}, between(budget.realised, "trajectory", "trajectories")),
                h("p", { class: "hint" }, budgetText(budget)),
            ),
        ),
        h("h2", {}, "Verdicts"),
        h(
            "dl",
            { class: "facts" },
            Object.entries(verdicts).flatMap(([kind, count]) => [
                h("dt", {}, kind.replaceAll("_", " ")),
                h("dd", {}, `${number(count)} (${percent(total ? count / total : null)})`),
            ]),
            facts(summary),
        ),
        h(
            "p",
            { class: "hint" },
            "Intervals hold 95 %. The labelled steps are not drawn by chance: whoever labels alarms alone measures precision.",
        ),
    );
}

function facts(summary) {
    return [
        ["policy", summary.policy],
        ["predictor", summary.predictor],
        ["model", summary.model ?? "none"],
        ["version", summary.version],
    ].flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, h("code", {}, String(value ?? "unknown")))]);
}

function between(rate, noun = "verdict", plural = "verdicts") {
    if (rate.value === null) return "There is nothing yet that could tell.";
    return `Between ${percent(rate.low)} and ${percent(rate.high)}, of ${counted(rate.n, noun, plural)}.`;
}

/** A rate's interval on a line from 0 to 100 %. */
function interval(rate, wide = false) {
    if (rate.value === null) return null;
    const { low, high } = rate;
    const x = (share) => 3 + 94 * Math.min(1, Math.max(0, share));
    return h(
        "span",
        { class: wide ? "interval wide" : "interval" },
        svg(
            "svg",
            { viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
            svg("line", { class: "axis", x1: 3, x2: 97, y1: 4, y2: 4 }),
            svg("line", { class: "range", x1: x(low), x2: Math.max(x(high), x(low) + 1), y1: 4, y2: 4 }),
            svg("rect", { class: "value", x: x(rate.value) - 1, width: 2, y: 0, height: 8 }),
        ),
        unseen(`between ${percent(low)} and ${percent(high)}`),
    );
}

function meter(ratio) {
    if (ratio === null) return null;
    const share = Math.min(1, Math.max(0, ratio));
    return svg(
        "svg",
        { class: `meter ${ratio > 1 ? "over" : ""}`, viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
        svg("rect", { class: "axis", width: 100, height: 8 }),
        svg("rect", { class: "value", width: 100 * share, height: 8 }),
    );
}

/** The share of the budget that is used; null where the policy sets none. */
function spent(budget) {
    return budget.ratio;
}

function budgetText(budget) {
    const { alpha, realised, false_alarms: wrong, trajectories } = budget;
    const found = realised.value === null ? "No trajectory was judged yet." : `Of ${counted(trajectories, "trajectory", "trajectories")} ${number(wrong)} alarmed at a step that is labelled on path: ${percent(realised.value)}.`;
    const allowed = alpha === null ? "The policy is not calibrated and promises no rate." : `The policy allows ${percent(alpha)}.`;
    return `${found} ${allowed}`;
}
