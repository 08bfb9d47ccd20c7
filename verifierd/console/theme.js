// Before the first paint, so that nobody is dazzled: the theme that was chosen, if one was.
try {
    const chosen = localStorage.getItem("verifierd.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
    // Storage is switched off: the system's theme it is.
}
