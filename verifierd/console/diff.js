/**
 * What differs between two texts: lines first, then the words within lines that changed.
 *
 * Effort is bounded. Where texts differ too much for a shortest answer, what differs is shown as one block.
 */

const MOST_EDITS = 600; // of lines
const MOST_PAIRS = 250_000; // of words compared with words
const MOST_CHARACTERS = 20_000; // of a line whose words are compared
const LONGEST_WORD = 40; // that is marked whole where a part of it changed

/**
 * Two texts, row by row: `{left, right, same}`, each side `{number, start, text, changes}` or null where the other
 * text has a line more. `start` is where the line begins in its text; `changes` are [start, end] within the line.
 */
export function compare(left, right) {
    const a = lines(left);
    const b = lines(right);
    let head = 0;
    while (head < a.length && head < b.length && a[head].text === b[head].text) head += 1;
    let tail = 0;
    while (
        tail < a.length - head &&
        tail < b.length - head &&
        a[a.length - 1 - tail].text === b[b.length - 1 - tail].text
    ) {
        tail += 1;
    }
    const rows = [];
    for (let i = 0; i < head; i += 1) rows.push(equal(a[i], b[i]));
    for (const [aStart, aEnd, bStart, bEnd, same] of blocks(a.slice(head, a.length - tail), b.slice(head, b.length - tail))) {
        if (same) {
            for (let i = 0; i < aEnd - aStart; i += 1) rows.push(equal(a[head + aStart + i], b[head + bStart + i]));
        } else rows.push(...paired(a.slice(head + aStart, head + aEnd), b.slice(head + bStart, head + bEnd)));
    }
    for (let i = tail; i > 0; i -= 1) rows.push(equal(a[a.length - i], b[b.length - i]));
    return rows;
}

/** One text as rows of `compare`. */
export function alone(text) {
    return lines(text).map((line) => ({ left: null, right: line, same: true }));
}

/** Offsets in characters, as the daemon counts them, as offsets in UTF-16, as browsers do. */
export function utf16(text) {
    if (!/[\ud800-\udbff]/.test(text)) return (offset) => Math.min(offset, text.length);
    const wide = []; // the character numbers of those that take two units
    let count = 0;
    for (const character of text) {
        if (character.length === 2) wide.push(count);
        count += 1;
    }
    return (offset) => {
        let low = 0;
        let high = wide.length;
        while (low < high) {
            const middle = (low + high) >> 1;
            if (wide[middle] < offset) low = middle + 1;
            else high = middle;
        }
        return Math.min(offset + low, text.length);
    };
}

function lines(text) {
    const found = [];
    let start = 0;
    for (const line of text.split("\n")) {
        found.push({ number: found.length + 1, start, text: line, changes: [] });
        start += line.length + 1;
    }
    if (found.length > 1 && found.at(-1).text === "") found.pop(); // the end of the last line begins no other one
    return found;
}

function equal(left, right) {
    return { left, right, same: true };
}

function paired(a, b) {
    const rows = [];
    for (let i = 0; i < Math.max(a.length, b.length); i += 1) {
        const left = a[i] ?? null;
        const right = b[i] ?? null;
        if (left && right) [left.changes, right.changes] = words(left.text, right.text);
        else if (left) left.changes = [[0, left.text.length]];
        else right.changes = [[0, right.text.length]];
        rows.push({ left, right, same: false });
    }
    return rows;
}

/** Runs of lines [aStart, aEnd, bStart, bEnd, same] that make one text into the other, by as few edits as possible. */
function blocks(a, b) {
    if (!a.length && !b.length) return [];
    if (!a.length || !b.length) return [[0, a.length, 0, b.length, false]];
    const trace = shortest(a, b);
    if (trace === null) return [[0, a.length, 0, b.length, false]];
    const matches = [];
    let x = a.length;
    let y = b.length;
    for (let d = trace.length - 1; d >= 0; d -= 1) {
        const reached = trace[d];
        const k = x - y;
        const down = k === -d || (k !== d && at(reached, k - 1) < at(reached, k + 1));
        const from = d === 0 ? 0 : down ? k + 1 : k - 1;
        const fromX = d === 0 ? 0 : at(reached, from);
        const fromY = d === 0 ? 0 : fromX - from;
        while (x > fromX && y > fromY && a[x - 1].text === b[y - 1].text) {
            x -= 1;
            y -= 1;
            matches.push([x, y]);
        }
        x = fromX;
        y = fromY;
    }
    return runs(matches.reverse(), a.length, b.length);
}

