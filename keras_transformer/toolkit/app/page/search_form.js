// Options of a request: an empty field stands for the run's own value.

import { byId, make } from "./elements.js";
import { readGlossary } from "./glossary.js";

const USUAL_N_BEST = 3;
const N_BEST = {
  name: "n_best",
  label: "Best translations to show",
  hint: "How many translations to list for the selected sentence.",
  min: 1,
  step: 1,
  most: "most_beam_size",
  of: "translation",
};
const OWN = {
  markup: {
    label: "Markup of the text",
    hint: "The markup stays as it is. HTML is also shown as a page, whose scripts do not run.",
    choices: { "": "none", html: "HTML", xml: "XML", markdown: "Markdown" },
  },
  keep: {
    label: "Keep unchanged",
    hint: "These parts of the text appear in the translation exactly once.",
    choices: {
      "": "(nothing; variables in markup)",
      auto: "variables, URLs and e-mail addresses",
      numbers: "these and numbers",
      none: "nothing",
    },
  },
  glossary: {
    label: "Terms",
    hint:
      "One term per line: source = target, or with a tab instead of “=”. Separate several targets " +
      "with “|”.",
    placeholder: "house = Haus | Häuser",
  },
};

export class SearchForm {
  /**
   * `runs` come from the JSON interface, `options` are the inputs for their search; `onChange()` is
   * called when an option changes.
   */
  constructor(runs, options, onChange) {
    this.fields = [N_BEST, ...options];
    this.form = byId("options");
    this.inputs = new Map();
    this.output = runs.some(({ kind }) => kind === "translation") ? "translation" : "tree";
    if (runs.some((run) => run.takes_terms)) {
      for (const [name, field] of Object.entries(OWN)) this.addOwn(name, field);
    }
    for (const field of this.fields) {
      const concerned = runs.filter(({ kind }) => !field.of || kind === field.of);
      if (concerned.length) this.add(field, concerned);
    }
    const reset = make("button", "", { type: "reset" }, "Reset");
    this.form.append(reset);
    this.form.addEventListener("reset", () => setTimeout(onChange));
    this.form.addEventListener("change", onChange);
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** What is wrong with the options, or null. */
  get fault() {
    const input = [...this.inputs.values()].find((one) => !one.checkValidity());
    return input ? `${input.labels[0].firstChild.data}: ${input.validationMessage}` : null;
  }

  /** Shows the invalid option. */
  report() {
    this.form.closest("details").open = true;
    this.form.reportValidity();
  }

  /** The fields of a request to a run. */
  settings(run) {
    const search = {};
    for (const field of this.fields) {
      const input = this.inputs.get(field.name);
      if (!input?.value || field.name === "n_best" || (field.of && field.of !== run.kind)) continue;
      search[field.name] = field.choices ? input.value : input.valueAsNumber;
    }
    if (run.kind !== "translation") return { search };
    const wanted = this.inputs.get("n_best").valueAsNumber || USUAL_N_BEST;
    const settings = { search, n_best: Math.min(wanted, search.beam_size ?? run.search.beam_size) };
    if (!run.takes_terms) return settings;
    for (const name of ["markup", "keep"]) {
      const { value } = this.inputs.get(name);
      if (value) settings[name] = value;
    }
    const { terms } = readGlossary(this.inputs.get("glossary").value);
    if (terms) settings.glossary = terms;
    return settings;
  }

  add(field, runs) {
    const values = new Set(runs.map((run) => run.search[field.name] ?? USUAL_N_BEST));
    const value = [...values][0];
    const own = values.size === 1 ? String(field.choices?.[value] ?? value) : "each run’s own";
    let input;
    if (field.choices) {
      const choices = Object.entries(field.choices).map(([choice, words]) =>
        make("option", "", { value: choice }, words),
      );
      input = make("select", "", {}, make("option", "", { value: "" }, `(${own})`), ...choices);
    } else {
      const limits = runs.map((run) => run[field.most ?? `most_${field.name}`] ?? field.max);
      const max = Math.max(...limits);
      const { min, step } = field;
      input = make("input", "", { type: "number", min, max, step, placeholder: own });
    }
    this.append(field.name, field, input);
  }

  /** Adds a field that is not a search option. */
  addOwn(name, field) {
    let input;
    if (field.choices) {
      const choices = Object.entries(field.choices).map(([value, words]) =>
        make("option", "", { value }, words),
      );
      input = make("select", "", {}, ...choices);
    } else {
      const { placeholder } = field;
      input = make("textarea", "", { rows: 3, spellcheck: "false", dir: "auto", placeholder });
      input.addEventListener("input", () =>
        input.setCustomValidity(readGlossary(input.value).fault ?? ""),
      );
    }
    this.append(name, field, input);
  }

  append(name, field, input) {
    input.name = name;
    input.setAttribute("aria-describedby", `hint-${name}`);
    this.inputs.set(name, input);
    const [label, words] = [field.label, field.hint].map((text) =>
      text.replaceAll("translation", this.output),
    );
    const hint = make("p", "muted", { id: `hint-${name}` }, words);
    this.form.append(make("div", "", {}, make("label", "", {}, label, input), hint));
  }
}
