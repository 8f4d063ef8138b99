// Languages of the runs: their names, and runs with opposite directions.

const NAMES = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

/** The English name of a language, or its code if it is not a standard code. */
export function languageName(code) {
  try {
    return NAMES.of(code);
  } catch {
    return code;
  }
}

/** The languages of a run, such as "English to German"; empty if the run does not name them. */
export function languagesOf({ source_language: source, target_language: target }) {
  return source && target ? `${languageName(source)} to ${languageName(target)}` : "";
}

/** The common source language of all runs, or null. */
export function sourceLanguage(runs) {
  const [language, ...others] = new Set(runs.map((run) => run.source_language));
  return others.length ? null : language;
}

function isOpposite(run, other) {
  const { source_language: source, target_language: target } = run;
  const hasBoth = source && target && source !== target;
  return hasBoth && source === other.target_language && target === other.source_language;
}

/** [The runs to show first, those after a swap]; the same runs if none has an opposite. */
export function directions(runs) {
  const forward = [];
  const backward = [];
  for (const run of runs) {
    (forward.some((one) => isOpposite(one, run)) ? backward : forward).push(run);
  }
  const swapped = runs.filter((run) => !backward.some((one) => isOpposite(one, run)));
  return [forward, swapped];
}