/** For each number of edits, how far each diagonal was reached before; null if it takes too many. */
function shortest(a, b) {
    let reached = new Map([[1, 0]]);
    const trace = [];
    for (let d = 0; d <= Math.min(MOST_EDITS, a.length + b.length); d += 1) {
        trace.push(reached);
        const next = new Map();
        for (let k = -d; k <= d; k += 2) {
            const down = k === -d || (k !== d && at(reached, k - 1) < at(reached, k + 1));
            let x = down ? at(reached, k + 1) : at(reached, k - 1) + 1;
            let y = x - k;
            while (x < a.length && y < b.length && a[x].text === b[y].text) {
                x += 1;
                y += 1;
            }
            next.set(k, x);
            if (x >= a.length && y >= b.length) return trace;
        }
        reached = next;
    }
    return null;
}

function at(reached, k) {
    return reached.get(k) ?? -1;
}

function runs(matches, aLength, bLength) {
    const found = [];
    let [a, b] = [0, 0];
    for (const [x, y] of [...matches, [aLength, bLength]]) {
        if (x > a || y > b) found.push([a, x, b, y, false]);
        if (x === aLength && y === bLength) break;
        const last = found.at(-1);
        if (last?.[4] && last[1] === x && last[3] === y) {
            last[1] += 1;
            last[3] += 1;
        } else found.push([x, x + 1, y, y + 1, true]);
        [a, b] = [x + 1, y + 1];
    }
    return found;
}

/** The changes of either line. */
function words(left, right) {
    let head = 0;
    while (head < left.length && head < right.length && left[head] === right[head]) head += 1;
    let tail = 0;
    while (
        tail < left.length - head &&
        tail < right.length - head &&
        left[left.length - 1 - tail] === right[right.length - 1 - tail]
    ) {
        tail += 1;
    }
    let least = Math.max(0, head - LONGEST_WORD);
    while (head > least && inWord(left, head - 1) && (inWord(left, head) || inWord(right, head))) head -= 1;
    least = Math.max(0, tail - LONGEST_WORD);
    while (
        tail > least &&
        inWord(left, left.length - tail) &&
        (inWord(left, left.length - tail - 1) || inWord(right, right.length - tail - 1))
    ) {
        tail -= 1;
    }
    const [a, b] = [left.slice(head, left.length - tail), right.slice(head, right.length - tail)];
    const [before, after] = [tokens(a), tokens(b)];
    if (before.length * after.length > MOST_PAIRS || a.length + b.length > MOST_CHARACTERS) {
        return [whole(head, a.length), whole(head, b.length)];
    }
    return common(before, after, head);
}

/** Half a word that is marked reads worse than a whole one: a place [start, end] with the words at its edges. */
export function widened(text, start, end) {
    if (start === end) return [start, end]; // nothing is there to be marked
    let [first, last] = [start, end];
    while (first > Math.max(0, start - LONGEST_WORD) && inWord(text, first - 1) && inWord(text, first)) first -= 1;
    while (last < Math.min(text.length, end + LONGEST_WORD) && inWord(text, last) && inWord(text, last - 1)) last += 1;
    return [first, last];
}

function inWord(text, index) {
    return /\w/.test(text[index] ?? "");
}

function whole(start, length) {
    return length ? [[start, start + length]] : [];
}

function tokens(text) {
    return text.match(/\w+|\s+|[^\w\s]/gu) ?? [];
}

/** What of two rows of words is not in their longest common part. */
function common(a, b, start) {
    const width = b.length + 1;
    const best = new Uint32Array((a.length + 1) * width);
    for (let i = a.length - 1; i >= 0; i -= 1) {
        for (let j = b.length - 1; j >= 0; j -= 1) {
            best[i * width + j] =
                a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
        }
    }
    const [left, right] = [[], []];
    let [i, j, x, y] = [0, 0, start, start];
    while (i < a.length || j < b.length) {
        if (i < a.length && j < b.length && a[i] === b[j]) {
            x += a[i].length;
            y += b[j].length;
            i += 1;
            j += 1;
        } else if (i < a.length && (j >= b.length || best[(i + 1) * width + j] >= best[i * width + j + 1])) {
            mark(left, x, (x += a[i].length));
            i += 1;
        } else {
            mark(right, y, (y += b[j].length));
            j += 1;
        }
    }
    return [left, right];
}

function mark(changes, start, end) {
    if (changes.at(-1)?.[1] === start) changes.at(-1)[1] = end;
    else changes.push([start, end]);
}
