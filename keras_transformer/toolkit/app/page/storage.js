// What the browser stores on this device. If it stores nothing, as in some private windows, the
// page works without it.

const PREFIX = "keras_transformer.";

/** The value stored under a name, or null. Another version may have stored it: check its type. */
export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name));
  } catch {
    return null;
  }
}

/** Stores a value under a name; null deletes it. */
export function keep(name, value) {
  try {
    localStorage.removeItem(PREFIX + name);
    if (value !== null) localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // There is no storage, or it is full.
  }
}
