// Light or dark colors: those of the system, until the button selects others.

import { byId } from "./elements.js";
import { keep, recall } from "./storage.js";

const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");

// The page is drawn after this has run, so that it does not flash in the system's colors.
const kept = recall("theme");
if (kept === "light" || kept === "dark") root.dataset.theme = kept;

function isDark() {
  return (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
}

/** Makes the button turn the page light or dark. */
export function addTheme() {
  const name = () =>
    byId("theme").setAttribute("aria-label", isDark() ? "Light colors" : "Dark colors");
  byId("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    keep("theme", root.dataset.theme);
    name();
  });
  system.addEventListener("change", name);
  name();
}
