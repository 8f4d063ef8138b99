// What the browser keeps on this device. Where it keeps nothing, as in some private windows, the
// page works without.

const PREFIX = "keras_transformer.";

/** What was kept under a name, or null. Another version may have kept it: check its type. */
export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name));
  } catch {
    return null;
  }
}

/** Keeps a value under a name; null forgets it. */
export function keep(name, value) {
  try {
    localStorage.removeItem(PREFIX + name);
    if (value !== null) localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // There is no storage, or it is full.
  }
}
