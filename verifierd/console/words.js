/** The verdicts' vocabulary, in words for people; and how figures and times are written. */

export const VERDICTS = { on_path: "on path", off_path: "off path", abstain: "abstained" };

export const DECISIONS = {
    on_path: "What could be known was checked, and reality agrees.",
    off_path: "Reality departed from what had to come.",
    abstain: "Not decided.",
};

export const REASONS = {
    as_predicted: "what was checked is as predicted",
    contradiction: "something that follows from the history is contradicted",
    echoed_call: "the call itself came back instead of a result",
    error_flip: "success was certain and it failed, or the reverse",
    status: "another exit status was certain",
    surprise: "a model found what came less likely than all but very few steps of clean trajectories",
    unpredictable: "what came depends on state that nobody has shown",
    uncalibrated: "a model expected something else, and nobody has measured how often it is wrong",
    role_break: "the model fell out of its role; that says nothing of the agent",
    truncated: "the model's prediction was cut by its cap; that says nothing of the agent",
    racy: "a call that ran at the same time may have changed the state",
    not_env: "the observation is not the environment's answer",
    too_long: "the observation is too long for the model",
    timeout: "there was no prediction in time",
    predictor_error: "the predictor failed",
};

export const KINDS = {
    harness_error: "an error of the harness around the agent",
    policy_denied: "a refusal, by a person or a rule",
    still_running: "of a command that still runs",
    poll: "a look at a command that runs",
    stub: "a placeholder for what the log left out",
    interrupted: "of a command that was interrupted",
    missing: "missing from the log",
};

export const SIGNALS = {
    contradiction: "certain, and contradicted",
    echoed_call: "the call itself came back instead of a result",
    error_flip: "success where failure was expected, or the reverse",
    status: "another exit status than expected",
    unusual: "hardly ever so on clean logs, but possible",
    suspect: "a model expected something else; a guess",
    surprise: "unlikely to the model",
    stale: "repeats an earlier observation; a hint only",
    foreign: "seems to answer another action; a hint only",
    injection: "reads like an instruction to the agent; a hint only",
    inexact: "equal only after harmless differences were taken off",
    role_break: "the model did not predict an observation",
    truncated: "the prediction was cut",
    timeout: "no prediction in time",
    predictor_error: "a predictor failed",
};

/** What a label says of a verdict. */
export function labelled(label) {
    return { on_path: "on path", off_path: "off path", unsure: "unsure" }[label] ?? String(label);
}

/** What the buttons say: on an alarm, "on path" means that it was a false one. */
export function choices(verdict) {
    return [
        { label: "off_path", key: "o", text: "Really off-path" },
        { label: "on_path", key: "f", text: verdict === "off_path" ? "False alarm" : "Really on path" },
        { label: "unsure", key: "u", text: "Unsure" },
    ];
}

export function spaced(name) {
    return String(name).replaceAll("_", " ");
}

export function counted(count, noun, plural = `${noun}s`) {
    return `${number(count)} ${count === 1 ? noun : plural}`;
}

export function number(value) {
    return Number(value).toLocaleString("en");
}

/** Four digits that count. */
export function figure(value) {
    return value === null || value === undefined ? "none" : String(Number(Number(value).toPrecision(4)));
}

export function percent(share, digits = 2) {
    if (share === null || share === undefined) return "no data";
    const value = 100 * share;
    return `${Number(value.toPrecision(value >= 10 ? digits + 1 : digits))} %`;
}

export function seconds(value) {
    if (value >= 100) return `${Math.round(value)} s`;
    if (value >= 1) return `${value.toFixed(1)} s`;
    if (value >= 0.01) return `${Math.round(1000 * value)} ms`;
    if (value >= 0.001) return `${(1000 * value).toFixed(1)} ms`;
    return value > 0 ? "< 1 ms" : "none";
}

export function bytes(value) {
    if (value < 1024) return `${value} B`;
    return value < 1024 ** 2 ? `${(value / 1024).toFixed(1)} KiB` : `${(value / 1024 ** 2).toFixed(1)} MiB`;
}

/** How long ago, roughly. */
export function ago(time) {
    const past = (Date.now() - Date.parse(time)) / 1000;
    if (Number.isNaN(past)) return "";
    if (past < 5) return "now";
    if (past < 60) return `${Math.round(past)} s ago`;
    if (past < 3600) return `${Math.round(past / 60)} min ago`;
    if (past < 86_400) return `${Math.round(past / 3600)} h ago`;
    return `${Math.round(past / 86_400)} d ago`;
}

/** A moment, in the reader's time zone. */
export function moment(time) {
    const when = new Date(time);
    if (Number.isNaN(when.getTime())) return String(time ?? "");
    const pad = (part) => String(part).padStart(2, "0");
    const day = `${when.getFullYear()}-${pad(when.getMonth() + 1)}-${pad(when.getDate())}`;
    return `${day} ${pad(when.getHours())}:${pad(when.getMinutes())}:${pad(when.getSeconds())}`;
}
