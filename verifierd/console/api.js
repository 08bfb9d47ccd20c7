/** Asks the daemon. What comes back is JSON; what goes wrong is an `ApiError` with a remedy where there is one. */

/** Why the daemon refused (`status`), or that it did not answer at all (0). */
export class ApiError extends Error {
    constructor(status, message, hint = "") {
        super(message);
        this.status = status;
        this.hint = hint;
    }
}

let signIn = async () => false;
let session = false; // whether we know of one

/** Say how a token is asked for: it resolves to whether there is a session now. */
export function askForTokenBy(ask) {
    signIn = ask;
}

/** Read. Parameters that are empty are left out. */
export async function get(path, parameters = {}) {
    const query = new URLSearchParams();
    for (const [name, value] of Object.entries(parameters)) {
        if (value !== null && value !== undefined && value !== "") query.set(name, value);
    }
    const text = query.toString();
    return withToken(() => call(text ? `${path}?${text}` : path, { headers: { Accept: "application/json" } }));
}

/** Change, which needs a session. */
export async function post(path, body) {
    session ||= (await call("/api/session", {})).session || (await signIn());
    if (!session) throw new ApiError(401, "Changes need the token");
    return withToken(() => send("POST", path, body));
}

/** Begin a session: the token becomes a cookie that no script can read. */
export async function openSession(token) {
    await send("POST", "/api/session", { token });
    session = true;
}

async function withToken(request) {
    try {
        return await request();
    } catch (error) {
        if (error.status !== 401) throw error;
        session = false;
        if (!(await signIn())) throw error;
        return request();
    }
}

function send(method, path, body) {
    return call(path, { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
}

async function call(path, options) {
    let answer;
    try {
        answer = await fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error", ...options });
    } catch {
        throw new ApiError(0, "The daemon does not answer", "Is verifierd running? The page tries again by itself.");
    }
    const text = await answer.text();
    let document = null;
    try {
        document = text ? JSON.parse(text) : null;
    } catch {
        // Below: no JSON is as bad as an error.
    }
    if (!answer.ok || (text && document === null)) {
        const message = document?.error ?? `The daemon answered ${answer.status}`;
        throw new ApiError(answer.status || 500, message, document?.hint ?? "");
    }
    return document;
}
