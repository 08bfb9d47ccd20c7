/** Says what was true of a step, and takes it back. */

import { post } from "./api.js";
import { data, h, icon } from "./dom.js";
import { choices, labelled, moment } from "./words.js";

const NAME = "verifierd.by";

/** Whoever sits here, as they called themselves last. */
export function name() {
    try {
        return localStorage.getItem(NAME) ?? "";
    } catch {
        return "";
    }
}

/** Write a label; what came of it, or null: whoever called it was told why. */
export async function say(verdictId, label, toast, note = "") {
    try {
        const done = await post("/api/labels", { id: verdictId, label, by: name(), note });
        const text = label === "undo" ? `Label taken back: ${now(done)}` : `Labelled ${labelled(label)}`;
        const undo = label === "undo" ? null : { text: "Undo", act: () => say(verdictId, "undo", toast) };
        toast(text, { undo, key: verdictId });
        return done;
    } catch (error) {
        if (error.status !== 401) toast([error.message, error.hint].filter(Boolean).join(". "), { bad: true });
        return null;
    }
}

function now(done) {
    return done.label ? `now ${labelled(done.label.label)}` : "now none";
}

/**
 * The buttons of a step, and all that was said of it.
 *
 * @param verdict With its `labels`.
 * @param act Label, note: somebody chose.
 */
export function panel(verdict, act) {
    const holding = verdict.labels.findLast((label) => !label.undone) ?? null;
    const taken = verdict.labels.some((label) => !label.undone && label.source !== "data");
    const note = h("input", { type: "text", maxlength: "2000", placeholder: "Why (optional)", "aria-label": "Note to the label", id: "label-note" });
    const by = h("input", {
        type: "text",
        maxlength: "200",
        placeholder: "Your name",
        "aria-label": "Your name",
        value: name(),
        autocomplete: "name",
        onchange: (event) => {
            try {
                localStorage.setItem(NAME, event.target.value.trim());
            } catch {
                // It is asked for again next time.
            }
        },
    });
    return h(
        "section",
        { class: "labels", "aria-label": "Label" },
        h(
            "div",
            { class: "choices", role: "group", "aria-label": "What was true?" },
            choices(verdict.verdict).map(({ label, key, text }) =>
                h(
                    "button",
                    {
                        type: "button",
                        class: `choice choice-${label}`,
                        "data-label": label,
                        "aria-pressed": String(holding?.label === label),
                        "aria-keyshortcuts": `l ${key}`,
                        title: `l then ${key}`,
                        onclick: () => act(label, note.value),
                    },
                    text,
                ),
            ),
            h(
                "button",
                { type: "button", class: "choice choice-undo", "data-label": "undo", disabled: !taken, title: "l then z", onclick: () => act("undo", "") },
                "Undo",
            ),
        ),
        h("div", { class: "said" }, note, by),
        verdict.labels.length
            ? h("ul", { class: "history", "aria-label": "What was said" }, verdict.labels.toReversed().map((label) => entry(label, label === holding)))
            : h("p", { class: "hint" }, "Nobody has labelled this step."),
    );
}

function entry(label, holds) {
    const who = label.by || { data: "the log itself", file: "a label file" }[label.source] || "somebody";
    return h(
        "li",
        { class: label.undone ? "undone" : "" },
        icon("tag"),
        " ",
        h("b", {}, labelled(label.label)),
        " by ",
        data(who),
        ` ${moment(label.time)}`,
        label.note && [": ", data(label.note)],
        label.undone && ` (taken back ${moment(label.undone)})`,
        holds && h("span", { class: "chip" }, "holds"),
    );
}
