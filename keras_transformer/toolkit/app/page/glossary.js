// Terms that a user types or pastes: a line for each source term.

/**
 * Returns {terms}, an object from source terms to lists of targets, or null without terms; or
 * {fault}, what is wrong with a line.
 */
export function readGlossary(text) {
  const terms = new Map();
  for (const [index, line] of text.split("\n").entries()) {
    if (!line.trim()) continue;
    const sign = line.includes("\t") ? "\t" : "=";
    const place = line.indexOf(sign);
    const source = line.slice(0, place).trim();
    const targets = line.slice(place + 1).split("|").map((target) => target.trim());
    if (place < 0 || !source || targets.some((target) => !target || target.includes("\t"))) {
      return { fault: `Line ${index + 1} must have the form “source = target”.` };
    }
    terms.set(source, [...(terms.get(source) ?? []), ...targets]);
  }
  return { terms: terms.size ? Object.fromEntries(terms) : null };
}
